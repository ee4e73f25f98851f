"""EveryPoint on a fake cluster: no API server to reach, no time that passes by itself."""

import random

import pytest
from pyscheduler import Node, Pod
from pyscheduler.testing import Draft, FakeCluster, Fault, check_plugin, make_pod

from every_point.plugin import EveryPoint

LABEL = "example.com/every-point"


@pytest.fixture(name="cluster")
def _cluster(pyscheduler_cluster: FakeCluster) -> FakeCluster:
    """Give a cluster of two nodes."""
    for name in ("n1", "n2"):
        pyscheduler_cluster.add_node(name, allocatable={"cpu": "4"})
    return pyscheduler_cluster


def draw(rng: random.Random, draft: Draft) -> None:
    """Give nodes and pods of the random clusters the labels that concern the plugin."""
    draft.node_labels[LABEL] = ["closed", "7"]
    draft.pod_labels[LABEL] = ["hold", "reject", "any", "wait", "stamp", "bind"]


def test_plugin_keeps_the_contract() -> None:
    """`check_plugin` runs the plugin on random clusters, and reports what breaks the contract of plugins."""
    check_plugin(EveryPoint, draw=draw, histories=20, with_plugins=["DefaultBinder"], disable=["PrioritySort", "DefaultBinder"])


async def test_pod_is_held_until_its_label_changes(cluster: FakeCluster) -> None:
    """A pod on hold is gated; the change of its label brings it into the queue."""
    framework = cluster.framework(enable=[EveryPoint, "DefaultBinder"], disable=["PrioritySort", "DefaultBinder"])
    assert (await framework.schedule("p", labels={LABEL: "hold"})).state == "gated"
    cluster.patch(Pod, "p", {"metadata": {"labels": {LABEL: None}}})
    await framework.settle()
    assert framework.result("p").bound


def test_pods_of_a_higher_priority_come_first(cluster: FakeCluster) -> None:
    """Priority decides, then the time in the queue."""
    framework = cluster.framework(enable=[EveryPoint, "DefaultBinder"], disable=["PrioritySort", "DefaultBinder"])
    high, low = make_pod("high", priority=10), make_pod("low")
    assert framework.sort_key(high, enqueued_at=9) < framework.sort_key(low, enqueued_at=1)
    assert framework.sort_key(low, enqueued_at=1) < framework.sort_key(low, enqueued_at=2)


async def test_pod_is_rejected_until_its_label_changes(cluster: FakeCluster) -> None:
    """The rejection names the reason; the change of the label retries the pod."""
    framework = cluster.framework(enable=[EveryPoint, "DefaultBinder"], disable=["PrioritySort", "DefaultBinder"])
    rejected = await framework.schedule("p", labels={LABEL: "reject"})
    assert "pod is rejected by its label" in rejected.message
    cluster.patch(Pod, "p", {"metadata": {"labels": {LABEL: None}}})
    await cluster.clock.advance(5)  # the backoff after a failed attempt
    assert framework.result("p").bound


async def test_pod_avoids_closed_nodes(cluster: FakeCluster) -> None:
    """A closed node gets no pod; when it is opened, the pod that waits for it is retried."""
    framework = cluster.framework(enable=[EveryPoint, "DefaultBinder"], disable=["PrioritySort", "DefaultBinder"])
    cluster.patch(Node, "n1", {"metadata": {"labels": {LABEL: "closed"}}})
    assert (await framework.schedule("p")).node == "n2"
    cluster.patch(Node, "n2", {"metadata": {"labels": {LABEL: "closed"}}})
    assert "2 node(s) were closed" in (await framework.schedule("q")).message
    cluster.patch(Node, "n1", {"metadata": {"labels": {LABEL: None}}})
    await cluster.clock.advance(5)  # the backoff after a failed attempt
    assert framework.result("q").node == "n1"


async def test_message_says_that_no_room_was_made(cluster: FakeCluster) -> None:
    """The pod's message has the answer of PostFilter."""
    framework = cluster.framework(enable=[EveryPoint, "DefaultBinder"], disable=["PrioritySort", "DefaultBinder"])
    result = await framework.schedule("p", requests={"cpu": "1000"})
    assert "EveryPoint cannot make room" in result.message


async def test_pod_that_does_not_care_is_not_scored(cluster: FakeCluster) -> None:
    """Without Score, the pod is placed all the same."""
    framework = cluster.framework(enable=[EveryPoint, "DefaultBinder"], disable=["PrioritySort", "DefaultBinder"])
    assert (await framework.schedule("p", labels={LABEL: "any"})).bound
    assert (await framework.schedule("q")).bound


