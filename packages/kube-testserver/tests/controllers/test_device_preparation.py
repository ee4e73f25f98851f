"""Before a pod starts: its claims must be its own, and no device goes to two claims."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.virtual_time import VirtualClock

API = "resource.k8s.io/v1"
SPEC = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
FOREIGN = {"apiGroup": "example.com", "resource": "jobs", "name": "j", "uid": "x"}


@pytest.fixture
async def live() -> Any:
    """Yield a cluster with a node, and what lives on it."""
    made = EmbeddedCluster(clock=VirtualClock(), rng=random.Random(5))
    made.add({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"pods": "9"}}})
    lifecycle = made.lifecycle()
    lifecycle.start()
    yield made, lifecycle
    lifecycle.check_invariants()
    lifecycle.stop()


def pod(name: str, *claims: str, **spec: Any) -> dict[str, Any]:
    """Return a pod that is bound, and uses claims."""
    used = [{"name": f"c{index}", "resourceClaimName": claim} for index, claim in enumerate(claims)]
    containers = [{"name": "c", "image": "x"}]
    metadata = {"name": name, "namespace": "default"}
    body = {"nodeName": "n", "containers": containers, "resourceClaims": used, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def claim(name: str, *devices: str, **fields: Any) -> dict[str, Any]:
    """Return a claim with devices; somebody keeps it, so that it is not given up."""
    results = [{"request": "r", "driver": "d.io", "pool": "p", "device": device, **fields} for device in devices]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": [FOREIGN]} if devices else {}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": API, "kind": "ResourceClaim", "metadata": metadata, "spec": SPEC, "status": status}


async def pass_by(cluster: EmbeddedCluster) -> None:
    """Let everybody do what they have to."""
    clock = cluster.clock
    assert isinstance(clock, VirtualClock)
    await clock.advance(1)


def phases(cluster: EmbeddedCluster) -> dict[str, str]:
    """Return the phase of each pod."""
    return {one["metadata"]["name"]: one["status"]["phase"] for one in cluster.pods()}


def said(cluster: EmbeddedCluster) -> list[str]:
    """Return what was told of claims that could not be prepared."""
    events = cluster.objects("v1", "Event")
    return [one["message"] for one in events if one["reason"] == "FailedPrepareDynamicResources"]


async def test_a_pod_waits_until_its_claims_are_its_own(live: Any) -> None:
    """Not there, then not reserved; each is told once, and the pod starts when it may."""
    cluster, lifecycle = live
    cluster.add(pod("p", "one"))
    await pass_by(cluster)
    cluster.add(claim("one"))
    await pass_by(cluster)
    assert phases(cluster) == {"p": "Pending"}
    uid = cluster.get("v1", "Pod", "p", namespace="default")["metadata"]["uid"]
    (made,) = cluster.objects(API, "ResourceClaim")
    prefix = "Failed to prepare dynamic resources: prepare dynamic resources: "
    assert sorted(said(cluster)) == [
        f'{prefix}fetch ResourceClaim one: resourceclaims.resource.k8s.io "one" not found',
        f"{prefix}pod p ({uid}) is not allowed to use ResourceClaim one ({made['metadata']['uid']})",
    ]
    resource = cluster.resource(API, "ResourceClaim")
    record = cluster.registry.get(resource, "default", "one")
    cluster.registry.change(resource, record, {**record.decode(), **claim("one", "a")}, subresource="status")
    await pass_by(cluster)  # allocated: what was bound past the scheduler is reserved for
    assert phases(cluster) == {"p": "Running"}
    assert lifecycle.rejections == 0


async def test_a_device_given_twice_is_found_out(live: Any) -> None:
    """The second pod does not start while the first has the device, and the alarm counts it."""
    cluster, lifecycle = live
    cluster.add(claim("one", "a", "b"), claim("two", "b"), claim("three", "c"))
    cluster.add(pod("first", "one"), pod("also", "one", "three"))
    await pass_by(cluster)
    cluster.add(pod("second", "two"))
    await pass_by(cluster)
    assert phases(cluster) == {"first": "Running", "also": "Running", "second": "Pending"}
    assert lifecycle.rejections == 1
    assert said(cluster)[-1] == (
        "Failed to prepare dynamic resources: prepare dynamic resources: NodePrepareResources failed for ResourceClaim "
        "two: device d.io/p/b is in use for ResourceClaim one"
    )
    cluster.remove("v1", "Pod", "first", namespace="default")
    await pass_by(cluster)
    assert phases(cluster)["second"] == "Pending"  # the other user of the claim is still there
    cluster.remove("v1", "Pod", "also", namespace="default")
    await pass_by(cluster)
    assert phases(cluster) == {"second": "Running"}


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"shareID": "9a3bd3c1-5e3d-4a8c-9c5c-6e6ad7a1d2f0"}, id="shared"),
        pytest.param({"adminAccess": True}, id="administrator"),
    ],
)
async def test_some_devices_have_several_users(live: Any, fields: dict[str, Any]) -> None:
    """Those that can be allocated more than once, and those that an administrator looks after."""
    cluster, lifecycle = live
    labels = {"resource.kubernetes.io/admin-access": "true"}
    record = cluster.registry.get(cluster.resource("v1", "Namespace"), "", "default")
    obj = record.decode()
    obj["metadata"]["labels"] |= labels
    cluster.registry.change(cluster.resource("v1", "Namespace"), record, obj)
    cluster.add(claim("one", "a", **fields), claim("two", "a", **fields), pod("p", "one"), pod("q", "two"))
    await pass_by(cluster)
    assert phases(cluster) == {"p": "Running", "q": "Running"}
    assert lifecycle.rejections == 0


async def test_pods_that_run_already_keep_their_devices(live: Any) -> None:
    """As in a cluster that was loaded, whose claims may come last; nothing is said of those pods."""
    cluster, lifecycle = live
    cluster.add({**pod("old", "one"), "status": {"phase": "Running"}})
    await pass_by(cluster)
    cluster.add(claim("one", "a"))
    await pass_by(cluster)
    assert not said(cluster)
    cluster.add(claim("two", "a"), pod("new", "two"))
    await pass_by(cluster)
    assert phases(cluster) == {"old": "Running", "new": "Pending"}
    assert all("pod old" not in message for message in said(cluster))
    assert lifecycle.rejections == 1
