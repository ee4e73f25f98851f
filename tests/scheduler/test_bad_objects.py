"""Objects as no API server would store them, and odd ones that it does: counted, logged by name, and passed over.

Each comes in the first list and by the watch. Beside it there is always a healthy pod, which is bound.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from pyscheduler.testing import node_manifest, pod_manifest
from tests.scheduler.measured import Measured

if TYPE_CHECKING:
    from pyscheduler.testing import FakeCluster

NULLS = {
    "metadata": {"labels": None, "annotations": None, "creationTimestamp": None, "ownerReferences": None,
                 "finalizers": None, "managedFields": None},
    "spec": {"nodeSelector": None, "affinity": None, "tolerations": None, "volumes": None, "initContainers": None,
             "schedulingGates": None, "topologySpreadConstraints": None, "overhead": None, "priority": None,
             "resourceClaims": None, "securityContext": None, "nodeName": None},
    "status": {"conditions": None, "containerStatuses": None, "phase": None},
}  # fmt: skip


def pod(name: str = "odd", *, spec: Any = (), metadata: Any = (), status: Any = ()) -> dict[str, Any]:
    """Return a pod's manifest with some things otherwise."""
    manifest = pod_manifest(name)
    manifest["metadata"] |= {"uid": f"uid-{name}", **dict(metadata)}
    manifest["spec"] |= dict(spec)
    manifest["status"] |= dict(status)
    return manifest


def container(**others: Any) -> dict[str, Any]:
    """Return a container."""
    return {"name": "c", "image": "app", **others}


READABLE = [
    pytest.param(pod(spec={"fromTheFuture": {"a": [1]}}, metadata={"x": 1}, status={"y": None}), id="unknown fields"),
    pytest.param({**pod(), "more": [{}]}, id="unknown field at the top"),
    pytest.param(pod(**NULLS), id="nulls everywhere"),
    pytest.param(pod(spec={"containers": None}), id="containers null"),
    pytest.param(
        pod(spec={"containers": [container(resources=None, ports=None, env=None)]}), id="nulls in a container"
    ),
    pytest.param(pod(spec={"containers": [container(resources={"requests": None, "limits": None})]}), id="no requests"),
    pytest.param(pod(spec={"priority": 2**70}), id="a priority beyond all integers of Go"),
    pytest.param({key: value for key, value in pod().items() if key != "status"}, id="no status"),
    pytest.param(pod(metadata={"annotations": {"note": "x" * 1_000_000}}), id="a megabyte"),
    pytest.param(pod(metadata={"labels": {"long": "x" * 10_000}}), id="a label of 10,000 characters"),
    pytest.param(pod(metadata={"labels": {f"l{n}": "x" for n in range(10_000)}}), id="10,000 labels"),
    pytest.param(
        pod(spec={"containers": [container(resources={"requests": {"cpu": "1m"}})] * 5000}), id="5,000 containers"
    ),
    pytest.param(
        pod(spec={"tolerations": [{"key": f"k{n}", "operator": "Exists"} for n in range(5000)]}), id="5,000 tolerations"
    ),
    pytest.param(
        pod(spec={"containers": [container(resources={"requests": {"cpu": 1, "memory": 1e6}})]}),
        id="numbers as amounts",
    ),
    pytest.param(pod(metadata={"labels": {"k": 'a\nb\t"c" \x00 é'}}), id="strange characters"),
]

#: What cannot be read, and what its user is told.
UNREADABLE = [
    pytest.param(pod(spec={"priority": "high"}), "`$.spec.priority`", id="a text for a number"),
    pytest.param(pod(spec={"containers": {}}), "`$.spec.containers`", id="a map for a list"),
    pytest.param(pod(spec={"containers": [container(ports=[{"hostPort": "80"}])]}), "hostPort", id="a number as text"),
    pytest.param(pod(metadata={"labels": {"a": 1}}), "`$.metadata.labels", id="a number as a label"),
    pytest.param(pod(spec={"hostNetwork": "yes"}), "hostNetwork", id="a text for a boolean"),
    pytest.param(
        pod(spec={"containers": [container(resources={"requests": {"cpu": "1 core"}})]}), "'1 core'", id="an amount"
    ),
    pytest.param(
        pod(spec={"containers": [container(resources={"requests": {"cpu": True}})]}),
        "got `bool`",
        id="a boolean amount",
    ),
    pytest.param(pod(spec={"overhead": {"memory": ""}}), "quantity ''", id="an empty amount"),
]


