"""What becomes of claims while nodes live: made from templates, reserved, given back, deleted."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from kube_objects.errors import APIError
from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.controllers.resource_claims import ClaimController
from kube_testserver.virtual_time import VirtualClock

API = "resource.k8s.io/v1"
FINALIZER = "resource.kubernetes.io/delete-protection"
SPEC = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
RESULT = {"request": "r", "driver": "d.example.com", "pool": "p", "device": "gpu-0"}
ALLOCATION = {"devices": {"results": [RESULT]}}


@pytest.fixture
async def live() -> Any:
    """Yield a cluster with one node, on which pods run."""
    made = EmbeddedCluster(clock=VirtualClock(), rng=random.Random(3))
    made.add({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"pods": "50"}}})
    lifecycle = made.lifecycle()
    lifecycle.start()
    yield made
    lifecycle.stop()
    made.check_invariants()


def template(name: str = "t", **metadata: Any) -> dict[str, Any]:
    """Return a template; `metadata` is for the claims made from it."""
    return {
        "apiVersion": API,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"metadata": metadata, "spec": SPEC},
    }


def claim(name: str = "shared", **status: Any) -> dict[str, Any]:
    """Return a claim that somebody made by hand; with a status, it is protected as the scheduler protects it."""
    metadata = {"name": name, "namespace": "default", "finalizers": [FINALIZER] if status else []}
    return {"apiVersion": API, "kind": "ResourceClaim", "metadata": metadata, "spec": SPEC, "status": status}


def pod(name: str = "p", *, claims: dict[str, str] | None = None, shared: str = "", **spec: Any) -> dict[str, Any]:
    """Return a pod with claims from templates, by name, and one that is there already."""
    named = [{"name": key, "resourceClaimTemplateName": value} for key, value in (claims or {}).items()]
    named += [{"name": "shared", "resourceClaimName": shared}] if shared else []
    container = {"name": "c", "image": "x", "resources": {"claims": [{"name": one["name"]} for one in named]}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], "resourceClaims": named, **spec},
    }


def user_of(cluster: EmbeddedCluster, name: str = "p") -> dict[str, Any]:
    """Return the reference by which a claim is reserved for a pod."""
    uid = cluster.get("v1", "Pod", name, namespace="default")["metadata"]["uid"]
    return {"resource": "pods", "name": name, "uid": uid}


def change(cluster: EmbeddedCluster, api_version: str, kind: str, name: str, **status: Any) -> None:
    """Write fields of a status, as a scheduler or kubelet does."""
    resource = cluster.resource(api_version, kind)
    record = cluster.registry.get(resource, "default", name)
    obj = record.decode()
    cluster.registry.change(
        resource, record, {**obj, "status": {**(obj.get("status") or {}), **status}}, subresource="status"
    )


def reserve(cluster: EmbeddedCluster, name: str, *pods: str) -> None:
    """Allocate a claim and reserve it for pods, as a scheduler does."""
    resource = cluster.resource(API, "ResourceClaim")
    record = cluster.registry.get(resource, "default", name)
    obj = record.decode()
    obj["metadata"]["finalizers"] = [FINALIZER]
    cluster.registry.change(resource, record, obj)
    users = [user_of(cluster, one) for one in pods]
    change(cluster, API, "ResourceClaim", name, allocation=ALLOCATION, reservedFor=users)


async def pass_by(cluster: EmbeddedCluster, seconds: float = 1.0) -> None:
    """Let everybody do what they have to."""
    clock = cluster.clock
    assert isinstance(clock, VirtualClock)
    await clock.advance(seconds)


def claims(cluster: EmbeddedCluster) -> dict[str, dict[str, Any]]:
    """Return the claims by name."""
    return {one["metadata"]["name"]: one for one in cluster.objects(API, "ResourceClaim")}


async def test_claims_are_made_from_templates(live: EmbeddedCluster) -> None:
    """Each claim of the pod is made, belongs to the pod, and is named in its status."""
    live.add(template(labels={"a": "b"}, annotations={"c": "d"}), pod(claims={"one": "t", "two": "t"}))
    await pass_by(live)
    found = live.get("v1", "Pod", "p", namespace="default")
    named = {one["name"]: one["resourceClaimName"] for one in found["status"]["resourceClaimStatuses"]}
    assert set(named) == {"one", "two"}
    assert set(claims(live)) == set(named.values())
    made = claims(live)[named["one"]]
    assert made["metadata"]["name"].startswith("p-one-")
    assert made["metadata"]["labels"] == {"a": "b"}
    assert made["metadata"]["annotations"] == {"c": "d", "resource.kubernetes.io/pod-claim-name": "one"}
    assert made["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": found["metadata"]["uid"], "controller": True}
    ]
    assert made["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1


async def test_long_names_give_up_their_share(live: EmbeddedCluster) -> None:
    """So both the pod and the claim can be told from the name."""
    live.add(template(), pod("p" * 60, claims={"c" * 30: "t"}))
    await pass_by(live)
    (name,) = claims(live)
    assert name.startswith("p" * 37 + "-" + "c" * 18)
    assert len(name) <= 63


async def test_a_pod_waits_for_its_template(live: EmbeddedCluster) -> None:
    """Without the template there is an event that says so, and the claim is made once the template is there."""
    live.add(pod(claims={"one": "t"}))
    await pass_by(live)
    (event,) = [one for one in live.objects("v1", "Event") if one["reason"] == "FailedResourceClaimCreation"]
    assert event["message"] == (
        'PodResourceClaim one: resource claim template "t": resourceclaimtemplate.resource.k8s.io "t" not found'
    )
    live.add(template())
    await pass_by(live)
    assert len(claims(live)) == 1


async def test_a_lost_claim_is_made_again(live: EmbeddedCluster) -> None:
    """Somebody deleted it; the pod still needs one."""
    live.add(template(), pod(claims={"one": "t"}))
    await pass_by(live)
    (first,) = claims(live)
    live.remove(API, "ResourceClaim", first, namespace="default")
    await pass_by(live)
    (second,) = claims(live)
    found = live.get("v1", "Pod", "p", namespace="default")
    assert found["status"]["resourceClaimStatuses"] == [{"name": "one", "resourceClaimName": second}]


async def test_a_claim_that_was_made_but_not_told_of_is_found(live: EmbeddedCluster) -> None:
    """No second one is made."""
    live.add(template(), pod(claims={"one": "t"}))
    await pass_by(live)
    (first,) = claims(live)
    change(live, "v1", "Pod", "p", resourceClaimStatuses=[])
    await pass_by(live)
    assert set(claims(live)) == {first}
    named = live.get("v1", "Pod", "p", namespace="default")["status"]["resourceClaimStatuses"]
    assert named == [{"name": "one", "resourceClaimName": first}]


@pytest.mark.parametrize("ends", [pytest.param("ended", id="ended"), pytest.param("deleted", id="deleted")])
async def test_a_claim_goes_with_its_pod(live: EmbeddedCluster, ends: str) -> None:
    """It was made for the pod, and nobody else uses it: given back, and deleted."""
    live.add(template(), pod(claims={"one": "t"}))
    await pass_by(live)
    (name,) = claims(live)
    reserve(live, name, "p")
    await pass_by(live)
    assert claims(live)[name]["status"]["reservedFor"] == [user_of(live)]
    if ends == "ended":
        change(live, "v1", "Pod", "p", phase="Succeeded")
    else:
        live.remove("v1", "Pod", "p", namespace="default")
    await pass_by(live)
    assert not claims(live)


@pytest.mark.parametrize("ends", [pytest.param("ended", id="ended"), pytest.param("deleted", id="deleted")])
async def test_a_claim_for_extended_resources_goes_with_its_pod(live: EmbeddedCluster, ends: str) -> None:
    """The pod's spec names no claim, only its status does; the claim is given back and deleted all the same."""
    live.add(pod())
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": user_of(live)["uid"], "controller": True}
    made = claim("made")
    made["metadata"]["ownerReferences"] = [owner]
    live.add(made)
    reserve(live, "made", "p")
    mapping = {"containerName": "c", "resourceName": "example.com/x", "requestName": "container-0-request-0"}
    named = {"requestMappings": [mapping], "resourceClaimName": "made"}
    change(live, "v1", "Pod", "p", extendedResourceClaimStatus=named)
    await pass_by(live)
    assert claims(live)["made"]["status"]["reservedFor"] == [user_of(live)]
    if ends == "ended":
        change(live, "v1", "Pod", "p", phase="Succeeded")
    else:
        live.remove("v1", "Pod", "p", namespace="default")
    await pass_by(live)
    assert not claims(live)


