"""backoffQ: pods that deserve another attempt, but not yet.

A pod waits the longer the more often it failed: the initial backoff, doubled with each failure up to the maximum,
counted from when it came back. Rejections and errors are counted apart, because the waits are for different things: a
rejected pod has wasted a cycle, while an error means that something (the API server, say) may be overloaded. So there
are two heaps, and only the rejected pods may be taken early; those among them that a plugin told to serve their backoff
(`AfterFailure.serve_backoff`) have a third.

Taking them early is SchedulerPopFromBackoffQ: when activeQ is empty, the first rejected pod is popped from here,
backoff or no backoff. To make "first" mean something, ends of backoff are cut down to whole seconds; within such a
window pods are in QueueSort's order, and a window leaves as a whole, at the first whole second after it. Without the
feature ends of backoff are exact, only they decide the order, and completed pods leave once a second, counted from the
start.

Source: kube-scheduler 1.36, `backoff_queue.go`. Whole seconds are the clock's (upstream's are the wall clock's; nobody
can tell the difference).
"""

from __future__ import annotations

from math import floor, inf
from typing import TYPE_CHECKING, Final

from pyscheduler.queue.early_retry import listens
from pyscheduler.queue.heap import PodHeap, SortKey
from pyscheduler.queue.tick_timer import TickTimer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyscheduler.framework.clock import Clock
    from pyscheduler.framework.pod_info import QueuedPodInfo
    from pyscheduler.framework.recorder import Recorder

__all__ = ["BackoffQueue"]

#: Width of an ordering window, and time between two looks at what is completed, in seconds.
WINDOW_SECONDS: Final = 1.0
#: More doublings than this exceed any maximum.
_MAX_DOUBLINGS: Final = 62


