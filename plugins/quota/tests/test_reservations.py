"""Reservations of quota: random histories, order, scopes, and pods that would take what is reserved."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from pyscheduler.api import KubeObject, Pod, ResourceQuota, decode
from pyscheduler.podgroup import DIALECTS, DialectTable, GroupDirectory, GroupId
from pyscheduler.testing import make_pod
from pyscheduler_quota.claims import RESERVED, annotation_of, shortfall_text
from pyscheduler_quota.reservations import Reservations

NANO = 10**9
SIGS = DialectTable(DIALECTS).named("sigs")


def quota(hard: int, used: int, name: str = "q", **spec: Any) -> ResourceQuota:
    """Return a quota of CPUs."""
    status = {"hard": {"requests.cpu": str(hard)}, "used": {"requests.cpu": str(used)}}
    body = {"metadata": {"name": name, "namespace": "default"}, "spec": spec, "status": status}
    return decode(ResourceQuota, msgspec.json.encode(body))


def made(*, trusts: bool = False) -> tuple[GroupDirectory, Reservations]:
    """Return a directory, and the reservations of all of its groups."""
    directory = GroupDirectory(DIALECTS)
    reservations = Reservations(directory, lambda _: True)
    if not trusts:
        reservations.begin()
    return directory, reservations


def make_group(
    name: str, *, created: str = "2026-01-01T00:00:00Z", annotations: dict[str, str] | None = None, **spec: Any
) -> KubeObject:
    """Return a group object."""
    metadata = {"name": name, "namespace": "default", "uid": name, "creationTimestamp": created}
    body = {"metadata": {**metadata, "annotations": annotations or {}}, "spec": spec}
    return decode(SIGS.kinds[0].type, msgspec.json.encode(body))


def cpus(name: str, group: str, count: int = 1, **keywords: Any) -> Pod:
    """Return a member that requests CPUs."""
    labels = {SIGS.keys[0].name: group} if group else {}
    return make_pod(name, labels=labels, requests={"cpu": str(count)}, uid=name, **keywords)


def ended(pod: Pod, phase: str) -> Pod:
    """Return a pod that has ended."""
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, phase=phase))


OFTEN = ("group", "pod", "succeed", "quota", "decide")
RARELY = ("ungroup", "bind", "fail", "unpod")
STEPS = st.lists(
    st.tuples(st.sampled_from(OFTEN * 3 + RARELY), st.sampled_from("abc"), st.integers(0, 4)), min_size=20, max_size=60
)


@pytest.mark.slow
def test_grants_never_exceed_a_quota() -> None:
    """At each grant, all reservations fit beside what is used; and all sums are those of their parts."""
    seen: Counter[str] = Counter()

    @settings(max_examples=150)
    @given(steps=STEPS)
    def histories(steps: list[tuple[str, str, int]]) -> None:
        follow(steps, seen)

    histories()
    assert min(seen[each] for each in ("granted", "held", "freed", "ended")) > 0, seen


def follow(steps: list[tuple[str, str, int]], seen: Counter[str]) -> None:
    """Follow one history; count in `seen` what happened."""
    directory, reservations = made()
    limits = {"hard": 6, "used": 0}
    reservations.put_quota(quota(**limits))
    pods: dict[str, Pod] = {}
    for step, name, number in steps:
        uid = f"{name}-{number}"
        if step == "group":
            directory.object_added(make_group(name, minMember=2, minResources={"cpu": str(number + 1)}))
        elif step == "ungroup":
            directory.object_deleted(make_group(name))
        elif step == "pod" and uid not in pods:
            pods[uid] = cpus(uid, name)
            directory.pod_added(pods[uid])
        elif step in {"bind", "succeed", "fail"} and uid in pods:
            old = pods[uid]
            spec = msgspec.structs.replace(old.spec, node_name="n")
            new = msgspec.structs.replace(old, spec=spec)
            pods[uid] = new if step == "bind" else ended(new, "Succeeded" if step == "succeed" else "Failed")
            directory.pod_updated(old, pods[uid])
        elif step == "unpod" and uid in pods:
            directory.pod_deleted(pods.pop(uid))
        elif step == "quota":
            limits["used"] = number
            reservations.put_quota(quota(**limits))
        else:
            before = {claim.id: claim.granted for claim in reservations}
            for claim in reservations.decide("default"):
                seen["held" if claim.is_held else "freed"] += 1
            seen["ended"] += sum(claim.has_ended for claim in reservations)
            granted = [claim for claim in reservations if claim.granted and claim.granted != before[claim.id]]
            seen["granted"] += len(granted)
            total = sum(claim.outstanding().get("requests.cpu", 0) for claim in reservations)
            if any(claim.outstanding().get("requests.cpu") for claim in granted):
                assert total + limits["used"] * NANO <= limits["hard"] * NANO
        reservations.check_invariants()
    for claim in reservations:
        living = [pod for pod in pods.values() if pod.name.startswith(claim.id.name) and pod.status.phase != "Failed"]
        if not any(pod.is_terminal for pod in living):
            assert claim.drawn.get("requests.cpu", 0) == len(living) * NANO


def test_members_are_counted_once_there_is_a_quota() -> None:
    """Without quotas, pods cost nothing; the first quota finds all members that exist."""
    directory, reservations = made()
    directory.object_added(make_group("g", minMember=2, minResources={"cpu": "5"}))
    directory.pod_added(cpus("g-0", "g", 2))
    (claim,) = reservations
    assert claim.drawn == {}
    reservations.put_quota(quota(4, 2))
    assert claim.demand(["requests.cpu"]) == {"requests.cpu": 3 * NANO}
    directory.pod_added(cpus("g-1", "g", 2))
    reservations.put_quota(quota(5, 4))
    assert reservations.decide("default") == []
    assert claim.granted


def test_order_of_creation_decides_and_a_large_group_blocks_nobody() -> None:
    """The oldest that fit are granted."""
    directory, reservations = made()
    for name, minute, count in (("late", 3, 2), ("huge", 1, 9), ("early", 2, 3)):
        moment = f"2026-01-01T00:0{minute}:00Z"
        directory.object_added(make_group(name, created=moment, minMember=1, minResources={"cpu": count}))
    reservations.put_quota(quota(4, 0))
    assert [claim.id.name for claim in reservations.decide("default")] == ["huge", "late"]
    (early,) = (claim for claim in reservations if claim.granted)
    assert (early.id.name, annotation_of(early)) == ("early", '{"cpu":3,"pods":"1"}')
    late = reservations.of(GroupId("default", "late", "sigs"))
    assert late is not None
    text = "q lacks requests.cpu: needed 2, limit 4, used 0, reserved by other groups 3"
    assert shortfall_text(late.shortfalls) == f"insufficient quota for the whole group: {text}"


def test_each_quota_of_the_namespace_must_have_room() -> None:
    """Its scopes must select the members; before there is one, a group counts as a pod with requests."""
    directory, reservations = made()
    directory.object_added(make_group("g", minMember=1, minResources={"cpu": "2"}))
    for each in (quota(9, 0, "wide"), quota(1, 0, "tight"), quota(0, 0, "unused", scopes=["BestEffort"])):
        reservations.put_quota(each)
    (held,) = reservations.decide("default")
    assert [each.quota for each in held.shortfalls] == ["tight"]
    reservations.remove_quota(quota(1, 0, "tight"))
    assert reservations.decide("default") == [held]
    assert held.granted


def annotated(name: str, cpu: str, minimum: int = 2) -> Any:
    """Return a group that has reserved what it declares."""
    said = msgspec.json.encode({"cpu": cpu, "pods": str(minimum)}).decode()
    return make_group(name, minMember=minimum, minResources={"cpu": cpu}, annotations={RESERVED: said})


def test_pod_that_takes_what_a_group_reserved_is_refused() -> None:
    """A member draws on its group's reservation; what does not fit anyway is left to the quota itself."""
    directory, reservations = made(trusts=True)
    directory.object_added(annotated("g", "4"))
    reservations.put_quota(quota(6, 0))
    assert reservations.refusal_of(cpus("two", "", 2)) == []
    (found,) = reservations.refusal_of(cpus("three", "", 3))
    assert (found.resource, found.needed, found.reserved) == ("requests.cpu", 3 * NANO, 4 * NANO)
    assert reservations.refusal_of(cpus("member", "g", 3)) == []
    assert reservations.refusal_of(cpus("member", "g", 6)) == [], "two more than reserved, and two are free"
    assert reservations.refusal_of(cpus("nine", "", 9)) == []
    directory.pod_added(cpus("first", "g", 2))
    reservations.put_quota(quota(6, 2))
    assert reservations.refusal_of(cpus("two", "", 2)) == []
    assert reservations.refusal_of(cpus("three", "", 3))
    directory.object_added(annotated("other", "1", 1))
    assert reservations.refusal_of(cpus("two", "", 2))
    assert reservations.refusal_of(cpus("member", "g", 4)), "beyond its own reservation it takes that of the other"
    assert reservations.refusal_of(make_pod("besteffort")) == []


