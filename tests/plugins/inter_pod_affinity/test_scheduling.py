"""Pods with terms about other pods, through the whole scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import Namespace, Node, Pod
from pyscheduler.testing.fake_cluster import FakeCluster
from tests.plugins.inter_pod_affinity.affine import HOST, ZONE, pod_of, term, terms


def affine(**wanted: Any) -> dict[str, Any]:
    """Return keywords of a pod of `app: a` with these terms."""
    return {"labels": {"app": "a"}, "affinity": terms(**wanted)}


def add_zones(cluster: FakeCluster, *names: str) -> None:
    """Add nodes whose zone is the first letter of their name."""
    for name in names:
        cluster.add_node(name, labels={ZONE: name[0]})


async def test_a_group_gathers_in_the_zone_of_its_first(cluster: FakeCluster) -> None:
    """The first goes anywhere, the others where it is."""
    add_zones(cluster, "a1", "a2", "b1", "b2")
    framework = cluster.framework()
    results = [await framework.schedule(f"p{number}", **affine(near=[term()])) for number in range(8)]
    assert len({str(result.node)[0] for result in results}) == 1
    assert all(result.bound for result in results)


async def test_hosts_are_not_shared_and_the_last_waits_for_one_to_leave(cluster: FakeCluster) -> None:
    """One pod per node; the third waits with the reason, and is bound when a node is free again."""
    add_zones(cluster, "a1", "b1")
    framework = cluster.framework()
    first, second, third = [await framework.schedule(f"p{number}", **affine(away=[term(HOST)])) for number in range(3)]
    assert {first.node, second.node} == {"a1", "b1"}
    assert third.state == "pending"
    assert third.message.startswith("0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules.")
    cluster.delete_pod("p0")
    await framework.settle()
    await cluster.clock.advance(10)
    assert framework.result("p2").node == first.node


async def test_a_plain_pod_is_kept_away(cluster: FakeCluster) -> None:
    """What a placed pod shuns waits until that is gone; a new node does not wake it, as in kube-scheduler."""
    add_zones(cluster, "a1")
    framework = cluster.framework()
    assert (await framework.schedule("hermit", affinity=terms(away=[term()]))).bound
    waiting = await framework.schedule("p", labels={"app": "a"})
    assert waiting.message.startswith("0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity")
    add_zones(cluster, "b1")
    await cluster.clock.advance(10)
    assert framework.result("p").state == "pending"
    cluster.delete_pod("hermit")
    await cluster.clock.advance(10)
    assert framework.result("p").bound


async def test_a_pod_waits_for_those_it_wants_near(cluster: FakeCluster) -> None:
    """It is bound beside the pod it waited for, when that comes."""
    add_zones(cluster, "a1", "b1")
    framework = cluster.framework()
    waiting = await framework.schedule("p", labels={"app": "b"}, affinity=terms(near=[term(HOST)]))
    assert waiting.message.startswith("0/2 nodes are available: 2 node(s) didn't match pod affinity rules.")
    other = await framework.schedule(pod_of("x"))
    await cluster.clock.advance(10)
    assert framework.result("p").node == other.node


async def test_namespaces_are_selected_by_the_labels_they_have_now(cluster: FakeCluster) -> None:
    """A namespace that is relabelled brings its pods into a term's reach."""
    add_zones(cluster, "a1", "b1")
    cluster.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}, Namespace)
    framework = cluster.framework()
    other = await framework.schedule("x", namespace="other", labels={"app": "a"})
    near = affine(near=[term(HOST, namespaceSelector={"matchLabels": {"team": "t"}})])
    near["labels"] = {"app": "b"}
    assert (await framework.schedule("early", **near)).state == "pending"
    cluster.patch(Namespace, "other", {"metadata": {"labels": {"team": "t"}}})
    assert (await framework.schedule("late", **near)).node == other.node


def add_namespace(cluster: FakeCluster, name: str, **labels: str) -> None:
    """Add a namespace, or labels to the one that each cluster has."""
    if name == "default":
        cluster.patch(Namespace, name, {"metadata": {"labels": labels}}, namespace="")
    else:
        cluster.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}, Namespace)


