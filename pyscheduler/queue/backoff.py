"""backoffQ: pods whose attempt failed, and that must wait before the next attempt.

This wait is the backoff. It doubles with each failure: with the defaults, 1 s, 2 s, 4 s, 8 s, and then always 10 s.

With the feature gate SchedulerPopFromBackoffQ, rejected pods are retried before their backoff is over
if activeQ is empty.

Differs from kube-scheduler: backoffs do not depend on the wall clock.
Source: kube-scheduler 1.36, `backoff_queue.go`.
"""

from __future__ import annotations

from math import floor, inf
from typing import TYPE_CHECKING, Final

from pyscheduler.framework.cycle_state import AfterFailure
from pyscheduler.queue.early_retry import listens
from pyscheduler.queue.heap import PodHeap, SortKey
from pyscheduler.queue.tick_timer import TickTimer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from kube_objects.clock import Clock
    from pyscheduler.framework.pod_info import QueuedPodInfo
    from pyscheduler.framework.recorder import Recorder

__all__ = ["BackoffQueue", "must_serve_backoff"]

#: Pods whose backoff ends in the same window are in QueueSort's order; pods leave at the end of a window. Seconds.
WINDOW_SECONDS: Final = 1.0
#: More doublings than this exceed any maximum.
_MAX_DOUBLINGS: Final = 62


def must_serve_backoff(info: QueuedPodInfo) -> None:
    """Let a pod that is not in backoffQ serve the backoff after its last attempt in full."""
    if info.after_failure is None:
        info.after_failure = AfterFailure()
    info.after_failure.serve_backoff = True