async def test_a_shared_claim_stays_until_its_last_user_is_done(live: EmbeddedCluster) -> None:
    """Then it is deallocated and protected no longer, and can be allocated anew."""
    live.add(claim(), pod("p", shared="shared"), pod("q", shared="shared"))
    reserve(live, "shared", "p", "q")
    await pass_by(live)
    change(live, "v1", "Pod", "p", phase="Failed")
    await pass_by(live)
    found = claims(live)["shared"]
    assert found["status"] == {"allocation": ALLOCATION, "reservedFor": [user_of(live, "q")]}
    assert found["metadata"]["finalizers"] == [FINALIZER]
    live.remove("v1", "Pod", "q", namespace="default")
    await pass_by(live)
    found = claims(live)["shared"]
    assert found["status"] == {}
    assert "finalizers" not in found["metadata"]


async def test_a_claim_is_protected_before_it_is_allocated(live: EmbeddedCluster) -> None:
    """The scheduler protects a claim first; between that and the allocation nobody takes the protection away."""
    live.add(claim())
    resource = live.resource(API, "ResourceClaim")
    record = live.registry.get(resource, "default", "shared")
    obj = record.decode()
    obj["metadata"]["finalizers"] = [FINALIZER]
    live.registry.change(resource, record, obj)
    await pass_by(live)
    assert claims(live)["shared"]["metadata"]["finalizers"] == [FINALIZER]
    change(live, API, "ResourceClaim", "shared", allocation=ALLOCATION)
    await pass_by(live)
    assert claims(live)["shared"]["status"] == {"allocation": ALLOCATION}  # allocated by hand: unused, but kept


