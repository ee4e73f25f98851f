"""The fake cluster: objects in and out, what it checks, and how it ends."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import pytest

from kube_testserver.serving.faults import Fault
from pyscheduler import APIError, ConflictError, CycleState, NotFoundError, PostBindPlugin, TransportError
from pyscheduler.api import BUILT_IN_KINDS, KubeObject, Node, Pod, PriorityClass, Wire, kind_of
from pyscheduler.testing import FakeCluster, make_pod


class QueueSpec(Wire):
    weight: int = 1


class Queue(KubeObject):
    api_version: ClassVar[str] = "example.com/v1"
    kind: ClassVar[str] = "Queue"

    spec: QueueSpec = QueueSpec()


QUEUES = kind_of(Queue, "queues")


@pytest.fixture
def cluster(pyscheduler_cluster: FakeCluster) -> FakeCluster:
    """Give the fixture of third parties, under a shorter name."""
    return pyscheduler_cluster


def test_added_objects_can_be_read(cluster: FakeCluster) -> None:
    """Objects come back as the scheduler reads them, one by one and all together."""
    node = cluster.add_node("n1", labels={"zone": "a"})
    pod = cluster.add_pod("p", node_name="n1")
    other = cluster.add_pod(make_pod("p", namespace="other"))
    assert cluster.nodes() == [node]
    assert {each.key for each in cluster.pods()} == {"default/p", "other/p"}
    assert cluster.pod("p") == pod
    assert cluster.pod("p", namespace="other") == other
    assert pod.uid
    assert pod.uid != other.uid


def test_missing_objects_are_an_error(cluster: FakeCluster) -> None:
    """Asking for, changing or deleting what is not there is a 404; adding what is there, a 409."""
    for act in (
        lambda: cluster.pod("p"),
        lambda: cluster.delete_pod("p"),
        lambda: cluster.delete_node("n"),
        lambda: cluster.patch(Pod, "p", {}),
    ):
        with pytest.raises(APIError) as caught:
            act()
        assert caught.value.status == 404
    cluster.add_node("n1")
    with pytest.raises(APIError) as caught:
        cluster.add_node("n1")
    assert caught.value.status == 409


def test_a_patch_changes_a_part(cluster: FakeCluster) -> None:
    """A merge patch changes what it names; the status is a part of its own, as in a real API server."""
    cluster.add_node("n1", labels={"zone": "a"}, allocatable={"cpu": "2"})
    node = cluster.patch(Node, "n1", {"metadata": {"labels": {"zone": "b"}}, "spec": {"unschedulable": True}})
    assert (node.labels["zone"], node.spec.unschedulable) == ("b", True)
    assert node == cluster.nodes()[0]
    cluster.patch(Node, "n1", {"status": {"allocatable": {"cpu": "8"}}}, status=True)
    assert cluster.nodes()[0].status.allocatable["cpu"] == "8"
    cluster.add_pod("p")
    pod = cluster.patch(Pod, "p", {"metadata": {"labels": {"a": "b"}}})
    assert pod.labels == {"a": "b"}


def test_custom_resources_are_served_when_they_are_defined(cluster: FakeCluster) -> None:
    """After `serve` objects of the kind come in and out, with their fields, per namespace."""
    assert not cluster.serves(QUEUES)
    cluster.serve(QUEUES)
    assert cluster.serves(QUEUES)
    for namespace, weight in (("one", 2), ("two", 3)):
        manifest = {"apiVersion": "example.com/v1", "kind": "Queue", "metadata": {"name": "q", "namespace": namespace}}
        cluster.add({**manifest, "spec": {"weight": weight, "unread": True}}, Queue)
    assert sorted(queue.spec.weight for queue in cluster.objects(Queue)) == [2, 3]
    assert [queue.spec.weight for queue in cluster.objects(Queue, namespace="two")] == [3]
    assert cluster.patch(Queue, "q", {"spec": {"weight": 5}}, namespace="one").spec.weight == 5
    cluster.delete(Queue, "q", namespace="one")
    assert [queue.namespace for queue in cluster.objects(Queue)] == ["two"]


def test_kinds_that_are_built_in_need_no_definition(cluster: FakeCluster) -> None:
    """Every kind that the scheduler reads is served."""
    assert all(cluster.serves(kind) for kind in BUILT_IN_KINDS)
    assert {each.name for each in cluster.objects(PriorityClass)} >= {"system-node-critical"}


async def test_events_are_in_order(cluster: FakeCluster) -> None:
    """Events come back oldest first, or those of one reason."""
    cluster.add_node("n1", allocatable={"cpu": "1"})
    framework = cluster.framework()
    await framework.schedule("large", requests={"cpu": "2"})
    await cluster.clock.advance(1)
    await framework.schedule("small", requests={"cpu": "1"})
    assert [event["reason"] for event in cluster.events()] == ["FailedScheduling", "Scheduled"]
    (event,) = cluster.events("Scheduled")
    assert event["note"] == "Successfully assigned default/small to n1"


@pytest.mark.parametrize(
    ("requests", "what"),
    [
        pytest.param({"cpu": "5"}, "cpu", id="cpu"),
        pytest.param({"memory": "20Gi"}, "memory", id="memory"),
        pytest.param({"example.com/gpu": "2"}, "example.com/gpu", id="extended resource"),
    ],
)
def test_an_overcommitted_node_is_found(requests: dict[str, str], what: str) -> None:
    """Whoever put the pods there: a node that is promised more than it has fails the check."""
    cluster = FakeCluster()
    cluster.add_node("n1", allocatable={"example.com/gpu": "1"})
    cluster.assert_invariants()
    cluster.add_pod("p", node_name="n1", requests=requests)
    with pytest.raises(AssertionError, match=f"node n1 is overcommitted: {what}"):
        cluster.assert_invariants()


def test_resources_that_a_profile_counts_elsewhere_do_not_overcommit_nodes() -> None:
    """A resource that NodeResourcesFit ignores is one of the cluster: no node offers it, and pods request it."""
    cluster = FakeCluster()
    cluster.add_node("n1")
    cluster.add_pod("p", node_name="n1", requests={"license.example.com/solver": "1", "example.com/seat": "1"})
    args = {"ignoredResourceGroups": ["license.example.com"], "ignoredResources": ["example.com/seat"]}
    cluster.framework(args={"NodeResourcesFit": {"ignoredResources": ["example.com/seat"]}})
    with pytest.raises(AssertionError, match=r"node n1 is overcommitted: license\.example\.com/solver"):
        cluster.assert_invariants()
    cluster.framework(args={"NodeResourcesFit": args})
    cluster.assert_invariants()


def test_too_many_pods_are_found() -> None:
    """The number of pods is an amount like any other; pods that have ended do not count."""
    cluster = FakeCluster()
    cluster.add_node("n1", allocatable={"pods": "1"})
    cluster.add_pod("one", node_name="n1")
    cluster.add_pod("two", node_name="n1", status={"phase": "Succeeded"})
    cluster.assert_invariants()
    cluster.add_pod("three", node_name="n1")
    with pytest.raises(AssertionError, match="node n1 is overcommitted: pods"):
        cluster.assert_invariants()


async def test_closing_ends_everything() -> None:
    """After `close` no task of the frameworks is left, time passed only virtually, and closing again does nothing."""
    cluster = FakeCluster()
    cluster.add_node("n1")
    before = asyncio.all_tasks()
    frameworks = [cluster.framework() for _ in range(2)]
    await frameworks[0].schedule("p")
    await cluster.close()
    await cluster.close()
    assert asyncio.all_tasks() == before
    cluster.assert_invariants()


async def test_a_cluster_without_frameworks_closes() -> None:
    """Where nothing was started there is nothing to stop."""
    cluster = FakeCluster()
    await cluster.close()
    assert cluster.clock.now() == 1000.0


async def test_the_server_can_be_made_to_fail(cluster: FakeCluster) -> None:
    """Faults of the API server meet a framework as they would in the open, and virtual time gets it over them."""
    cluster.add_node("n1")
    cluster.server.faults.add(Fault(method="GET", path="/nodes", status=500, times=2))
    refusal = cluster.server.faults.add(Fault(method="POST", path="/binding", status=503, times=1))
    framework = cluster.framework()
    await framework.schedule("p")
    await cluster.clock.advance(10)
    assert framework.result("p").bound
    assert refusal.hits == 1


def test_errors_are_those_of_the_api() -> None:
    """What the API server refuses can be told apart by type, for those who catch it."""
    assert issubclass(NotFoundError, APIError)
    assert issubclass(ConflictError, APIError)


class Binds(PostBindPlugin):
    """A third-party plugin."""

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Do nothing."""


