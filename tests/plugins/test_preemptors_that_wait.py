"""When a preemptor is tried again: not before its victims were told, nor while their end is still to come."""

from __future__ import annotations

import pytest

from kube_testserver.serving.faults import Fault
from pyscheduler.testing import FakeCluster
from tests.plugins.test_default_preemption import NOMINATED, gone, preempted


async def test_a_preemptor_is_not_tried_while_the_end_of_a_victim_is_to_come(cluster: FakeCluster) -> None:
    """The end of one while others were told does not bring it: it would find the last one there."""
    cluster.add_node("n1", allocatable={"cpu": "2"})
    framework = cluster.framework()
    for number, grace in enumerate((0, 30)):
        spec = {"terminationGracePeriodSeconds": grace}
        await framework.schedule(f"low{number}", requests={"cpu": "1"}, priority=1 - number, spec=spec)
    cluster.server.faults.add(Fault(method="DELETE", path=r"/pods/low1$", delay_seconds=5.0))
    await framework.schedule("high", requests={"cpu": "2"}, priority=10)
    await cluster.clock.advance(10)
    assert {pod.name for pod in cluster.pods()} == {"low1", "high"}
    assert gone(cluster) == {"low1"}
    assert framework.result("high").message == NOMINATED
    assert len(cluster.events("FailedScheduling")) == 1
    cluster.delete_pod("low1")
    await framework.settle()
    assert framework.result("high").bound


async def test_a_preemptor_that_was_held_back_is_tried_where_nothing_is_to_come(cluster: FakeCluster) -> None:
    """The last victim had ended before it was told, and nothing else will wake the preemptor."""
    cluster.add_node("n1", allocatable={"cpu": "2"})
    framework = cluster.framework()
    for number in range(2):
        spec = {"terminationGracePeriodSeconds": 0}
        await framework.schedule(f"low{number}", requests={"cpu": "1"}, priority=1 - number, spec=spec)
    cluster.server.faults.add(Fault(method="PATCH", path=r"/low0/status$", delay_seconds=5.0))
    await framework.schedule("high", requests={"cpu": "2"}, priority=10)
    cluster.delete_pod("low0")
    cluster.delete_pod("low1")
    await cluster.clock.advance(4)
    assert framework.result("high").state == "gated"
    await cluster.clock.advance(2)
    assert framework.result("high").bound


@pytest.mark.parametrize("gates", ["", "SchedulerAsyncPreemption=false"], ids=["in the background", "in the cycle"])
async def test_a_nomination_that_is_not_written_yet_counts(cluster: FakeCluster, gates: str) -> None:
    """A preemptor that comes back before its status shows its node waits for its victims, and takes no other node."""
    cluster.add_node("n1", allocatable={"cpu": "3"})
    framework = cluster.framework(feature_gates=gates)
    for number, grace in enumerate((30, 0, 0)):
        spec = {"terminationGracePeriodSeconds": grace}
        await framework.schedule(f"low{number}", requests={"cpu": "1"}, priority=3 - number, spec=spec)
    cluster.server.faults.add(Fault(method="PATCH", path=r"/high/status$", delay_seconds=5.0))
    high = await framework.schedule("high", requests={"cpu": "3"}, priority=10)
    assert {pod.name for pod in cluster.pods()} == {"low0", "high"}
    assert high.pod.status.nominated_node_name == ""
    # What is left on the node is a victim, and this one would be another.
    cluster.add_node("n2", allocatable={"cpu": "3"})
    cluster.add_pod("other", node_name="n2", requests={"cpu": "3"})
    await cluster.clock.advance(2)
    framework.scheduler.queue.activate([high.pod])
    await framework.settle()
    assert gone(cluster) == {"low0"}
    assert set(preempted(cluster)) == {"low0", "low1", "low2"}
    await cluster.clock.advance(10)
    assert framework.result("high").message.endswith("not eligible due to a terminating pod on the nominated node.")
    cluster.add_node("n3", allocatable={"cpu": "1"})
    cluster.delete_pod("low0")
    await framework.settle()
    assert framework.result("high").node == "n1"
