"""The times at which plugins want rejected pods to be retried (`Status.retry_after_seconds`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler.queue.heap import PodHeap

if TYPE_CHECKING:
    from collections.abc import Callable

    from kube_objects.clock import Clock, Timer
    from pyscheduler.framework.pod_info import QueuedPodInfo

__all__ = ["LEAST_SECONDS", "RetryTimes"]

#: The shortest time between a rejection and its retry. With SchedulerPopFromBackoffQ a pod may skip its backoff, so a
#: plugin that asks for a retry at once would keep the scheduler busy with one pod.
LEAST_SECONDS: Final = 1.0


class RetryTimes:
    """The unschedulable pods that have a `retry_at`, the earliest first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap = PodHeap(_retry_at)
        self._retry: Callable[[list[QueuedPodInfo]], object] | None = None
        self._timer: Timer | None = None
        self._when = 0.0

    def start(self, retry: Callable[[list[QueuedPodInfo]], object]) -> None:
        """Call `retry` with the pods whose moment has come; they have no `retry_at` any more."""
        self._retry = retry
        self._arm()

    def stop(self) -> None:
        """Stop the timer."""
        self._retry = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def put(self, info: QueuedPodInfo) -> None:
        """Add a pod, or take over its new moment; drop a pod without one."""
        if info.retry_at is None:
            self._heap.remove(info.pod.uid)
        else:
            self._heap.put(info)
            self._arm()

    def remove(self, uid: str) -> None:
        """Drop a pod, if it is here."""
        self._heap.remove(uid)

    def check_invariants(self) -> None:
        """Raise AssertionError if the heap is inconsistent."""
        self._heap.check_invariants()

    def __contains__(self, uid: str) -> bool:
        return uid in self._heap

    def __len__(self) -> int:
        return len(self._heap)

    def _arm(self) -> None:
        first = self._heap.peek()
        if first is None or self._retry is None:
            return
        when = _retry_at(first)
        if self._timer is not None:
            if self._when <= when:
                return
            self._timer.cancel()
        self._when = when
        self._timer = self._clock.call_at(when, self._go_off)

    def _go_off(self) -> None:
        # An event loop's timers can fire a little earlier, within the clock's resolution.
        now = max(self._when, self._clock.now())
        self._timer = None
        due = []
        while (first := self._heap.peek()) is not None and _retry_at(first) <= now:
            self._heap.pop()
            first.retry_at = None
            due.append(first)
        if due and self._retry is not None:
            self._retry(due)
        self._arm()


def _retry_at(info: QueuedPodInfo) -> float:
    assert info.retry_at is not None, "only pods with a moment are here"
    return info.retry_at
