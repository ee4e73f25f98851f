"""activeQ: counting who comes, and waking who waits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pyscheduler.framework import QueuedPodInfo
from pyscheduler.queue.active import ActiveQueue

if TYPE_CHECKING:
    from tests.queue.conftest import Kit


def test_only_pods_that_come_are_counted(kit: Kit) -> None:
    """A pod that is sorted anew did not come again."""
    active = ActiveQueue(sort_key=lambda info: info.enqueued_at, recorder=kit.recorder)
    info = QueuedPodInfo(pod_info=kit.info(kit.pod()), enqueued_at=1)
    active.add(info, "BackoffComplete")
    active.put(info)
    assert kit.recorder.incoming == {("active", "BackoffComplete"): 1}


async def test_a_pod_wakes_who_waits(kit: Kit) -> None:
    """The wait ends when a pod comes, and not before."""
    active = ActiveQueue(sort_key=lambda info: info.enqueued_at, recorder=kit.recorder)
    active.wake()
    waiting = asyncio.create_task(active.wait())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done()
    active.add(QueuedPodInfo(pod_info=kit.info(kit.pod()), enqueued_at=1), "UnschedulablePodAdd")
    await waiting
    assert len(active) == 1
