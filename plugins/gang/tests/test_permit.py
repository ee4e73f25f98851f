"""Waits at Permit, and how they end: quorum, deadline, and all other causes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyscheduler.framework import CycleState, Trial, TrialKind


async def test_a_gang_is_bound_when_its_last_member_comes(world: Any) -> None:
    """Too few members are refused with a message; the last one activates the others."""
    await world.start_with_gang(3, pods=2, cpu=5)
    assert world.states() == {"pending": 2}
    assert "gang child pod not collect enough, gangName: default/g, podName: default/g-0" in world.result("g-0").message
    world.pods("g", 1, gang="g", start=2)
    await world.settle(2)
    assert world.states() == {"bound": 3}
    assert world.status("g").phase == "Scheduled"
    assert world.status("g").scheduled == 3


async def test_strict_gang_gives_nodes_back_and_refuses_the_rest_of_the_round(world: Any) -> None:
    """When one member does not fit, waiting members are rejected with a message, and later members are not tried."""
    await world.start_with_gang(4, cpu=2)
    assert world.states() == {"pending": 4}
    told = (
        'Gang "default/g" gets rejected due to member Pod "g-2" is unschedulable with reason "0/1 nodes are available'
    )
    assert all(any(told in note for note in world.notes(name)) for name in ("g-0", "g-1"))
    assert 'Gang "default/g" gets rejected due to pod is unschedulable' in world.result("g-2").message
    assert "gang scheduleCycle not valid, gangName: default/g, podName: default/g-3" in world.result("g-3").message
    assert not world.record("default/g").schedule_cycle_valid
    assert not world.marked()
    world.node("more", 2)
    await world.settle(2)
    assert world.states() == {"bound": 4}


async def test_a_trial_that_explains_takes_no_turn(world: Any) -> None:
    """Whoever asks why a pod waits counts no attempt, opens no round and activates nobody."""
    await world.start_with_gang(4, cpu=2)
    record, pod = world.record("default/g"), world.result("g-3").pod
    before = set(record.visited), record.schedule_cycle, record.schedule_cycle_valid, world.tries()
    for _ in range(10):
        assert world.scheduler.run_pre_filter(pod, CycleState(Trial(TrialKind.EXPLAIN))) is None
    await world.settle()
    assert (set(record.visited), record.schedule_cycle, record.schedule_cycle_valid, world.tries()) == before
    world.cluster.delete_pod("g-0")
    await world.settle()
    refusal = world.scheduler.run_pre_filter(pod, CycleState(Trial(TrialKind.EXPLAIN)))
    assert "gang child pod not collect enough" in refusal.message


@pytest.mark.slow
async def test_koordinator_872_interleaved_gang_groups_do_not_starve(world: Any, gates: str) -> None:
    """A and C take all room and B fails: A gives its nodes back, {C, D} runs, and {A, B} after it."""
    world.schedule(gates=gates)
    world.node("n", 4)
    for pair in ("ab", "cd"):
        for name in pair:
            world.gang(name, 2, groups=json.dumps([f"default/{each}" for each in pair]))
    for name in "acbd":
        world.pods(name, 2, gang=name)
    await world.settle(60)
    first = {name: world.states(name)["bound"] for name in "abcd"}
    assert sorted(first.values()) == [0, 0, 2, 2]
    assert first["a"] == first["b"]
    for name in (name for name, bound in first.items() if bound):
        for number in range(2):
            world.cluster.delete_pod(f"{name}-{number}")
    await world.settle(60)
    assert world.states() == {"bound": 4}


@pytest.mark.slow
async def test_koordinator_1919_a_wait_of_an_hour_is_an_hour_for_all_of_the_gang(world: Any) -> None:
    """The first waiting member sets the deadline for all."""
    await world.start_with_gang(3, cpu=1, seconds=1600, timeout=3600, mode="NonStrict")
    assert world.states() == {"waiting": 1, "pending": 2}
    world.node("m", 1)
    await world.settle(1999)
    assert world.states() == {"waiting": 2, "pending": 1}
    await world.settle(2)
    assert world.states() == {"pending": 3}
    assert world.marked() == {"g-0", "g-1", "g-2"}
    late = [note for name in ("g-0", "g-1", "g-2") for note in world.notes(name)]
    assert sum("rejected due to timeout after waiting 1h0m0s at plugin Gang" in note for note in late) == 1
    assert sum('Gang "default/g" gets rejected due to Pod "g-0" in Unreserve' in note for note in late) == 1


async def test_a_timed_out_pod_is_scheduled_again_without_the_annotation(world: Any) -> None:
    """Pods with the annotation do not count towards the minimum; without it they count again."""
    await world.start_with_gang(2, cpu=1, seconds=6, args={"defaultTimeout": "5s"}, mode="NonStrict")
    world.node("m", 5)
    await world.settle(30)
    assert world.states() == {"pending": 2}
    assert world.marked() == {"g-0", "g-1"}
    world.pods("g", 1, gang="g", start=2)
    await world.settle(5)
    assert "gang child pod not collect enough" in world.result("g-2").message
    for name in ("g-0", "g-1"):
        key = "gang.scheduling.koordinator.sh/timeout"
        world.cluster.patch(type(world.result(name).pod), name, {"metadata": {"annotations": {key: None}}})
    await world.settle(10)
    assert world.states() == {"bound": 3}


@pytest.mark.parametrize("mode", ["Strict", "NonStrict"])
async def test_deleting_a_waiting_member_times_out_no_member(world: Any, mode: str) -> None:
    """Strict members are rejected, NonStrict ones wait on; too few are rejected in both modes (corner case 1)."""
    world.schedule()
    world.node("n", 3)
    world.gang("g", 4, pods=3, mode=mode, total_number="5")
    world.pods("late", 2, gang="g", scheduling_gates=["example.com/later"])
    await world.settle()
    assert world.states("g") == {"waiting": 3}
    world.cluster.delete_pod("g-1")
    await world.settle(2)
    assert world.states("g") == {"waiting": 2}
    assert any("in Unreserve" in note for note in world.notes("g-0")) == (mode == "Strict")
    world.cluster.delete_pod("late-1")
    await world.settle()
    assert world.states("g") == {"pending": 2}
    assert "gang child pod not collect enough" in world.result("g-0").message
    assert not world.marked()


async def test_removed_node_rejects_the_member_that_waits_for_it(world: Any) -> None:
    """A NonStrict gang loses only that member's node (corner case 27)."""
    world.schedule()
    world.node("n", 1)
    world.node("m", 1)
    world.gang("g", 3, pods=3, mode="NonStrict")
    await world.settle()
    assert world.states() == {"waiting": 2, "pending": 1}
    world.cluster.delete_node("m")
    await world.settle()
    assert world.states() == {"waiting": 1, "pending": 2}
    assert not world.marked()


