"""Questions between two cycles: what they see, what they leave behind, and that no cycle runs meanwhile."""

from __future__ import annotations

import asyncio

from pyscheduler.framework import PodInfo
from pyscheduler.testing import FakeCluster, make_pod


async def test_a_question_sees_the_cluster_as_it_is_and_leaves_nothing_behind(cluster: FakeCluster) -> None:
    """A pod fits once another was taken off in thought, and the snapshot is the same afterwards."""
    cluster.add_node("n", allocatable={"cpu": "1", "pods": "10"})
    running = cluster.framework()
    result = await running.schedule("first", requests={"cpu": "1"})
    assert result.bound
    info = PodInfo.of(make_pod("second", requests={"cpu": "1"}))
    async with running.profile.handle.what_if() as trial:
        assert trial.find_node(info) == ""
        node = trial.snapshot.get("n")
        assert node is not None
        trial.statement.evict_all(list(node.pods), "n")
        await trial.turn()
        assert trial.find_node(info) == "n"
    async with running.profile.handle.what_if() as trial:
        assert trial.find_node(info) == ""
    running.scheduler.check_invariants()


async def test_without_nodes_nothing_fits(cluster: FakeCluster) -> None:
    """An empty cluster has no node to name."""
    running = cluster.framework()
    await running.settle()
    async with running.profile.handle.what_if() as trial:
        assert trial.find_node(PodInfo.of(make_pod("pod"))) == ""


async def test_no_cycle_begins_before_a_question_is_over(cluster: FakeCluster) -> None:
    """Pods that arrive meanwhile are scheduled afterwards, but for those that are gone by then."""
    cluster.add_node("n", allocatable={"cpu": "4", "pods": "10"})
    running = cluster.framework()
    await running.settle()
    async with running.profile.handle.what_if():
        for name in ("stays", "goes"):
            cluster.add_pod(name, requests={"cpu": "1"})
        for _ in range(200):
            await asyncio.sleep(0)
        assert running.result("stays").state == "pending"
        cluster.delete_pod("goes")
        cluster.delete_pod("stays")
        cluster.add_pod("stays", requests={"cpu": "1"})
        for _ in range(200):
            await asyncio.sleep(0)
    await running.settle()
    assert running.result("stays").bound
    assert running.scheduler.cycles == 1
