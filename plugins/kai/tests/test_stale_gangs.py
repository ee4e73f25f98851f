"""Gangs of KAI that stay in parts because bindings are refused: they are evicted, and tried again after a backoff."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

import pytest

from kube_testserver.serving.faults import Fault
from pyscheduler import ReservePlugin, Status
from pyscheduler.api import Pod
from pyscheduler_lab.testing import BatchCluster, gpus

if TYPE_CHECKING:
    from pyscheduler import CycleState

STALE = "kai.scheduler/stale-podgroup-timestamp"


class Refuses(ReservePlugin):
    """Refuses to reserve for some pods."""

    name = "Refuses"
    pods: ClassVar[set[str]] = set()

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Refuse these pods."""
        return Status.unschedulable("no") if pod.name in self.pods else None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Give back nothing."""


def refuse_bindings(kai: BatchCluster, pod: str = "gang-1", **fault: int) -> Fault:
    """Refuse to bind a pod, as an admission policy does."""
    return kai.cluster.server.faults.add(Fault(method="POST", path=f"/pods/{pod}/binding$", status=403, **fault))


async def start(kai: BatchCluster, args: str = "", **fault: int) -> Fault:
    """Start a scheduler and a gang of two, of which the API server refuses to bind the second pod."""
    kai.nodes(3, cpu="4")
    kai.queue("a")
    await kai.start(args)
    kai.cluster.server.lifecycle(start_seconds=0.5, stop_seconds=0.5).start()
    refusal = refuse_bindings(kai, **fault)
    kai.job("gang", "a", 2)
    await kai.pass_time(3)
    return refusal


def names(kai: BatchCluster) -> list[str]:
    """Return the names of all pods."""
    return sorted(pod.name for pod in kai.cluster.pods())


def bound(kai: BatchCluster) -> list[str]:
    """Return the names of the pods that are bound."""
    return sorted(pod.name for pod in kai.cluster.pods() if pod.node_name)


def stamp(kai: BatchCluster) -> str | None:
    """Return since when the gang is stale, as its annotation says."""
    found: dict[str, str] = kai.raw(kai.group_kind, "gang")["metadata"].get("annotations") or {}
    return found.get(STALE)


async def pass_time_with_a_controller(kai: BatchCluster, seconds: int) -> list[int]:
    """Create lost members again at once; return the seconds at which that was so."""
    created = []
    for second in range(seconds):
        await kai.pass_time(1)
        lost = [number for number in range(2) if f"gang-{number}" not in names(kai)]
        for number in lost:
            kai.pods("gang", 1, start=number)
        if lost:
            created.append(second)
    return created


async def test_a_gang_whose_binding_is_refused_is_evicted_after_the_grace_period(kai: BatchCluster) -> None:
    """A pass that places the missing member again does not make the gang whole. The pod that waits is not deleted."""
    await start(kai)
    assert bound(kai) == ["gang-0"]
    assert stamp(kai) is not None
    text = "1 pods are active, minMember is 2; 1 pods are not bound, because their bindings fail, the first is"
    assert ("Normal", "StaleJob", f"Job is stale. {text} default/gang-1") in kai.events("gang")
    await kai.pass_time(55)
    assert bound(kai) == ["gang-0"]
    await kai.pass_time(15)
    assert names(kai) == ["gang-1"]
    (text,) = (text for _, reason, text in kai.events("gang") if reason == "Evict")
    assert text.endswith("evicting remaining pod: default/gang-0 (action=stalegangeviction pods=1)")


@pytest.mark.slow
async def test_passes_for_other_jobs_do_not_make_a_gang_whole(kai: BatchCluster) -> None:
    """While other jobs come and go, the time of the gang goes on."""
    await start(kai)
    for number in range(70):
        kai.job(f"other-{number}", "a", 1, requests={"cpu": "100m"})
        await kai.pass_time(1)
        kai.cluster.delete(Pod, f"other-{number}-0")
    assert not bound(kai)


async def test_a_gang_whose_binding_is_refused_for_a_while_stays(kai: BatchCluster) -> None:
    """Its time ends when the API server has bound the missing member."""
    refusal = await start(kai, times=4)
    await kai.pass_time(30)
    assert refusal.hits == 4
    assert bound(kai) == ["gang-0", "gang-1"]
    assert stamp(kai) is None
    await kai.pass_time(100)
    assert bound(kai) == ["gang-0", "gang-1"]


async def test_a_member_that_finds_room_after_the_grace_period_is_bound(kai: BatchCluster) -> None:
    """Its binding failed before, on a node that is full since then; the gang is evicted if it fails once more."""
    kai.nodes(1, cpu="4")
    kai.queue("a")
    await kai.start("stalenessGracePeriod: 20s")
    refusal = refuse_bindings(kai, times=1)
    kai.job("gang", "a", 2)
    while not refusal.hits:
        await kai.pass_time(0.005)
    kai.cluster.add_pod("filler", requests={"cpu": "3"}, node_name="n0", scheduler_name="other")
    await kai.pass_time(15)
    assert bound(kai) == ["filler", "gang-0"]
    assert stamp(kai) is not None
    kai.cluster.server.faults.add(Fault(method="POST", path="/pods/gang-1/binding$", delay_seconds=10))
    kai.cluster.delete_pod("filler")
    await kai.pass_time(30)
    assert bound(kai) == ["gang-0", "gang-1"]
    assert stamp(kai) is None


@pytest.mark.slow
async def test_a_gang_that_is_refused_again_and_again_is_tried_ever_more_rarely(kai: BatchCluster) -> None:
    """The group says when it is scheduled again. Once bindings are allowed, it starts."""
    refusal = await start(kai)
    evicted = await pass_time_with_a_controller(kai, 80)
    assert len(evicted) == 1
    problem = "BindingBackoff: the gang was evicted because bindings failed (default/gang-1); it is scheduled again at"
    (condition,) = kai.group_status("gang")["schedulingConditions"]
    assert condition["message"].startswith(problem)
    evicted += [80 + second for second in await pass_time_with_a_controller(kai, 1720)]
    # The grace period, the backoff, and the time of the pod until it is tried once more.
    times = [after - before for before, after in pairwise(evicted)]
    for at, seconds in enumerate(times):
        backoff = min(10 * 2**at, 600)
        assert 60 + backoff <= seconds <= 82 + backoff
    assert len(times) == 7
    assert refusal.hits < 100
    kai.cluster.server.faults.clear()
    await pass_time_with_a_controller(kai, 700)
    assert bound(kai) == ["gang-0", "gang-1"]


@pytest.mark.slow
async def test_a_refused_eviction_begins_no_backoff(kai: BatchCluster) -> None:
    """As long as a member runs, the others are tried; the first eviction that succeeds begins the first backoff."""
    await start(kai, "stalenessGracePeriod: 10s")
    fault = kai.cluster.server.faults.add(Fault(method="DELETE", path="/pods/gang-0", status=403))
    await kai.pass_time(100)
    assert 2 <= fault.hits <= 5
    assert bound(kai) == ["gang-0"]
    kai.cluster.server.faults.clear()
    await kai.pass_time(15)
    assert bound(kai) == ["gang-0", "gang-1"]


async def test_a_member_that_cannot_be_reserved_does_not_make_a_gang_whole(kai: BatchCluster) -> None:
    """It does not matter at which step the binding fails."""
    Refuses.pods = {"gang-2"}
    kai.nodes(2, cpu="4")
    kai.queue("a")
    await kai.start(register=lambda registry: registry.add("Refuses", Refuses), plugins=", {name: Refuses}")
    kai.cluster.server.lifecycle(start_seconds=0.5, stop_seconds=0.5).start()
    kai.job("gang", "a", 2)
    await kai.pass_time(3)
    kai.cluster.delete(Pod, "gang-1")
    kai.pods("gang", 1, start=2)
    await kai.pass_time(3)
    assert bound(kai) == ["gang-0"]
    await kai.pass_time(70)
    assert names(kai) == ["gang-2"]


@pytest.mark.slow
async def test_a_promise_of_room_that_is_never_free_does_not_make_a_gang_whole(kai: BatchCluster) -> None:
    """The API server refuses to evict the victims; in the end the gang gives its own room back."""
    kai.nodes(1, **{"cpu": "4", "nvidia.com/gpu": "2"})
    for name in "ab":
        kai.queue(name, resources=gpus(2 if name == "b" else 0))
    await kai.start()
    kai.cluster.server.lifecycle(start_seconds=0.5, stop_seconds=0.5).start()
    kai.job("gang", "b", 2, requests={"cpu": "1", "nvidia.com/gpu": "1"})
    await kai.pass_time(3)
    kai.cluster.delete(Pod, "gang-1")
    await kai.pass_time(1)
    kai.job("borrower", "a", 1, requests={"cpu": "1", "nvidia.com/gpu": "1"})
    await kai.pass_time(3)
    kai.cluster.server.faults.add(Fault(method="DELETE", path="/pods/borrower-", status=403))
    kai.pods("gang", 1, start=2, requests={"cpu": "1", "nvidia.com/gpu": "1"})
    await kai.pass_time(30)
    assert bound(kai) == ["borrower-0", "gang-0"]
    await kai.pass_time(60)
    assert bound(kai) == ["borrower-0"]


async def test_a_sub_group_whose_binding_is_refused_makes_a_gang_stale(kai: BatchCluster) -> None:
    """The other sub-group is complete."""
    kai.nodes(1, cpu="4")
    kai.queue("a")
    await kai.start()
    kai.cluster.server.lifecycle(start_seconds=0.5, stop_seconds=0.5).start()
    refuse_bindings(kai, "gang-2")
    parts = [{"name": "x", "minMember": 1}, {"name": "y", "minMember": 2}]
    kai._create(kai.group_kind, {"name": "gang", "namespace": "default"}, {"queue": "a", "subGroups": parts})
    for number, part in enumerate("xyy"):
        kai.pods("gang", 1, start=number, labels={"kai.scheduler/subgroup-name": part})
    await kai.pass_time(3)
    text = "Job is stale. 2 pods are active, minMember is 3, subGroup y minMember is 2 and 1 pods are active; 1 pods"
    assert any(each.startswith(text) for _, _, each in kai.events("gang"))
    await kai.pass_time(70)
    assert names(kai) == ["gang-2"]


async def test_a_surplus_member_whose_binding_is_refused_costs_nothing(kai: BatchCluster) -> None:
    """The gang has its minimum."""
    kai.nodes(1, cpu="4")
    kai.queue("a")
    await kai.start()
    refuse_bindings(kai, "gang-2")
    kai.group("gang", "a", 2)
    kai.pods("gang", 3)
    await kai.pass_time(100)
    assert bound(kai) == ["gang-0", "gang-1"]
    assert stamp(kai) is None
