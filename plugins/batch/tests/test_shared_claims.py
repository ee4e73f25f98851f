"""Pods of one job that use the same ResourceClaim, which has no devices yet."""

from __future__ import annotations

from typing import Any

import pytest

from kube_testserver.serving.faults import Fault
from pyscheduler.api import DeviceClass, Pod, ResourceClaim, ResourceSlice
from pyscheduler.testing import FakeCluster
from pyscheduler_lab.testing import BatchCluster


def add(batch: BatchCluster, kind: str, name: str, spec: Any, type_: Any, *, namespaced: bool = False) -> None:
    """Add an object of resource.k8s.io."""
    metadata = {"name": name, **({"namespace": "default"} if namespaced else {})}
    batch.cluster.add({"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}, type_)


def devices(batch: BatchCluster, pool: str, where: dict[str, Any]) -> None:
    """Add one device that these nodes see."""
    pools = {"name": pool, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "net.example.com", "pool": pools, "devices": [{"name": "d0"}], **where}
    add(batch, "ResourceSlice", pool, spec, ResourceSlice)


def gang(
    batch: BatchCluster, count: int, minimum: int, *, name: str = "gang", claims: tuple[str, ...] = ("c",)
) -> None:
    """Add a claim for each name and a gang whose pods all use these claims."""
    for each in claims:
        request = {"name": "r", "exactly": {"deviceClassName": "net"}}
        add(batch, "ResourceClaim", each, {"devices": {"requests": [request]}}, ResourceClaim, namespaced=True)
    batch.group(name, "default", minimum)
    named = [{"name": each, "resourceClaimName": each} for each in claims]
    batch.pods(name, count, requests={"cpu": "3"}, spec={"resourceClaims": named})


async def start(cluster: FakeCluster, preset: str, args: str = "") -> BatchCluster:
    """Start a scheduler; three nodes see one device."""
    batch = BatchCluster(cluster, preset)
    batch.nodes(3, cpu="4")
    batch.queue("default")
    add(batch, "DeviceClass", "net", {}, DeviceClass)
    devices(batch, "shared", {"allNodes": True})
    await batch.start(args)
    cluster.server.lifecycle(start_seconds=0.0, stop_seconds=0.0).start()
    return batch


def bound(batch: BatchCluster) -> list[str]:
    """Return the names of the pods with a node."""
    return sorted(pod.name for pod in batch.cluster.pods() if pod.node_name)


def status(batch: BatchCluster) -> dict[str, Any]:
    """Return the status of the claim."""
    (found,) = batch.cluster.server.objects("resource.k8s.io/v1", "ResourceClaim")
    return found.get("status") or {}


def users(batch: BatchCluster) -> int:
    """Return how many pods may use the claim."""
    return len(status(batch).get("reservedFor") or ())


@pytest.mark.parametrize("preset", ["kai", "volcano", "kube-batch"])
@pytest.mark.parametrize("minimum", [1, 3])
@pytest.mark.parametrize("barrier", ["true", "false"])
async def test_members_share_a_claim(pyscheduler_cluster: FakeCluster, preset: str, minimum: int, barrier: str) -> None:
    """The first one that is reserved chooses the devices for all."""
    batch = await start(pyscheduler_cluster, preset, f"gangBarrier: {barrier}")
    gang(batch, 3, minimum)
    await batch.pass_time(5)
    assert bound(batch) == ["gang-0", "gang-1", "gang-2"]
    assert users(batch) == 3


@pytest.mark.parametrize(
    ("fault", "seconds"),
    [
        pytest.param(
            {"path": "/resourceclaims/c/status$", "method": "PATCH", "status": 500, "times": 1}, 30, id="write"
        ),
        pytest.param({"path": "/resourceclaims/c", "method": "PATCH", "status": 403, "times": 4}, 60, id="all-writes"),
        pytest.param({"path": "/pods/gang-1/binding$", "method": "POST", "status": 403, "times": 2}, 60, id="binding"),
        pytest.param({"path": "/resourceclaims/c", "method": "PATCH", "delay_seconds": 3, "times": 1}, 30, id="slow"),
    ],
)
@pytest.mark.parametrize("preset", ["kai", "volcano", "kube-batch"])
async def test_a_gang_with_a_shared_claim_survives_failures(
    pyscheduler_cluster: FakeCluster, preset: str, fault: dict[str, Any], seconds: float
) -> None:
    """A member that cannot write the claim, or is not bound, keeps the others from it for a while only."""
    batch = await start(pyscheduler_cluster, preset)
    hit = batch.cluster.server.faults.add(Fault(**fault))
    gang(batch, 2, 2)
    await batch.pass_time(seconds)
    assert hit.hits >= 1
    assert bound(batch) == ["gang-0", "gang-1"]
    assert users(batch) == 2


@pytest.mark.parametrize("preset", ["kai", "volcano", "kube-batch"])
async def test_a_member_that_is_deleted_meanwhile_leaves_the_claim_to_the_others(
    pyscheduler_cluster: FakeCluster, preset: str
) -> None:
    """Its replacement shares the claim."""
    batch = await start(pyscheduler_cluster, preset)
    batch.cluster.server.faults.add(Fault(method="PATCH", path="/resourceclaims/c", delay_seconds=3, times=1))
    gang(batch, 2, 2)
    await batch.pass_time(1)
    batch.cluster.delete(Pod, "gang-0")
    await batch.pass_time(1)
    named = [{"name": "c", "resourceClaimName": "c"}]
    batch.pods("gang", 1, start=2, requests={"cpu": "3"}, spec={"resourceClaims": named})
    await batch.pass_time(40)
    assert bound(batch) == ["gang-1", "gang-2"]
    assert users(batch) == 2


async def test_two_jobs_that_share_a_claim_both_start(pyscheduler_cluster: FakeCluster) -> None:
    """The second job waits until the allocation is written."""
    batch = await start(pyscheduler_cluster, "kai")
    gang(batch, 2, 2)
    batch.group("other", "default", 1)
    batch.pods("other", 1, requests={"cpu": "3"}, spec={"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]})
    await batch.pass_time(10)
    assert bound(batch) == ["gang-0", "gang-1", "other-0"]


@pytest.mark.parametrize("preset", ["kai", "volcano", "kube-batch"])
async def test_a_claim_that_was_allocated_in_vain_is_allocated_again(
    pyscheduler_cluster: FakeCluster, preset: str
) -> None:
    """A binding failed after the claim got the device of one node, and the node is full since then."""
    batch = BatchCluster(pyscheduler_cluster, preset)
    batch.nodes(2, cpu="4")
    batch.queue("default")
    add(batch, "DeviceClass", "net", {}, DeviceClass)
    for node in ("n0", "n1"):
        devices(batch, node, {"nodeName": node})
    await batch.start()
    pyscheduler_cluster.server.lifecycle(start_seconds=0.0, stop_seconds=0.0).start()
    refusal = pyscheduler_cluster.server.faults.add(
        Fault(method="POST", path="/pods/gang-0/binding$", status=403, times=1)
    )
    gang(batch, 1, 1)
    while not refusal.hits:
        await batch.pass_time(0.005)
    node = status(batch)["allocation"]["devices"]["results"][0]["pool"]
    batch.cluster.add_pod("filler", requests={"cpu": "3"}, node_name=node, scheduler_name="other")
    await batch.pass_time(60)
    assert bound(batch) == ["filler", "gang-0"]