EXCLUDING = [
    pytest.param({"key": "team", "operator": "NotIn", "values": ["t"]}, id="not in"),
    pytest.param({"key": "team", "operator": "DoesNotExist"}, id="does not exist"),
]


@pytest.mark.parametrize("requirement", EXCLUDING)
async def test_pods_of_excluded_namespaces_do_not_count(cluster: FakeCluster, requirement: dict[str, Any]) -> None:
    """A negative namespace selector excludes namespaces: from anti-affinity, from affinity and from preferences."""
    add_zones(cluster, "a1")
    add_namespace(cluster, "default", team="t")
    add_namespace(cluster, "free")
    framework = cluster.framework()
    assert (await framework.schedule("placed", labels={"app": "a"})).bound
    about = term(HOST, namespaceSelector={"matchExpressions": [requirement]})
    assert (await framework.schedule("near", labels={"app": "b"}, affinity=terms(near=[about]))).state == "pending"
    assert (await framework.schedule("away", labels={"app": "b"}, affinity=terms(away=[about]))).bound
    add_zones(cluster, "b1")
    wish = {"weight": 100, "podAffinityTerm": about}
    other = await framework.schedule("other", namespace="free", labels={"app": "a"}, node_selector={ZONE: "b"})
    assert other.node == "b1"
    assert (await framework.schedule("rather", labels={"app": "b"}, affinity=terms(rather_near=[wish]))).node == "b1"


CHANGES = ["pod added", "pod deleted", "pod relabelled", "namespace labelled", "namespace unlabelled", "own namespace"]


@pytest.mark.parametrize("change", CHANGES)
async def test_a_pod_that_waits_for_selected_namespaces_is_retried_soon(cluster: FakeCluster, change: str) -> None:
    """Pods of selected namespaces, and the labels of namespaces, wake a pod as soon as its backoff is over."""
    add_zones(cluster, "a1")
    add_namespace(cluster, "default", **({"team": "t"} if change == "own namespace" else {}))
    add_namespace(cluster, "other", **({} if change == "namespace labelled" else {"team": "t"}))
    framework = cluster.framework()
    about = term(HOST, namespaceSelector={"matchLabels": {"team": "t"}})
    wants_near = change in {"pod added", "namespace labelled"}
    if change != "pod added":
        avoids = {"affinity": terms(away=[about])} if change == "own namespace" else {}
        placed = await framework.schedule("placed", namespace="other", labels={"app": "a"}, **avoids)
        assert placed.bound
    own = {} if change == "own namespace" else {"affinity": terms(near=[about]) if wants_near else terms(away=[about])}
    labels = {"app": "a" if change == "own namespace" else "b"}
    assert (await framework.schedule("waits", labels=labels, **own)).state == "pending"
    await cluster.clock.advance(12)
    assert framework.result("waits").state == "pending"
    match change:
        case "pod added":
            assert (await framework.schedule("placed", namespace="other", labels={"app": "a"})).bound
        case "pod deleted":
            cluster.delete_pod("placed", namespace="other")
        case "pod relabelled":
            cluster.patch(Pod, "placed", {"metadata": {"labels": {"app": "z"}}}, namespace="other")
        case "own namespace":
            cluster.patch(Namespace, "default", {"metadata": {"labels": {"team": "u"}}}, namespace="")
        case _:
            team = "t" if change == "namespace labelled" else "u"
            cluster.patch(Namespace, "other", {"metadata": {"labels": {"team": team}}}, namespace="")
    await cluster.clock.advance(11)
    assert framework.result("waits").bound


async def test_the_last_of_a_kind_that_leaves_wakes_a_pod_that_may_be_the_first(cluster: FakeCluster) -> None:
    """A replacement with affinity to its own kind starts once the pod that it replaces is gone."""
    add_zones(cluster, "a1", "b1")
    framework = cluster.framework()
    first = await framework.schedule("first", **affine(near=[term(HOST)]))
    cluster.patch(Node, str(first.node), {"spec": {"unschedulable": True}}, namespace="")
    assert (await framework.schedule("second", **affine(near=[term(HOST)]))).state == "pending"
    await cluster.clock.advance(12)
    cluster.delete_pod("first")
    await cluster.clock.advance(11)
    assert framework.result("second").bound