async def test_lowering_the_minimum_allows_waiting_members(world: Any) -> None:
    """Raising it above the number of members rejects them (corner cases 5 and 7)."""
    await world.start_with_gang(3, cpu=2, mode="NonStrict")
    assert world.states() == {"waiting": 2, "pending": 1}
    world.regang("g", {"spec": {"minMember": 5}})
    await world.settle()
    assert world.states() == {"pending": 3}
    world.regang("g", {"spec": {"minMember": 2}})
    await world.settle(15)
    assert world.states() == {"bound": 2, "pending": 1}


async def test_a_pod_that_changes_its_gang_while_it_waits_is_rejected_first(world: Any) -> None:
    """Then it is a member of the other gang, which may be complete with it (corner case 20)."""
    world.schedule()
    world.node("n", 5)
    world.gang("one", 2)
    world.gang("two", 2)
    world.pods("a", 1, gang="one")
    world.pods("gated", 1, gang="one", scheduling_gates=["example.com/later"])
    world.pods("b", 1, gang="two")
    await world.settle()
    assert world.result("a-0").state == "waiting"
    world.relabel("a-0", "two")
    await world.settle(20)
    assert world.result("a-0").bound
    assert world.result("b-0").bound


async def test_gang_waits_for_a_partner_that_does_not_list_it(world: Any) -> None:
    """A lists B, and B does not list A: A waits for B's quorum, B for no gang (corner case 14)."""
    world.schedule()
    world.node("n", 2)
    world.gang("a", 1, groups='["default/a", "default/b"]')
    world.gang("b", 2)
    world.pods("a", 1, gang="a")
    world.pods("b", 2, gang="b", cpu=0.5)
    world.cluster.patch(type(world.cluster.pods()[0]), "b-1", {"metadata": {"labels": {"x": "y"}}})
    await world.settle(20)
    assert world.states() == {"bound": 3}


async def test_bound_pod_that_joins_a_gang_counts_without_satisfying_it(world: Any) -> None:
    """Two waiting members still need a third one, and are bound with it."""
    world.schedule()
    world.node("n", 2)
    world.gang("g", 4, mode="NonStrict")
    world.pods("plain", 2, cpu=0.5)
    await world.settle(1)
    world.pods("g", 4, gang="g", cpu=0.5)
    await world.settle(1)
    assert world.states("g") == {"waiting": 2, "pending": 2}
    world.relabel("plain-0", "g")
    await world.settle(1)
    assert world.states("g") == {"waiting": 2, "pending": 2}
    world.relabel("plain-1", "g")
    await world.settle(1)
    assert world.states("g") == {"bound": 2, "pending": 2}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("target", [pytest.param("small", id="another gang"), pytest.param(None, id="none")])
@pytest.mark.parametrize("mode", ["Strict", "NonStrict"])
async def test_failed_pod_is_retried_after_it_changes_its_gang(world: Any, mode: str, target: str | None) -> None:
    """The pod ignored the room that its old gang gave back, so the change of the gang retries it."""
    world.node("n0", 3)
    world.schedule()
    world.gang("large", 4, mode=mode)
    world.gang("small", 1)
    world.pods("large", 4, gang="large")
    await world.settle(30)
    world.relabel("large-3", target)
    await world.settle(3)
    assert world.result("large-3").bound
