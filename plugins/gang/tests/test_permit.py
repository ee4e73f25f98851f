"""Waits at Permit, and how they end: quorum, deadline, and all other causes."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.framework import CycleState, Trial, TrialKind


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
