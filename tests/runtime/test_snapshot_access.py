"""The lock around the snapshot."""

from __future__ import annotations

import asyncio

import pytest

from pyscheduler.runtime.snapshot_access import SnapshotAccess
from pyscheduler.scheduler.evaluation import evaluate
from pyscheduler.testing import FakeCluster, make_pod


class Rejected:
    """Waiting pods, of which some were rejected and still hold their nodes."""

    def __init__(self) -> None:
        self.is_giving_back = True
        self.released = asyncio.Event()

    async def given_back(self) -> None:
        """Wait for `released`."""
        await self.released.wait()
        self.is_giving_back = False


async def test_an_evaluation_waits_for_a_what_if(cluster: FakeCluster) -> None:
    """It does not see the changes that the what-if makes to the snapshot."""
    cluster.add_node("n", allocatable={"cpu": "1", "pods": "10"})
    running = cluster.framework()
    await running.schedule("first", requests={"cpu": "1"})
    pod = make_pod("second", requests={"cpu": "1"})
    async with running.profile.handle.what_if() as trial:
        node = trial.snapshot.get("n")
        assert node is not None
        trial.statement.evict_all(list(node.pods), "n")
        evaluation = asyncio.create_task(evaluate(running.scheduler, running.profile, pod))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not evaluation.done()
    found = await evaluation
    assert found.feasible is None
    assert "Insufficient cpu" in found.message


async def test_entering_waits_for_rejected_pods() -> None:
    """The holder learns that it has waited; one that is cancelled meanwhile leaves the lock free."""
    rejected = Rejected()
    access = SnapshotAccess(rejected, refresh=lambda: None)  # type: ignore[arg-type]  # as much of it as is needed

    async def enter() -> bool:
        async with access as has_waited:
            return has_waited

    first, second = asyncio.create_task(enter()), asyncio.create_task(enter())
    await asyncio.sleep(0)
    assert access.is_held
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    rejected.released.set()
    assert await second
    assert not access.is_held
    assert not await enter()
