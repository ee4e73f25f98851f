"""activeQ: the pods that are ready to be scheduled, and the place where the scheduler waits for one.

The order is the QueueSort plugin's. The number of pods handed out so far is the scheduling cycle, by which failed pods
and cluster events can be put in order when queueing hints are off.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pyscheduler.queue.heap import PodHeap, SortKey

if TYPE_CHECKING:
    from pyscheduler.framework.pod_info import QueuedPodInfo
    from pyscheduler.framework.recorder import Recorder

__all__ = ["ActiveQueue"]


class ActiveQueue(PodHeap):
    """The pods that are ready. Fill it with `add`, which counts and wakes; `put` only sorts a pod anew."""

    __slots__ = ("_arrival", "_recorder", "scheduling_cycle")

    def __init__(self, *, sort_key: SortKey, recorder: Recorder) -> None:
        super().__init__(sort_key)
        self._recorder = recorder
        self._arrival = asyncio.Event()
        #: Pods handed out so far.
        self.scheduling_cycle = 0

    def add(self, info: QueuedPodInfo, event: str) -> None:
        """Put a pod in and wake who waits for one; `event` says why, in metrics."""
        self.put(info)
        self._recorder.incoming_pod(queue="active", event=event)
        self.wake()

    def wake(self) -> None:
        """Let whoever waits look again."""
        self._arrival.set()

    async def wait(self) -> None:
        """Return when a pod may have come since the caller last looked; without a pause between look and call."""
        self._arrival.clear()
        await self._arrival.wait()
