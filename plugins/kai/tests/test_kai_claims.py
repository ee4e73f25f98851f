"""Resource claims in the preset kai: their GPUs count in queues, and a shared claim belongs to a queue."""

from __future__ import annotations

from typing import Any

from pyscheduler.api import DeviceClass, ResourceClaim, ResourceSlice
from pyscheduler.plugins.dynamic_resources.claims import MOST_CONSUMERS
from pyscheduler_lab.testing import BatchCluster, gpus

LABEL = "kai.scheduler/queue"


def add_devices(kai: BatchCluster, count: int) -> None:
    """Add a node with devices of the classes for GPUs and for others."""
    kai.nodes(1, cpu="64")
    for name in ("gpu", "nic"):
        spec = {
            "driver": f"{name}.example.com",
            "nodeName": "n0",
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"d{at}"} for at in range(count)],
        }
        selector = {"cel": {"expression": f"device.driver == '{name}.example.com'"}}
        metadata = {"apiVersion": "resource.k8s.io/v1", "metadata": {"name": name}}
        kai.cluster.add({**metadata, "kind": "ResourceSlice", "spec": spec}, ResourceSlice)
        kai.cluster.add({**metadata, "kind": "DeviceClass", "spec": {"selectors": [selector]}}, DeviceClass)


def claim(kai: BatchCluster, name: str, queue: str = "", *, count: int = 1, device_class: str = "gpu") -> None:
    """Create a claim with the label of a queue."""
    request = {"name": "r", "exactly": {"deviceClassName": device_class, "count": count}}
    labels = {LABEL: queue} if queue else {}
    manifest = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"devices": {"requests": [request]}},
    }
    kai.cluster.add(manifest, ResourceClaim)


def job(kai: BatchCluster, name: str, queue: str, *claims: str, **keywords: Any) -> None:
    """Create a job of one pod that uses claims."""
    named = [{"name": each, "resourceClaimName": each} for each in claims]
    kai.job(name, queue, 1, spec={"resourceClaims": named}, **keywords)


def waits_because(kai: BatchCluster, pod: str) -> str:
    """Return the message of a pod's condition."""
    (found,) = (each for each in kai.cluster.pods() if each.name == pod)
    return next((each.message for each in found.status.conditions if each.type == "PodScheduled"), "")


async def test_claimed_gpus_count_in_limits(kai: BatchCluster) -> None:
    """A queue that may use two GPUs gets them by claims only once; devices of other classes do not count."""
    add_devices(kai, 4)
    kai.queue("q", resources=gpus(0, limit=2))
    for name, device_class in (("a", "gpu"), ("b", "gpu"), ("c", "nic")):
        claim(kai, name, "q", count=2, device_class=device_class)
        job(kai, name, "q", name)
    await kai.start()
    await kai.pass_time()
    assert sorted([*kai.nodes_of("a"), *kai.nodes_of("b")]) == ["", "n0"]
    assert kai.nodes_of("c") == ["n0"]


async def test_a_claim_that_is_created_later_counts(kai: BatchCluster) -> None:
    """A pod waits for its claim; once the claim is there, its GPUs count."""
    add_devices(kai, 4)
    kai.queue("q", resources=gpus(0, limit=1))
    job(kai, "small", "q", "one")
    job(kai, "large", "q", "two")
    await kai.start()
    await kai.pass_time()
    claim(kai, "one", "q")
    claim(kai, "two", "q", count=2)
    await kai.pass_time(20)
    assert (kai.nodes_of("small"), kai.nodes_of("large")) == (["n0"], [""])


async def test_claims_that_never_exist_are_forgotten_with_their_pods(kai: BatchCluster) -> None:
    """A tenant that creates and deletes pods with unknown claims does not fill the memory."""
    add_devices(kai, 1)
    kai.queue("q", resources=gpus(0, limit=1))
    for number in range(3):
        job(kai, f"j{number}", "q", f"unknown-{number // 2}")
    measured = await kai.start()
    await kai.pass_time()
    awaited = measured.scheduler.profiles["batch"].plugins["Batch"]._claimed._awaited
    assert {name: len(pods) for name, pods in awaited.items()} == {"default/unknown-0": 2, "default/unknown-1": 1}
    for number in range(1, 3):
        kai.cluster.delete_pod(f"j{number}-0")
    await kai.pass_time()
    assert {name: len(pods) for name, pods in awaited.items()} == {"default/unknown-0": 1}


async def test_a_queue_reclaims_claimed_gpus(kai: BatchCluster) -> None:
    """A queue within its quota takes GPUs back from a pod whose claim has more than the quota of its queue."""
    add_devices(kai, 2)
    for name in ("owner", "borrower"):
        kai.queue(name, resources=gpus(1))
    claim(kai, "both", "borrower", count=2)
    job(kai, "borrowing", "borrower", "both")
    await kai.start()
    await kai.pass_time()
    kai.go("Running", "borrowing-0")
    claim(kai, "one", "owner")
    job(kai, "owning", "owner", "one")
    await kai.pass_time()
    (victim,) = (pod for pod in kai.cluster.pods() if pod.name == "borrowing-0")
    assert victim.is_terminating


async def test_a_shared_claim_of_gpus_needs_the_label_of_its_queue(kai: BatchCluster) -> None:
    """Pods whose claim lacks the label of their queue wait with a reason; with the label they run."""
    add_devices(kai, 4)
    for name in ("q", "other"):
        kai.queue(name)
    claim(kai, "unlabelled")
    claim(kai, "wrong", "other")
    claim(kai, "free", device_class="nic")
    job(kai, "a", "q", "unlabelled")
    job(kai, "b", "q", "wrong")
    job(kai, "c", "q", "free")
    await kai.start()
    await kai.pass_time()
    assert (kai.nodes_of("a"), kai.nodes_of("b"), kai.nodes_of("c")) == ([""], [""], ["n0"])
    assert f"does not have a queue label ({LABEL})" in waits_because(kai, "a-0")
    assert "(expected queue: q, claim queue label: other)" in waits_because(kai, "b-0")
    kai.cluster.patch(ResourceClaim, "unlabelled", {"metadata": {"labels": {LABEL: "q"}}})
    await kai.pass_time(20)
    assert kai.nodes_of("a") == ["n0"]


async def test_a_claim_has_a_largest_number_of_consumers(kai: BatchCluster) -> None:
    """A pod waits for a claim that as many pods use as may, and runs once one of them is gone."""
    add_devices(kai, 1)
    kai.queue("q")
    claim(kai, "c", "q")
    users = [{"resource": "pods", "name": f"p{at}", "uid": f"p{at}"} for at in range(MOST_CONSUMERS)]
    device = {"request": "r", "driver": "gpu.example.com", "pool": "gpu", "device": "d0"}
    status = {"allocation": {"devices": {"results": [device]}}, "reservedFor": users}
    kai.cluster.patch(ResourceClaim, "c", {"status": status}, status=True)
    job(kai, "a", "q", "c")
    await kai.start()
    await kai.pass_time()
    assert kai.nodes_of("a") == [""]
    kai.cluster.patch(ResourceClaim, "c", {"status": {"reservedFor": users[1:]}}, status=True)
    await kai.pass_time(20)
    assert kai.nodes_of("a") == ["n0"]
