"""activeQ: the pods that are ready to be scheduled, and the place where the scheduler waits for one.

The order is the QueueSort plugin's, but that the pods of one group can follow each other (`runs`). The number of pods
handed out so far is the scheduling cycle, by which failed pods and cluster events can be put in order when queueing
hints are off.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pyscheduler.queue.group_adjacency import AdjacencyKey, GroupAdjacency
from pyscheduler.queue.heap import PodHeap, SortKey

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyscheduler.framework.pod_info import QueuedPodInfo
    from pyscheduler.framework.recorder import Recorder

__all__ = ["ActiveQueue"]


class ActiveQueue(PodHeap):
    """The pods that are ready. Fill it with `add`, which counts and wakes; `put` only sorts a pod anew."""

    __slots__ = ("_arrival", "_recorder", "_runs", "scheduling_cycle")

    def __init__(self, *, sort_key: SortKey, recorder: Recorder, adjacency_key: AdjacencyKey | None = None) -> None:
        super().__init__(sort_key)
        self._runs = GroupAdjacency(adjacency_key, sort_key) if adjacency_key is not None else None
        self._recorder = recorder
        self._arrival = asyncio.Event()
        #: Pods handed out so far.
        self.scheduling_cycle = 0

    def add(self, info: QueuedPodInfo, event: str) -> None:
        """Put a pod in and wake who waits for one; `event` says why, in metrics."""
        self.put(info)
        self._recorder.incoming_pod(queue="active", event=event)
        self.wake()

    def put(self, info: QueuedPodInfo) -> None:
        """Add the pod, or sort it anew when it is here already."""
        super().put(info)
        if self._runs is not None:
            self._runs.put(info)

    def resort(self, infos: Iterable[QueuedPodInfo]) -> None:
        """Sort those of the pods anew that are here."""
        here = list(infos)
        super().resort(here)
        if self._runs is not None:
            self._runs.resort(here)

    def remove(self, uid: str) -> QueuedPodInfo | None:
        """Take the pod out; return None when it is not here."""
        if self._runs is not None:
            self._runs.remove(uid)
        return super().remove(uid)

    def pop(self) -> QueuedPodInfo | None:
        """Take out the next pod: of the group whose turn it is, or else the first."""
        if self._runs is None:
            return super().pop()
        info = self._runs.next() or self.peek()
        if info is None:
            return None
        self._runs.begin(info)
        return self.remove(info.pod.uid)

    def check_invariants(self) -> None:
        """Raise AssertionError where the heap is broken, or the groups hold other pods."""
        super().check_invariants()
        if self._runs is not None:
            self._runs.check_invariants({info.pod.uid for info in self})

    def wake(self) -> None:
        """Let whoever waits look again."""
        self._arrival.set()

    async def wait(self) -> None:
        """Return when a pod may have come since the caller last looked; without a pause between look and call."""
        self._arrival.clear()
        await self._arrival.wait()