async def test_a_deleted_claim_waits_for_its_users(live: EmbeddedCluster) -> None:
    """It goes when the last of them is done."""
    live.add(claim(), pod(shared="shared"))
    reserve(live, "shared", "p")
    live.remove(API, "ResourceClaim", "shared", namespace="default")
    await pass_by(live)
    assert claims(live)["shared"]["status"]["reservedFor"]
    change(live, "v1", "Pod", "p", phase="Succeeded")
    await pass_by(live)
    assert not claims(live)


async def test_a_deleted_claim_that_nobody_uses_goes(live: EmbeddedCluster) -> None:
    """Though it is allocated, and protected."""
    live.add(claim(allocation=ALLOCATION))
    live.remove(API, "ResourceClaim", "shared", namespace="default")
    await pass_by(live)
    assert not claims(live)


async def test_users_that_are_no_pods_are_kept(live: EmbeddedCluster) -> None:
    """Nobody here knows when they are done."""
    foreign = {"apiGroup": "example.com", "resource": "jobs", "name": "j", "uid": "x"}
    live.add(claim(allocation=ALLOCATION, reservedFor=[foreign, {"resource": "pods", "name": "gone", "uid": "y"}]))
    await pass_by(live)
    assert claims(live)["shared"]["status"] == {"allocation": ALLOCATION, "reservedFor": [foreign]}


