"""activeQ: the pods that are ready to be scheduled, in the order of the QueueSort plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler.queue.group_adjacency import AdjacencyKey, GroupAdjacency
from pyscheduler.queue.heap import PodHeap, SortKey

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyscheduler.framework.pod_info import QueuedPodInfo
    from pyscheduler.framework.recorder import Recorder

__all__ = ["ActiveQueue"]


class ActiveQueue(PodHeap):
    """The ready pods. `add` also counts the pod; `put` only adds it or sorts it again."""

    __slots__ = ("_recorder", "_runs")

    def __init__(self, *, sort_key: SortKey, recorder: Recorder, adjacency_key: AdjacencyKey | None = None) -> None:
        super().__init__(sort_key)
        self._runs = GroupAdjacency(adjacency_key, sort_key) if adjacency_key is not None else None
        self._recorder = recorder

    def add(self, info: QueuedPodInfo, event: str) -> None:
        """Add a pod; `event` is the reason in scheduler_queue_incoming_pods_total."""
        self.put(info)
        self._recorder.count("scheduler_queue_incoming_pods_total", "active", event)

    def put(self, info: QueuedPodInfo) -> None:
        """Add the pod, or sort it again if it is here already."""
        super().put(info)
        if self._runs is not None:
            self._runs.put(info)

    def resort(self, infos: Iterable[QueuedPodInfo]) -> None:
        """Sort again those of the pods that are here."""
        here = list(infos)
        super().resort(here)
        if self._runs is not None:
            self._runs.resort(here)

    def remove(self, uid: str) -> QueuedPodInfo | None:
        """Remove the pod and return it; None if it is not here."""
        if self._runs is not None:
            self._runs.remove(uid)
        return super().remove(uid)

    def pop(self) -> QueuedPodInfo | None:
        """Remove and return the next pod: the next one of the group that is leaving, else the first of all."""
        if self._runs is None:
            return super().pop()
        info = self.first()
        if info is None:
            return None
        self._runs.begin(info)
        return self.remove(info.pod.uid)

    def first(self) -> QueuedPodInfo | None:
        """Return what `pop` would return."""
        return (self._runs.next() if self._runs is not None else None) or self.peek()

    def check_invariants(self) -> None:
        """Raise AssertionError if the heap is inconsistent or the groups hold other pods than the heap."""
        super().check_invariants()
        if self._runs is not None:
            self._runs.check_invariants({info.pod.uid for info in self})