async def beside(cluster: FakeCluster, manifest: dict[str, Any], *, first: bool) -> Measured:
    """Let a scheduler meet `manifest`, in its first list or later; the pods beside it must be bound."""
    cluster.add_node("n1", allocatable={"cpu": "64", "memory": "64Gi", "pods": "110"})
    cluster.add_pod("early")
    measured = Measured(cluster)
    if first:
        cluster.server.plant(manifest)
    await measured.start()
    if not first:
        cluster.server.plant(manifest)
    await cluster.clock.advance(5)
    cluster.add_pod("late")
    await cluster.clock.advance(5)
    assert [cluster.pod(name).node_name for name in ("early", "late")] == ["n1", "n1"]
    measured.scheduler.check_invariants()
    return measured


def stored(cluster: FakeCluster, name: str = "odd") -> dict[str, Any]:
    """Return a pod as the server has it."""
    found: dict[str, Any] = cluster.server.get("v1", "Pod", name, namespace="default")
    return found


@pytest.mark.sampled(5)
@pytest.mark.parametrize("first", [True, False], ids=["listed", "watched"])
@pytest.mark.parametrize("manifest", READABLE)
async def test_odd_pods_are_scheduled(cluster: FakeCluster, manifest: dict[str, Any], *, first: bool) -> None:
    """What Go would read is read: such a pod is bound like any other, and nothing is complained about."""
    measured = await beside(cluster, manifest, first=first)
    assert stored(cluster)["spec"].get("nodeName") == "n1"
    assert not measured.warnings()
    await measured.stop()


@pytest.mark.sampled(5)
@pytest.mark.parametrize("first", [True, False], ids=["listed", "watched"])
@pytest.mark.parametrize(("manifest", "told"), UNREADABLE)
async def test_pods_that_cannot_be_read_wait_with_a_reason(
    cluster: FakeCluster,
    caplog: pytest.LogCaptureFixture,
    manifest: dict[str, Any],
    told: str,
    *,
    first: bool,
) -> None:
    """A counter, a log line with the pod's name, and one event for its user; mended, it is scheduled."""
    with caplog.at_level(logging.WARNING):
        measured = await beside(cluster, manifest, first=first)
    assert measured.warnings()["malformed_pod"] >= 1
    complaints = [record.getMessage() for record in caplog.records if "Ignoring malformed" in record.getMessage()]
    assert complaints
    assert all("default/odd" in line and "\n" not in line for line in complaints)
    (event,) = [event for event in cluster.events("FailedScheduling") if event["regarding"]["name"] == "odd"]
    assert event["note"].startswith("the pod cannot be read: ")
    assert told in event["note"]
    assert event["regarding"]["uid"] == "uid-odd"
    replace(cluster, pod())
    await cluster.clock.advance(5)
    assert stored(cluster)["spec"]["nodeName"] == "n1"
    assert not measured.scheduler.handlers.unreadable_pods
    await measured.stop()