async def test_a_pod_bound_past_the_scheduler_gets_its_reservation(live: EmbeddedCluster) -> None:
    """Where the claim is allocated; else nothing can be reserved."""
    live.add(claim(allocation=ALLOCATION), pod(shared="shared", nodeName="n"), claim("bare"))
    live.add(pod("q", shared="bare", nodeName="n"))
    await pass_by(live)
    assert claims(live)["shared"]["status"]["reservedFor"] == [user_of(live)]
    assert claims(live)["bare"]["status"] == {}


async def test_pods_without_claims_cost_nothing() -> None:
    """They are not even read."""
    made = EmbeddedCluster(clock=VirtualClock(), rng=random.Random(3))
    lifecycle = made.lifecycle()
    lifecycle.start()
    container = {"name": "c", "image": "x"}
    made.add({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}})
    await pass_by(made)
    (controller,) = (part for part in lifecycle._parts if isinstance(part, ClaimController))
    assert not controller._used
    lifecycle.stop()


STEPS = ("add", "bind", "reserve", "end", "delete", "drop claim", "wait")
FIRED: Counter[str] = Counter()


def test_random_histories_leave_no_usage_behind() -> None:
    """A pod that may run has its claim; and when all pods are gone, no claim of theirs is there, none is reserved."""

    @given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 3)), min_size=5, max_size=25))
    def run(steps: list[tuple[str, int]]) -> None:
        asyncio.run(sequence(steps))

    FIRED.clear()
    run()
    print(dict(FIRED))  # noqa: T201 - shown when a count below is missing
    assert not set(STEPS) - set(FIRED)


async def sequence(steps: list[tuple[str, int]]) -> None:
    """Do all steps, and look at what is there in the end."""
    live = EmbeddedCluster(clock=VirtualClock(), rng=random.Random(3))
    live.add({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"pods": "9"}}})
    live.add(template(), claim())
    lifecycle = live.lifecycle()
    lifecycle.start()
    try:
        for what, number in steps:
            try:
                await play(live, what, f"p{number}")
                FIRED[what] += 1
            except APIError:
                FIRED["refused"] += 1
        await pass_by(live)
        check(live)
        for one in live.pods():
            live.remove("v1", "Pod", one["metadata"]["name"], namespace="default")
        await pass_by(live)
        left = claims(live)
        assert set(left) <= {"shared"}
        assert all(not one["status"] for one in left.values())
    finally:
        lifecycle.stop()


async def play(live: EmbeddedCluster, what: str, name: str) -> None:
    """Do one thing to a pod, if it is there; `APIError` where it is not."""
    if what == "add":
        live.add(pod(name, claims={"own": "t"}, shared="shared"))
        return
    if what == "wait":
        await pass_by(live)
        return
    found = live.get("v1", "Pod", name, namespace="default")
    if what == "bind":
        body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n"}}
        await live.client().request(
            "POST", f"/api/v1/namespaces/default/pods/{name}/binding", body=msgspec.json.encode(body)
        )
    elif what == "reserve":
        for one in found.get("status", {}).get("resourceClaimStatuses", ()):
            reserve(live, one["resourceClaimName"], name)
    elif what == "end":
        change(live, "v1", "Pod", name, phase="Succeeded")
    elif what == "delete":
        live.remove("v1", "Pod", name, namespace="default", grace_seconds=None)
    else:
        for one in claims(live):
            live.remove(API, "ResourceClaim", one, namespace="default")


def check(live: EmbeddedCluster) -> None:
    """Hold claims against pods."""
    there = claims(live)
    running = {
        one["metadata"]["uid"]: one
        for one in live.pods()
        if one["status"]["phase"] not in ("Succeeded", "Failed") and "deletionTimestamp" not in one["metadata"]
    }
    for one in running.values():
        for status in one["status"]["resourceClaimStatuses"]:
            assert status["resourceClaimName"] in there
    for one in there.values():
        users = one["status"].get("reservedFor", [])
        assert {user["uid"] for user in users} <= set(running)
        owners = {owner["uid"] for owner in one["metadata"].get("ownerReferences", ())}
        assert owners <= set(running)