def test_annotations_count_only_while_they_are_trusted() -> None:
    """A scheduler that decides itself does not grant what a group says about itself."""
    directory, reservations = made(trusts=True)
    directory.object_added(annotated("known", "4"))
    reservations.put_quota(quota(6, 3))
    reservations.begin()
    directory.object_added(annotated("new", "4"))
    directory.object_added(make_group("broken", minResources={"cpu": "1"}, annotations={RESERVED: "[4]"}))
    reservations.decide("default")
    assert {claim.id.name: bool(claim.granted) for claim in reservations} == {
        "known": True,
        "new": False,
        "broken": False,
    }


def test_annotation_reserves_no_more_than_its_group_declares() -> None:
    """Amounts that others write into an annotation reserve nothing beyond the declared ones."""
    directory, reservations = made(trusts=True)
    said = '{"cpu": "1e400", "memory": "NaN", "pods": -1, "example.com/gpu": 9}'
    directory.object_added(make_group("g", minMember=2, minResources={"cpu": "2"}, annotations={RESERVED: said}))
    reservations.put_quota(quota(6, 0))
    assert reservations.refusal_of(cpus("four", "", 4)) == []
    (claim,) = reservations
    assert claim.outstanding() == {"cpu": 2 * NANO, "requests.cpu": 2 * NANO}
    reservations.begin()
    directory.object_added(make_group("other", minMember=2, minResources={"cpu": "4"}))
    assert reservations.decide("default") == []
    assert all(each.granted for each in reservations)
    assert annotation_of(claim) == '{"cpu":"2","pods":"2"}'