async def test_a_pod_whose_selector_cannot_be_read_gets_a_condition_too(cluster: FakeCluster) -> None:
    """Where a server can take it: the fields have their types, only what they say makes no sense."""
    term = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Perhaps"}]}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    measured = await beside(cluster, pod(spec={"affinity": affinity}), first=False)
    (condition,) = stored(cluster)["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "SchedulerError")
    assert condition["message"].startswith("the pod cannot be read: ")
    assert measured.warnings() == {"malformed_pod": 2}
    replace(cluster, pod())
    await measured.stop()


async def test_an_unreadable_pod_of_another_scheduler_is_ignored(cluster: FakeCluster) -> None:
    """It is counted and logged, for it may use a node; no event is written in our name."""
    measured = await beside(cluster, pod(spec={"priority": "high", "schedulerName": "other"}), first=True)
    assert measured.warnings()["malformed_pod"] == 1
    assert not cluster.events("FailedScheduling")
    assert "conditions" not in stored(cluster)["status"]
    cluster.delete_pod("odd")
    await measured.stop()


async def test_an_unreadable_pod_that_is_deleted_is_forgotten(cluster: FakeCluster) -> None:
    """Nothing is kept of what is gone."""
    measured = await beside(cluster, pod(spec={"priority": "high"}), first=False)
    assert set(measured.scheduler.handlers.unreadable_pods) == {"uid-odd"}
    cluster.delete_pod("odd")
    await cluster.clock.advance(1)
    assert not measured.scheduler.handlers.unreadable_pods
    await measured.stop()


def replace(cluster: FakeCluster, manifest: dict[str, Any]) -> None:
    """Put an object in the place of the one that bears its name, past all that a server would say."""
    server = cluster.server
    resource = server.resource_of(manifest)
    collection = server.registry.collection(resource)
    metadata = manifest["metadata"]
    record = collection.get(resource.key(metadata.get("namespace", ""), metadata["name"]))
    assert record is not None
    collection.replace(record, {key: value for key, value in manifest.items() if key not in {"kind", "apiVersion"}})


def node(**parts: Any) -> dict[str, Any]:
    """Return a node's manifest with some parts otherwise."""
    manifest = {**node_manifest("odd"), **parts}
    manifest["metadata"] = {"uid": "uid-odd", **manifest["metadata"]}
    return {key: value for key, value in manifest.items() if value != "absent"}


NODES = [
    pytest.param(node(status="absent"), False, id="without status"),
    pytest.param(node(status=None), False, id="status null"),
    pytest.param(
        node(status={"allocatable": None, "conditions": None, "images": None}), False, id="nulls in the status"
    ),
    pytest.param(node(spec=None), False, id="spec null"),
    pytest.param(node(spec={"taints": None, "podCIDRs": None}), False, id="nulls in the spec"),
    pytest.param(node(metadata={"name": "odd", "labels": None, "annotations": None}), False, id="labels null"),
    pytest.param(
        node(metadata={"name": "odd", "labels": {"l": "x" * 10_000}}), False, id="a label of 10,000 characters"
    ),
    pytest.param(
        node(status={"images": [{"names": None, "sizeBytes": None}] * 2000}), False, id="2,000 images without a name"
    ),
    pytest.param(node(status={"allocatable": {"cpu": "lots"}}), True, id="an amount that is none"),
    pytest.param(node(spec={"taints": 7}), True, id="a number for a list"),
    pytest.param(node(spec={"unschedulable": "yes"}), True, id="a text for a boolean"),
]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("first", [True, False], ids=["listed", "watched"])
@pytest.mark.parametrize(("manifest", "unreadable"), NODES)
async def test_odd_nodes(
    cluster: FakeCluster,
    caplog: pytest.LogCaptureFixture,
    manifest: dict[str, Any],
    *,
    unreadable: bool,
    first: bool,
) -> None:
    """They are there with what they have, or left out with a line and a count; the others take the pods."""
    cluster.add_node("n2", allocatable={"cpu": "64", "memory": "64Gi", "pods": "110"}, labels={"other": "yes"})
    with caplog.at_level(logging.WARNING):
        measured = Measured(cluster)
        if first:
            cluster.server.plant(manifest)
        await measured.start()
        if not first:
            cluster.server.plant(manifest)
        for number in range(3):
            cluster.add_pod(f"p{number}", node_selector={"other": "yes"})
        await cluster.clock.advance(5)
    assert [cluster.pod(f"p{number}").node_name for number in range(3)] == ["n2"] * 3
    assert measured.scheduler.cache.node_count == (1 if unreadable else 2)
    assert measured.warnings().get("malformed_node", 0) == unreadable
    complaints = [record.getMessage() for record in caplog.records if "Ignoring malformed" in record.getMessage()]
    assert len(complaints) == unreadable
    assert all("odd" in line for line in complaints)
    measured.scheduler.check_invariants()
    cluster.delete_node("odd")
    await measured.stop()


async def test_a_pod_on_a_node_that_does_not_exist(cluster: FakeCluster) -> None:
    """It is no trouble, and counts as soon as the node appears."""
    cluster.server.plant(
        pod("ghost", spec={"nodeName": "later", "containers": [container(resources={"requests": {"cpu": "3"}})]})
    )
    measured = await beside(cluster, pod("other", spec={"nodeName": "never"}), first=False)
    assert not measured.warnings()
    assert len(measured.scheduler.snapshot.nodes) == 1
    cluster.add_node("later", allocatable={"cpu": "4"}, labels={"is": "later"})
    cluster.add_pod("large", requests={"cpu": "2"}, node_selector={"is": "later"})
    cluster.add_pod("small", requests={"cpu": "1"}, node_selector={"is": "later"})
    await cluster.clock.advance(5)
    assert (cluster.pod("large").node_name, cluster.pod("small").node_name) == ("", "later")
    cluster.delete_pod("ghost")
    await cluster.clock.advance(15)
    assert cluster.pod("large").node_name == "later"
    await measured.stop()
