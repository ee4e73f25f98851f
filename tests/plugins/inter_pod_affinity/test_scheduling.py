"""Pods with terms about other pods, through the whole scheduler."""

from __future__ import annotations

from typing import Any

from pyscheduler.api import Namespace
from pyscheduler.testing.fake_cluster import FakeCluster
from tests.plugins.inter_pod_affinity.affine import HOST, ZONE, pod_of, term, terms


def affine(**wanted: Any) -> dict[str, Any]:
    """Return keywords of a pod of `app: a` with these terms."""
    return {"labels": {"app": "a"}, "affinity": terms(**wanted)}


def add_zones(cluster: FakeCluster, *names: str) -> None:
    """Add nodes whose zone is the first letter of their name."""
    for name in names:
        cluster.add_node(name, labels={ZONE: name[0]})


async def test_a_group_gathers_in_the_zone_of_its_first(pyscheduler_cluster: FakeCluster) -> None:
    """The first goes anywhere, the others where it is."""
    add_zones(pyscheduler_cluster, "a1", "a2", "b1", "b2")
    framework = pyscheduler_cluster.framework()
    results = [await framework.schedule(f"p{number}", **affine(near=[term()])) for number in range(8)]
    assert len({str(result.node)[0] for result in results}) == 1
    assert all(result.bound for result in results)


async def test_hosts_are_not_shared_and_the_last_waits_for_one_to_leave(pyscheduler_cluster: FakeCluster) -> None:
    """One pod per node; the third waits with the reason, and is bound when a node is free again."""
    add_zones(pyscheduler_cluster, "a1", "b1")
    framework = pyscheduler_cluster.framework()
    first, second, third = [await framework.schedule(f"p{number}", **affine(away=[term(HOST)])) for number in range(3)]
    assert {first.node, second.node} == {"a1", "b1"}
    assert third.state == "pending"
    assert third.message.startswith("0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules.")
    pyscheduler_cluster.delete_pod("p0")
    await framework.settle()
    await pyscheduler_cluster.clock.advance(10)
    assert framework.result("p2").node == first.node


async def test_a_plain_pod_is_kept_away(pyscheduler_cluster: FakeCluster) -> None:
    """What a placed pod shuns waits until that is gone; a new node does not wake it, as in kube-scheduler."""
    add_zones(pyscheduler_cluster, "a1")
    framework = pyscheduler_cluster.framework()
    assert (await framework.schedule("hermit", affinity=terms(away=[term()]))).bound
    waiting = await framework.schedule("p", labels={"app": "a"})
    assert waiting.message.startswith("0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity")
    add_zones(pyscheduler_cluster, "b1")
    await pyscheduler_cluster.clock.advance(10)
    assert framework.result("p").state == "pending"
    pyscheduler_cluster.delete_pod("hermit")
    await pyscheduler_cluster.clock.advance(10)
    assert framework.result("p").bound


async def test_a_pod_waits_for_those_it_wants_near(pyscheduler_cluster: FakeCluster) -> None:
    """It is bound beside the pod it waited for, when that comes."""
    add_zones(pyscheduler_cluster, "a1", "b1")
    framework = pyscheduler_cluster.framework()
    waiting = await framework.schedule("p", labels={"app": "b"}, affinity=terms(near=[term(HOST)]))
    assert waiting.message.startswith("0/2 nodes are available: 2 node(s) didn't match pod affinity rules.")
    other = await framework.schedule(pod_of("x"))
    await pyscheduler_cluster.clock.advance(10)
    assert framework.result("p").node == other.node


async def test_namespaces_are_selected_by_the_labels_they_have_now(pyscheduler_cluster: FakeCluster) -> None:
    """A namespace that is relabelled brings its pods into a term's reach."""
    cluster = pyscheduler_cluster
    add_zones(cluster, "a1", "b1")
    cluster.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}, Namespace)
    framework = cluster.framework()
    other = await framework.schedule("x", namespace="other", labels={"app": "a"})
    near = affine(near=[term(HOST, namespaceSelector={"matchLabels": {"team": "t"}})])
    near["labels"] = {"app": "b"}
    assert (await framework.schedule("early", **near)).state == "pending"
    cluster.patch(Namespace, "other", {"metadata": {"labels": {"team": "t"}}})
    assert (await framework.schedule("late", **near)).node == other.node