@pytest.mark.parametrize(
    ("plugin", "point", "error", "raises"),
    [
        pytest.param("VolumeBinding", "PreBind", ConflictError("changed", status=409), False, id="in-tree, a conflict"),
        pytest.param("VolumeBinding", "Filter", TransportError("no answer"), False, id="in-tree, no answer"),
        pytest.param("VolumeBinding", "PreBind", KeyError("zone"), True, id="in-tree, a bug"),
        pytest.param("Binds", "PreBind", ConflictError("changed", status=409), False, id="at PreBind, a conflict"),
        pytest.param("Binds", "PostBind", ConflictError("changed", status=409), True, id="at PostBind, a conflict"),
        pytest.param("Binds", "PreBind", KeyError("zone"), True, id="at PreBind, a bug"),
    ],
)
def test_errors_of_the_api_server_that_plugins_pass_on_are_no_failures(
    plugin: str, point: str, error: Exception, raises: bool
) -> None:
    """The pod is retried then, so a test with faults of the API server need not allow failures of plugins."""
    cluster = FakeCluster()
    framework = cluster.framework(enable=[Binds])
    framework.scheduler.plugin_failures.report(error, plugin=plugin, point=point)
    assert len(framework.plugin_errors) == 1
    if not raises:
        cluster.raise_plugin_errors()
        return
    with pytest.raises(type(error)) as caught:
        cluster.raise_plugin_errors()
    assert caught.value is error
    assert "pass allow_plugin_errors=True to cluster.framework()" in error.__notes__[0]
    framework.allow_plugin_errors = True
    cluster.raise_plugin_errors()


@pytest.mark.parametrize("reason", ["Deferred", "Infeasible"])
def test_a_pending_resize_does_not_overcommit_a_node(cluster: FakeCluster, reason: str) -> None:
    """The pod counts for what its node has set aside; two pods that are too large for the node fail the test still."""
    cluster.add_node("n", allocatable={"cpu": "8", "memory": "8Gi", "pods": "110"})
    status: dict[str, object] = {
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}],
        "containerStatuses": [
            {
                "name": "c0",
                "ready": True,
                "restartCount": 0,
                "image": "app",
                "imageID": "",
                "allocatedResources": {"cpu": "2"},
                "resources": {"requests": {"cpu": "2"}},
            }
        ],
    }
    cluster.add_pod("resized", node_name="n", requests={"cpu": "7"})
    cluster.add_pod("other", node_name="n", requests={"cpu": "6"})
    with pytest.raises(AssertionError, match="node n is overcommitted: cpu"):
        cluster.assert_invariants()
    cluster.patch(Pod, "resized", {"status": status}, status=True)
    cluster.assert_invariants()