class BackoffQueue:
    """Pods in backoff: those that plugins rejected, and those that failed with an error.

    `holding` names the profiles whose pods the queue order never pops. A pod caches the end of its backoff in
    `backoff_until`; code that changes its failure counts or `enqueued_at` sets that to None.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        recorder: Recorder,
        sort_key: SortKey,
        initial_seconds: float,
        max_seconds: float,
        pop_early: bool,
        holding: Collection[str] = (),
    ) -> None:
        self._clock = clock
        self._recorder = recorder
        self._sort_key = sort_key
        self._initial = initial_seconds
        self._max = max_seconds
        self.pop_early = pop_early
        self._holding = holding
        self.rejected = PodHeap(self._window_key if pop_early else self.end_of_backoff)
        #: Rejected, and not to be popped before the backoff ends.
        self.serving = PodHeap(self._window_key if pop_early else self.end_of_backoff)
        self.failed = PodHeap(self.end_of_backoff)
        self._heaps = (self.rejected, self.serving, self.failed)
        #: Pods that an event can bring back before their backoff ends, by uid.
        self.listening: dict[str, QueuedPodInfo] = {}
        self._timer = TickTimer(clock, WINDOW_SECONDS)

    def start(self, flush: Callable[[float], object]) -> None:
        """Call `flush` with the time at each tick at which some pod has completed its backoff."""
        self._timer.start(flush, origin=0.0 if self.pop_early else self._clock.now())
        self.arm()

    def stop(self) -> None:
        """Stop the timer."""
        self._timer.stop()

    def arm(self) -> None:
        """Set the timer for the next end of a backoff."""
        for heap in self._heaps:
            first = heap.peek()
            if first is not None:
                self._timer.arm(self.end_of_backoff(first))

    def duration(self, failures: int) -> float:
        """Return the backoff in seconds after that number of failures."""
        if failures == 0:
            return 0.0
        return float(min(self._initial * 2 ** min(failures - 1, _MAX_DOUBLINGS), self._max))

    def end_of_backoff(self, info: QueuedPodInfo) -> float:
        """Return when the pod's backoff ends, in clock seconds; minus infinity if it has none."""
        failures = info.consecutive_errors or info.unschedulable_count
        if self._max == 0 or failures == 0:
            return -inf
        if info.backoff_until is None:
            info.backoff_until = self._align(info.enqueued_at + self.duration(failures))
        return info.backoff_until

    def is_backing_off(self, info: QueuedPodInfo, now: float | None = None) -> bool:
        """Return True until the window ends in which the pod's backoff ends."""
        return self.end_of_backoff(info) >= self._align(self._clock.now() if now is None else now)

    def add(self, info: QueuedPodInfo, event: str) -> None:
        """Add a pod; `event` is the reason in scheduler_queue_incoming_pods_total."""
        self.put(info)
        self._recorder.count("scheduler_queue_incoming_pods_total", "backoff", event)

    def put(self, info: QueuedPodInfo) -> None:
        """Add a pod without counting it."""
        is_held = bool(self._holding) and info.pod.scheduler_name in self._holding
        if not (info.unschedulable_plugins or info.pending_plugins):
            self.failed.put(info)
        elif is_held or (info.after_failure is not None and info.after_failure.serve_backoff):
            self.serving.put(info)
        else:
            self.rejected.put(info)
        if listens(info) and not is_held:
            self.listening[info.pod.uid] = info
        self._timer.arm(self.end_of_backoff(info))

    def resort(self, infos: Iterable[QueuedPodInfo]) -> None:
        """Sort again those of the pods that are here."""
        infos = list(infos)
        for heap in self._heaps:
            heap.resort(infos)

    def remove(self, uid: str) -> QueuedPodInfo | None:
        """Remove the pod and return it; None if it is not here."""
        self.listening.pop(uid, None)
        return self.rejected.remove(uid) or self.serving.remove(uid) or self.failed.remove(uid)

    def pop_early_one(self) -> QueuedPodInfo | None:
        """Remove and return the first rejected pod; None if there is none, or pods must wait for the end of backoff."""
        info = self.rejected.pop() if self.pop_early else None
        if info is not None:
            self.listening.pop(info.pod.uid, None)
        return info

    def pop_completed(self, now: float) -> list[QueuedPodInfo]:
        """Remove and return all pods whose backoff is over at `now`: first the rejected pods, then the failed ones."""
        completed = []
        for heap in self._heaps:
            while (first := heap.peek()) is not None and not self.is_backing_off(first, now):
                heap.pop()
                self.listening.pop(first.pod.uid, None)
                completed.append(first)
        return completed

    def get(self, uid: str) -> QueuedPodInfo | None:
        """Return the pod, or None if it is not here."""
        return self.rejected.get(uid) or self.serving.get(uid) or self.failed.get(uid)

    def in_order(self) -> list[QueuedPodInfo]:
        """Return all pods in the order in which their backoff ends; O(n log n), for the debugger."""
        return sorted((info for heap in self._heaps for info in heap.in_order()), key=self.end_of_backoff)

    def __contains__(self, uid: str) -> bool:
        return any(uid in heap for heap in self._heaps)

    def __len__(self) -> int:
        return sum(len(heap) for heap in self._heaps)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        for heap in self._heaps:
            yield from heap

    def check_invariants(self) -> None:
        """Raise AssertionError if a heap is inconsistent or a pod is in the wrong one."""
        for heap in self._heaps:
            heap.check_invariants()
        for info in (*self.rejected, *self.serving):
            assert info.unschedulable_plugins or info.pending_plugins, f"no plugin rejected pod {info.pod.key}"
        for info in self.rejected:
            assert info.pod.scheduler_name not in self._holding, f"held pod {info.pod.key} could be popped"
        wanted = {info.pod.uid for info in self if listens(info) and info.pod.scheduler_name not in self._holding}
        assert self.listening.keys() == wanted, "the index of listening pods is wrong"
        for info in self.failed:
            rejectors = info.rejectors
            assert not rejectors, f"pod {info.pod.key} was rejected, yet waits among the failed"

    def end_at(self, info: QueuedPodInfo, moment: float) -> None:
        """End the pod's backoff at `moment` if it would end later; the pod must not be in a heap."""
        info.backoff_until = min(self.end_of_backoff(info), self._align(moment))

    def _window_key(self, info: QueuedPodInfo) -> tuple[float, object]:
        return self.end_of_backoff(info), self._sort_key(info)

    def _align(self, moment: float) -> float:
        return floor(moment / WINDOW_SECONDS) * WINDOW_SECONDS if self.pop_early else moment
