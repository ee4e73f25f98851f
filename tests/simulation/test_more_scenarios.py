"""More scenarios, each with pods popped from backoff and without."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from pyscheduler.simulation.runner import run_scenario
from pyscheduler.simulation.scenario import Scenario, load_scenarios

PROFILES, SCENARIOS = load_scenarios(Path(__file__).parent / "more-gang-scenarios.yaml")


@pytest.mark.parametrize(
    "pop", [pytest.param(False, id="backoff", marks=pytest.mark.slow), pytest.param(True, id="pop from backoff")]
)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.id)
def test_the_scenario_ends_as_expected(scenario: Scenario, pop: bool) -> None:
    """Every expectation holds, and so does what holds always: nobody bound in part, no node overcommitted."""
    options = msgspec.structs.replace(scenario.options, pop_from_backoff_q=pop)
    result = run_scenario(msgspec.structs.replace(scenario, options=options), PROFILES[scenario.profile])
    assert result.failures == []


def test_every_way_of_working_is_there() -> None:
    """Each profile is used by some scenario."""
    assert {scenario.profile for scenario in SCENARIOS} == PROFILES.keys()
