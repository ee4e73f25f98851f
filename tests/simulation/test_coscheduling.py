"""The carried scenarios of coscheduling, each with pods popped from backoff and without."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from pyscheduler.simulation.runner import run_scenario
from pyscheduler.simulation.scenario import Scenario, load_scenarios

PROFILES, SCENARIOS = load_scenarios(Path(__file__).parent / "gang-scenarios.yaml")
OURS = [each for each in SCENARIOS if each.id.startswith("cs-")]


@pytest.mark.parametrize(
    "pop", [pytest.param(False, id="backoff", marks=pytest.mark.slow), pytest.param(True, id="pop from backoff")]
)
@pytest.mark.parametrize("scenario", OURS, ids=lambda scenario: scenario.id)
def test_the_scenario_ends_as_expected(scenario: Scenario, pop: bool) -> None:
    """Every expectation holds, and so does what holds always: nobody bound in part, no node overcommitted."""
    options = msgspec.structs.replace(scenario.options, pop_from_backoff_q=pop)
    result = run_scenario(msgspec.structs.replace(scenario, options=options), PROFILES[scenario.profile])
    assert result.failures == []


def test_there_are_scenarios() -> None:
    """Nearly all of the file's are run here."""
    assert len(OURS) >= 32
