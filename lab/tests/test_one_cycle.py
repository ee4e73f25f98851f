"""The scenarios with groups placed in one cycle (`strategy: groupCycle`) end as they do with waits at Permit.

With one cycle, no pod holds a node while its group waits for others. So scenarios that expect pods to wait at Permit
(`WAITS`) are only checked for what holds in both cases: no group is partial, no node is overcommitted, and as many pods
are bound in the end.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from pyscheduler_lab.simulation.scenario import Scenario, load_scenarios
from pyscheduler_lab.simulation.scenario_runner import run_scenario

PROFILES, SCENARIOS = load_scenarios(Path(__file__).parent / "gang-scenarios.yaml")
OURS = [each for each in SCENARIOS if {"coscheduling", "gang"} & set(PROFILES[each.profile].plugins)]
#: Scenarios that expect pods to wait at Permit, to be deleted there, or to get a message about the wait.
WAITS = frozenset(
    {
        "cs-03-timeout-then-deny-window",
        "cs-05-ten-percent-gap-keeps-holding",
        "cs-17-backed-off-group-lets-others-pass",
        "cs-23-group-timeout-beats-argument",
        "cs-28-waiting-pod-deleted",
        "cs-30-min-lowered-while-waiting",
        "cs-31-restart-while-waiting",
        "cs-36-two-near-quorum-groups",
        "g-01-strict-ten-pods-sixth-fails",
        "g-02-nonstrict-accumulates",
        "g-10-timeout-annotates-and-ends-the-gang",
        "g-11-waits-longer-than-fifteen-minutes",
        "g-12-annotation-waiting-time-wins",
        "g-17-podgroup-deleted-while-holding",
        "g-20-deadlock-3-3-4-resolved",
        "g-21-wait-time-alone-sacrifices-a-gang",
        "g-22-impossible-holder-yields",
    }
)
#: Nobody is given up for having waited too long: more are bound in the end, or others.
NOBODY_TIMES_OUT = frozenset({"g-10-timeout-annotates-and-ends-the-gang", "g-21-wait-time-alone-sacrifices-a-gang"})


def in_one_cycle(scenario: Scenario, *, pop: bool) -> Scenario:
    """Return the scenario with the arg set for its group plugins."""
    plugins = PROFILES[scenario.profile].plugins
    args = {name: {**scenario.args.get(name, {}), "strategy": "groupCycle"} for name in plugins if name != "intree"}
    options = msgspec.structs.replace(scenario.options, pop_from_backoff_q=pop)
    return msgspec.structs.replace(scenario, args={**scenario.args, **args}, options=options)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [each for each in OURS if each.id not in WAITS], ids=lambda each: each.id)
def test_result_equals_that_of_permit(scenario: Scenario) -> None:
    """Every expectation holds, also where pods may be popped from backoff."""
    result = run_scenario(in_one_cycle(scenario, pop=True), PROFILES[scenario.profile])
    assert result.failures == []


@pytest.mark.sampled(5)
@pytest.mark.parametrize("scenario", [each for each in OURS if each.id in WAITS], ids=lambda each: each.id)
def test_group_cycle_needs_no_wait_at_permit(scenario: Scenario) -> None:
    """Nobody waits at Permit at any time, no group is partial, no node overcommitted, and as many are bound at last."""
    result = run_scenario(in_one_cycle(scenario, pop=False), PROFILES[scenario.profile])
    assert not [each for each in result.failures if "partial" in each or "overcommitted" in each]
    assert not [step for step in result.steps if any(pod.state == "waiting" for pod in step.pods.values())]
    by_permit = run_scenario(scenario, PROFILES[scenario.profile])
    assert by_permit.failures == []
    bound = [
        sorted(name for name, pod in each.steps[-1].pods.items() if pod.state == "bound")
        for each in (result, by_permit)
    ]
    if scenario.id in NOBODY_TIMES_OUT:
        assert len(bound[0]) >= len(bound[1])
    else:
        assert len(bound[0]) == len(bound[1])


def test_most_scenarios_need_no_wait() -> None:
    """Each scenario that is left out exists, and at least 40 are not left out."""
    assert {each.id for each in OURS} > WAITS
    assert len(OURS) - len(WAITS) >= 40