async def test_node_with_the_highest_number_is_preferred(cluster: FakeCluster) -> None:
    """The number in the label decides, if the weight outweighs the default plugins."""
    weights = {"EveryPoint": 100}
    framework = cluster.framework(enable=[EveryPoint, "DefaultBinder"], disable=["PrioritySort", "DefaultBinder"], weights=weights)
    cluster.patch(Node, "n2", {"metadata": {"labels": {LABEL: "7"}}})
    assert (await framework.schedule("p")).node == "n2"
    cluster.patch(Node, "n1", {"metadata": {"labels": {LABEL: "9"}}})
    assert (await framework.schedule("q")).node == "n1"


async def test_records_follow_the_pod(cluster: FakeCluster) -> None:
    """The record is there while the pod exists."""
    framework = cluster.framework(enable=[EveryPoint, "DefaultBinder"], disable=["PrioritySort", "DefaultBinder"])
    plugin = framework.plugin("EveryPoint")
    assert isinstance(plugin, EveryPoint)
    result = await framework.schedule("p")
    assert plugin.reserved == {result.pod.uid: result.node}
    cluster.delete_pod("p")
    await framework.settle()
    assert plugin.reserved == {}


def test_unreserve_may_be_called_twice(cluster: FakeCluster) -> None:
    """`unreserve` removes the record, and does nothing without one."""
    framework = cluster.framework(enable=[EveryPoint, "DefaultBinder"], disable=["PrioritySort", "DefaultBinder"])
    plugin = framework.plugin("EveryPoint")
    assert isinstance(plugin, EveryPoint)
    pod = make_pod("p")
    assert framework.run_reserve(pod, "n1") is None
    for _ in range(2):
        framework.run_unreserve(pod, "n1")
    assert plugin.reserved == {}


async def test_pod_waits_until_its_label_changes(cluster: FakeCluster) -> None:
    """The pod keeps its node while it waits, and users see why; then it is bound."""
    framework = cluster.framework(enable=[EveryPoint, "DefaultBinder"], disable=["PrioritySort", "DefaultBinder"])
    assert (await framework.schedule("p", labels={LABEL: "wait"})).state == "waiting"
    await cluster.clock.advance(1)
    assert framework.result("p").message == "waiting for another label"
    cluster.patch(Pod, "p", {"metadata": {"labels": {LABEL: None}}})
    await framework.settle()
    assert framework.result("p").bound


async def test_wait_ends_after_its_time(cluster: FakeCluster) -> None:
    """The args set the time; the pod gives its node up and is retried later."""
    args = {"EveryPoint": {"patience": "30s"}}
    framework = cluster.framework(enable=[EveryPoint, "DefaultBinder"], disable=["PrioritySort", "DefaultBinder"], args=args)
    await framework.schedule("p", labels={LABEL: "wait"})
    await cluster.clock.advance(30)
    assert "after waiting 30s at plugin EveryPoint" in framework.result("p").message


async def test_annotation_is_written_before_the_binding(cluster: FakeCluster) -> None:
    """A pod that asks for it has the name of its node in an annotation."""
    framework = cluster.framework(enable=[EveryPoint, "DefaultBinder"], disable=["PrioritySort", "DefaultBinder"])
    result = await framework.schedule("p", labels={LABEL: "stamp"})
    assert result.node == cluster.pod("p").annotations[f"{LABEL}-node"]


async def test_pod_is_retried_if_the_annotation_cannot_be_written(cluster: FakeCluster) -> None:
    """A forbidden write costs the attempt; the next one succeeds."""
    framework = cluster.framework(enable=[EveryPoint, "DefaultBinder"], disable=["PrioritySort", "DefaultBinder"])
    cluster.server.faults.add(Fault(method="PATCH", path="/pods/p$", status=403, times=1))
    assert (await framework.schedule("p", labels={LABEL: "stamp"})).state == "pending"
    await cluster.clock.advance(5)  # the backoff after a failed attempt
    assert framework.result("p").bound


async def test_pods_are_bound_here_or_left_to_the_next_plugin(cluster: FakeCluster) -> None:
    """Without the default plugin, only the pods are bound that ask for it."""
    framework = cluster.framework(enable=[EveryPoint], disable=["PrioritySort", "DefaultBinder"])
    assert (await framework.schedule("p", labels={LABEL: "bind"})).bound
    assert "no Bind plugin" in (await framework.schedule("q")).message


async def test_other_pods_are_bound_by_the_default_plugin(cluster: FakeCluster) -> None:
    """A pod that is skipped here is bound by the next plugin."""
    framework = cluster.framework(enable=[EveryPoint, "DefaultBinder"], disable=["PrioritySort", "DefaultBinder"])
    assert (await framework.schedule("p")).bound


async def test_bound_pods_are_counted(cluster: FakeCluster) -> None:
    """The metric counts by namespace."""
    framework = cluster.framework(enable=[EveryPoint, "DefaultBinder"], disable=["PrioritySort", "DefaultBinder"])
    await framework.schedule("p")
    assert framework.metric("every_point_bound_pods_total", namespace="default") == 1