class BackoffQueue:
    """Pods in backoff: those that plugins rejected, and those that failed with an error.

    A pod knows its end of backoff (`backoff_until`) from when it is first asked for; whoever changes its counters or
    `enqueued_at` sets that back to None.
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
    ) -> None:
        self._clock = clock
        self._recorder = recorder
        self._sort_key = sort_key
        self._initial = initial_seconds
        self._max = max_seconds
        self.pop_early = pop_early
        self.rejected = PodHeap(self._window_key if pop_early else self.end_of_backoff)
        #: Rejected, and not to be taken early.
        self.serving = PodHeap(self._window_key if pop_early else self.end_of_backoff)
        self.failed = PodHeap(self.end_of_backoff)
        self._heaps = (self.rejected, self.serving, self.failed)
        #: Those that events can bring back before their backoff is over, by uid.
        self.listening: dict[str, QueuedPodInfo] = {}
        self._timer = TickTimer(clock, WINDOW_SECONDS)

    def start(self, flush: Callable[[float], object]) -> None:
        """Call `flush` with the time at each tick at which some pod has completed its backoff."""
        self._timer.start(flush, origin=0.0 if self.pop_early else self._clock.now())
        self.arm()

    def stop(self) -> None:
        """Call nobody any more."""
        self._timer.stop()

    def arm(self) -> None:
        """Set the timer for the next pod that completes its backoff."""
        for heap in self._heaps:
            first = heap.peek()
            if first is not None:
                self._timer.arm(self.end_of_backoff(first))

    def duration(self, failures: int) -> float:
        """Return the backoff in seconds after so many failures."""
        if failures == 0:
            return 0.0
        return float(min(self._initial * 2 ** min(failures - 1, _MAX_DOUBLINGS), self._max))

    def end_of_backoff(self, info: QueuedPodInfo) -> float:
        """Return when the pod's backoff ends, in clock seconds; minus infinity where it has none."""
        failures = info.consecutive_errors or info.unschedulable_count
        if self._max == 0 or failures == 0:
            return -inf
        if info.backoff_until is None:
            info.backoff_until = self._align(info.enqueued_at + self.duration(failures))
        return info.backoff_until

    def is_backing_off(self, info: QueuedPodInfo, now: float | None = None) -> bool:
        """Tell whether the pod has to wait; in the window in which its backoff ends, it still has."""
        return self.end_of_backoff(info) >= self._align(self._clock.now() if now is None else now)

    def add(self, info: QueuedPodInfo, event: str) -> None:
        """Put a pod in, by whether plugins rejected it or an error befell it; `event` says why, in metrics."""
        self.put(info)
        self._recorder.incoming_pod(queue="backoff", event=event)

    def put(self, info: QueuedPodInfo) -> None:
        """Put a pod in without a word."""
        if not (info.unschedulable_plugins or info.pending_plugins):
            self.failed.put(info)
        elif info.after_failure is not None and info.after_failure.serve_backoff:
            self.serving.put(info)
        else:
            self.rejected.put(info)
        if listens(info):
            self.listening[info.pod.uid] = info
        self._timer.arm(self.end_of_backoff(info))

    def resort(self, infos: Iterable[QueuedPodInfo]) -> None:
        """Sort those of the pods anew that are here."""
        infos = list(infos)
        for heap in self._heaps:
            heap.resort(infos)

    def remove(self, uid: str) -> QueuedPodInfo | None:
        """Take a pod out; return None when it is not here."""
        self.listening.pop(uid, None)
        return self.rejected.remove(uid) or self.serving.remove(uid) or self.failed.remove(uid)

    def pop_early_one(self) -> QueuedPodInfo | None:
        """Take out the first rejected pod, where pods may be taken early; None when there is none."""
        info = self.rejected.pop() if self.pop_early else None
        if info is not None:
            self.listening.pop(info.pod.uid, None)
        return info

    def pop_completed(self, now: float) -> list[QueuedPodInfo]:
        """Take out all pods whose backoff is over at `now`: first the rejected ones, then the others."""
        completed = []
        for heap in self._heaps:
            while (first := heap.peek()) is not None and not self.is_backing_off(first, now):
                heap.pop()
                self.listening.pop(first.pod.uid, None)
                completed.append(first)
        return completed

    def get(self, uid: str) -> QueuedPodInfo | None:
        """Return the pod, or None when it is not here."""
        return self.rejected.get(uid) or self.serving.get(uid) or self.failed.get(uid)

    def in_order(self) -> list[QueuedPodInfo]:
        """Return all pods by the end of their backoff; O(n log n), for people to look at."""
        return sorted((info for heap in self._heaps for info in heap.in_order()), key=self.end_of_backoff)

    def __contains__(self, uid: str) -> bool:
        return any(uid in heap for heap in self._heaps)

    def __len__(self) -> int:
        return sum(len(heap) for heap in self._heaps)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        for heap in self._heaps:
            yield from heap

    def check_invariants(self) -> None:
        """Raise AssertionError where a heap is broken or a pod is in the wrong one."""
        for heap in self._heaps:
            heap.check_invariants()
        for info in (*self.rejected, *self.serving):
            assert info.unschedulable_plugins or info.pending_plugins, f"pod {info.pod.key} was rejected by nobody"
        wanted = {info.pod.uid for info in self if listens(info)}
        assert self.listening.keys() == wanted, "pods listen that are not here, or the other way round"
        for info in self.failed:
            rejectors = info.rejectors
            assert not rejectors, f"pod {info.pod.key} was rejected, yet waits among the failed"

    def end_at(self, info: QueuedPodInfo, moment: float) -> None:
        """Let the pod's backoff, which is not here, end at a moment, unless it ends before."""
        info.backoff_until = min(self.end_of_backoff(info), self._align(moment))

    def _window_key(self, info: QueuedPodInfo) -> tuple[float, object]:
        return self.end_of_backoff(info), self._sort_key(info)

    def _align(self, moment: float) -> float:
        return floor(moment / WINDOW_SECONDS) * WINDOW_SECONDS if self.pop_early else moment
