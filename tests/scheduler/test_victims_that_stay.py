"""Preemptors and victims that end late, never, or in an order that hints do not foresee."""

from __future__ import annotations

import pytest

from kube_testserver.serving.faults import Fault
from pyscheduler.api import Node
from pyscheduler.testing import FakeCluster
from tests.scheduler.in_tree_groups import GATES, group, members


def evicted(cluster: FakeCluster) -> list[str]:
    """Return the names of the victims, in order."""
    return [event["regarding"]["name"] for event in cluster.events("Preempted")]


def add_low(cluster: FakeCluster, *node_names: str, seconds: int = 30) -> None:
    """Add a pod to each node that fills it; the later the node, the higher the priority."""
    for priority, node_name in enumerate(node_names):
        spec = {"terminationGracePeriodSeconds": seconds}
        cluster.add_node(node_name, allocatable={"cpu": "1"})
        cluster.add_pod(f"low-{node_name}", requests={"cpu": "1"}, priority=priority, node_name=node_name, spec=spec)


def set_ready(cluster: FakeCluster, node_name: str, status: str) -> None:
    """Let a node report whether it is ready."""
    conditions = [{"type": "Ready", "status": status}]
    cluster.patch(Node, node_name, {"status": {"conditions": conditions}}, namespace="", status=True)


async def test_a_preemptor_is_retried_once_its_last_victim_is_gone(cluster: FakeCluster) -> None:
    """The victim with the port is gone while the last one is still being evicted, which has no port."""
    cluster.add_node("n", allocatable={"cpu": "2"})
    framework = cluster.framework()
    at_once = {"terminationGracePeriodSeconds": 0}
    cluster.add_pod("port", requests={"cpu": "1"}, priority=2, node_name="n", spec=at_once, host_ports=[80])
    cluster.add_pod("cpu", requests={"cpu": "1"}, priority=1, node_name="n")
    cluster.server.faults.add(Fault(method="DELETE", path=r"/pods/cpu", delay_seconds=3.0))
    cluster.add_pod("p", requests={"cpu": "2"}, priority=100, host_ports=[80])
    await framework.settle()
    await cluster.clock.advance(15)
    assert evicted(cluster) == ["port", "cpu"]
    cluster.delete_pod("cpu")
    await cluster.clock.advance(11)
    assert framework.result("p").bound


@pytest.mark.parametrize("status", ["False", "Unknown"])
async def test_a_preemptor_gives_up_a_node_that_is_not_ready(cluster: FakeCluster, status: str) -> None:
    """The preemptor chooses another node, because no kubelet ends the victim on a node that is not ready."""
    add_low(cluster, "a", "b")
    framework = cluster.framework()
    set_ready(cluster, "a", "True")
    cluster.add_pod("p", requests={"cpu": "1"}, priority=100)
    await framework.settle()
    assert evicted(cluster) == ["low-a"]
    set_ready(cluster, "a", status)
    await cluster.clock.advance(11)
    assert evicted(cluster) == ["low-a", "low-b"]
    assert cluster.pod("p").status.nominated_node_name == "b"
    cluster.delete_pod("low-b")
    await cluster.clock.advance(11)
    assert framework.result("p").node == "b"


async def test_a_preemptor_gives_up_victims_that_outlive_their_grace_period(cluster: FakeCluster) -> None:
    """It waits for the grace period and half a minute more, then it chooses another node."""
    add_low(cluster, "a", "b", seconds=40)
    framework = cluster.framework()
    cluster.add_pod("p", requests={"cpu": "1"}, priority=100)
    await framework.settle()
    await cluster.clock.advance(65)
    assert evicted(cluster) == ["low-a"]
    await cluster.clock.advance(20)
    assert evicted(cluster) == ["low-a", "low-b"]
    cluster.delete_pod("low-b")
    await cluster.clock.advance(11)
    assert framework.result("p").node == "b"


async def test_no_victims_are_chosen_on_a_node_that_is_not_ready(cluster: FakeCluster) -> None:
    """Also if it would be the cheapest."""
    add_low(cluster, "a", "b")
    framework = cluster.framework()
    set_ready(cluster, "a", "Unknown")
    cluster.add_pod("p", requests={"cpu": "1"}, priority=100)
    await framework.settle()
    assert evicted(cluster) == ["low-b"]


@pytest.mark.parametrize("gates", ["", ",WorkloadAwarePreemption=true"])
async def test_a_group_gives_up_a_node_that_is_not_ready(cluster: FakeCluster, gates: str) -> None:
    """The member on that node gets another victim; the other member keeps its node."""
    add_low(cluster, "a", "b", "c")
    framework = cluster.framework(feature_gates=GATES + gates)
    group(cluster, "g", minimum=2, priority=100)
    members(cluster, "g", 2, priority=100)
    await framework.settle()
    assert sorted(evicted(cluster)) == ["low-a", "low-b"]
    set_ready(cluster, "a", "False")
    await cluster.clock.advance(25)
    assert sorted(evicted(cluster)) == ["low-a", "low-b", "low-c"]
    cluster.delete_pod("low-b")
    cluster.delete_pod("low-c")
    await cluster.clock.advance(25)
    assert {framework.result(name).node for name in ("g0", "g1")} == {"b", "c"}
