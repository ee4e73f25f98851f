"""Groups that declare minResources wait until the quotas of their namespace have room for the whole group."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from pyscheduler.api import Pod, ResourceQuota
from pyscheduler_quota.claims import RESERVED

SCARCE = "insufficient quota for the whole group: compute lacks requests.cpu: needed {}, limit {}, used {}"


def add_quota(world: Any, hard: str, used: str = "0", **spec: Any) -> None:
    """Create a quota of CPUs in the namespace."""
    world.cluster.add(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "compute", "namespace": "default"},
            "spec": spec,
            "status": {"hard": {"requests.cpu": hard}, "used": {"requests.cpu": used}},
        },
        ResourceQuota,
    )


def change_quota(world: Any, **status: str) -> None:
    """Change limit (`hard`) or use (`used`) of the quota, as the API server does."""
    body = {"status": {name: {"requests.cpu": value} for name, value in status.items()}}
    world.cluster.patch(ResourceQuota, "compute", body, status=True)


def reserved(world: Any, group: str) -> Any:
    """Return the amounts in the annotation of a group; None without it."""
    (found,) = (each for each in world.cluster.objects(world.kind("sigs")) if each.name == group)
    text = found.annotations.get(RESERVED)
    return None if text is None else json.loads(text)


@pytest.mark.parametrize("strategy", ["permit", "groupCycle"])
async def test_group_waits_until_its_quota_has_room_for_all_of_it(
    world: Any, strategy: str, attempts: Counter[str]
) -> None:
    """Members that exist are in `used`; the rest of minResources must fit, then the group is tried at once."""
    world.nodes(6)
    world.schedule(strategy=strategy)
    add_quota(world, "5", "2")
    world.group("g", 2, pods=2, minResources={"cpu": "6"})
    await world.settle(100)
    assert world.states("g") == {"pending": 2}
    assert SCARCE.format(4, 5, 2) in "".join(world.messages("g"))
    assert reserved(world, "g") is None
    assert max(attempts.values()) <= 1
    (event,) = world.cluster.events("WaitingForQuota")
    assert event["regarding"]["name"] == "g"
    assert event["note"] == SCARCE.format(4, 5, 2)
    change_quota(world, hard="6")
    await world.settle(1)
    assert world.states("g") == {"bound": 2}
    assert reserved(world, "g") == {"cpu": "6", "pods": "2"}


async def test_groups_do_not_take_what_another_group_reserved(world: Any) -> None:
    """The older group holds its reservation before its pods exist; its deletion lets the younger one start."""
    world.nodes(6)
    world.schedule()
    add_quota(world, "8")
    world.group("older", 3, minResources={"cpu": "6"})
    await world.settle(1)
    world.group("younger", 2, pods=2, minResources={"cpu": "5"})
    change_quota(world, used="2")
    await world.settle(1)
    assert world.states("younger") == {"pending": 2}
    text = f"{SCARCE.format(3, 8, 2)}, reserved by other groups 6"
    assert text in "".join(world.messages("younger"))
    world.cluster.delete(world.kind("sigs"), "older")
    await world.settle(1)
    assert world.states("younger") == {"bound": 2}


async def test_members_draw_on_the_reservation_when_they_are_created(world: Any) -> None:
    """A pod counts in `used` or in what is left of the reservation, but not in both."""
    world.nodes(6)
    world.schedule()
    add_quota(world, "6")
    world.group("older", 3, minResources={"cpu": "3"})
    await world.settle(1)
    world.group("younger", 3, pods=3, minResources={"cpu": "3"})
    world.pods("older", 2)
    change_quota(world, used="5")
    await world.settle(1)
    assert (world.states("younger"), world.states("older")) == ({"bound": 3}, {"pending": 2})
    assert reserved(world, "younger") == {"cpu": "3", "pods": "3"}
    # The last place is reserved.
    world.group("last", 1, minResources={"cpu": "1"})
    await world.settle(1)
    assert reserved(world, "last") is None
    world.pods("older", 1, start=2)
    change_quota(world, used="6")
    await world.settle(1)
    assert world.states("older") == {"bound": 3}
    change_quota(world, hard="7")
    await world.settle(1)
    assert reserved(world, "last") == {"cpu": "1", "pods": "1"}


async def test_reservation_ends_when_all_members_have_ended(world: Any) -> None:
    """The annotation becomes `{}`, and another group gets the quota; new members make a new claim."""
    world.nodes(4)
    world.schedule()
    add_quota(world, "2")
    world.group("first", 1, pods=1, minResources={"cpu": "2"})
    change_quota(world, used="1")
    await world.settle(1)
    assert reserved(world, "first") == {"cpu": "2", "pods": "1"}
    world.group("second", 1, minResources={"cpu": "2"})
    await world.settle(1)
    assert reserved(world, "second") is None
    world.cluster.patch(Pod, "first-0", {"status": {"phase": "Succeeded"}}, status=True)
    change_quota(world, used="0")
    await world.settle(1)
    assert reserved(world, "first") == {}
    assert reserved(world, "second") == {"cpu": "2", "pods": "1"}
    world.pods("first", 1, start=1)
    change_quota(world, used="1")
    await world.settle(1)
    assert world.states("first") == {"bound": 1}, "one of its members has had a node"


async def test_the_next_leader_reads_reservations_from_annotations(world: Any) -> None:
    """A granted group keeps its reservation even if the quota is too small now; without one it has to wait."""
    world.nodes(4)
    add_quota(world, "2", "1")
    for name in ("known", "new"):
        world.group(name, 1, pods=1, minResources={"cpu": "3"})
    world.cluster.patch(
        world.kind("sigs"), "known", {"metadata": {"annotations": {RESERVED: '{"cpu": "3", "pods": "1"}'}}}
    )
    world.schedule()
    await world.settle(1)
    assert (world.states("known"), world.states("new")) == ({"bound": 1}, {"pending": 1})


async def test_annotation_of_another_writer_is_corrected(world: Any) -> None:
    """While the scheduler decides, a group cannot grant itself a reservation."""
    world.nodes(4)
    world.schedule()
    add_quota(world, "2")
    world.group("g", 1, pods=1, minResources={"cpu": "4"})
    await world.settle(1)
    world.cluster.patch(world.kind("sigs"), "g", {"metadata": {"annotations": {RESERVED: '{"cpu": "4"}'}}})
    await world.settle(5)
    assert reserved(world, "g") is None
    assert world.states("g") == {"pending": 1}


async def test_writers_that_disagree_do_not_cause_a_storm(world: Any) -> None:
    """Each correction of the same text waits twice as long as the one before."""
    world.nodes(4)
    world.schedule()
    add_quota(world, "4")
    world.group("g", 1, minResources={"cpu": "4"})
    await world.settle(1)
    corrected = 0
    for _ in range(60):
        if reserved(world, "g") is not None:
            corrected += 1
            world.cluster.patch(world.kind("sigs"), "g", {"metadata": {"annotations": {RESERVED: None}}})
        await world.settle(1)
    assert 4 <= corrected <= 7


async def test_without_a_quota_for_it_nothing_is_reserved(world: Any) -> None:
    """Neither without quotas, nor if their scopes select other pods; then minResources are checked on nodes only."""
    world.nodes(4)
    world.schedule()
    world.group("free", 2, pods=2, minResources={"cpu": "2"})
    await world.settle(1)
    assert (world.states("free"), reserved(world, "free")) == ({"bound": 2}, None)
    selector = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}
    add_quota(world, "1", scopeSelector=selector)
    world.group("low", 2, pods=2, minResources={"cpu": "2"})
    await world.settle(1)
    assert (world.states("low"), reserved(world, "low")) == ({"bound": 2}, None)


async def test_members_of_a_group_that_has_started_are_not_held(world: Any) -> None:
    """A lost member comes back even if the quota has shrunk: to hold it would not help anybody."""
    world.nodes(4)
    world.schedule()
    world.group("g", 2, pods=2, minResources={"cpu": "4"})
    await world.settle(1)
    add_quota(world, "2", "2")
    world.cluster.delete_pod("g-1")
    world.pods("g", 1, start=2)
    await world.settle(1)
    assert world.states("g") == {"bound": 2}


async def test_a_larger_minimum_is_reserved_when_it_fits(world: Any) -> None:
    """Until then, the group keeps what it has."""
    world.nodes(4)
    world.schedule()
    add_quota(world, "4")
    world.group("g", 1, minResources={"cpu": "3"})
    await world.settle(1)
    world.change("g", minResources={"cpu": "5"})
    await world.settle(1)
    assert reserved(world, "g") == {"cpu": "3", "pods": "1"}
    change_quota(world, hard="5")
    await world.settle(1)
    assert reserved(world, "g") == {"cpu": "5", "pods": "1"}


async def test_none_reads_no_quotas_and_writes_nothing(world: Any) -> None:
    """`quotaReservation: none` is the behaviour of scheduler-plugins."""
    world.nodes(4)
    world.schedule(quotaReservation="none")
    add_quota(world, "1")
    world.group("g", 2, pods=2, minResources={"cpu": "2"})
    await world.settle(1)
    assert (world.states("g"), reserved(world, "g")) == ({"bound": 2}, None)
    assert not any(kind.plural == "resourcequotas" for kind in world.plugin.watches)
    assert not any("podgroups" in rule.resources for rule in world.plugin.rbac)


async def test_refused_writes_are_retried(world: Any) -> None:
    """The group starts meanwhile: scheduling does not wait for the annotation."""
    from kube_testserver.serving.faults import Fault

    world.nodes(4)
    world.cluster.server.faults.add(Fault(method="PATCH", path="/podgroups/g$", status=500, times=3))
    world.schedule()
    add_quota(world, "4")
    world.group("g", 2, pods=2, minResources={"cpu": "2"})
    await world.settle(0.5)
    assert (world.states("g"), reserved(world, "g")) == ({"bound": 2}, None)
    await world.settle(60)
    assert reserved(world, "g") == {"cpu": "2", "pods": "2"}
