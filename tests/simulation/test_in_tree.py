"""The carried scenarios of Kubernetes' own pod groups, each with pods popped from backoff and without."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from pyscheduler.simulation.scenario import Scenario, load_scenarios
from pyscheduler.simulation.scenario_runner import run_scenario

PROFILES, SCENARIOS = load_scenarios(Path(__file__).parent / "gang-scenarios.yaml")
OURS = [each for each in SCENARIOS if each.id.startswith("it-")]


@pytest.mark.parametrize("pop", [pytest.param(False, id="backoff"), pytest.param(True, id="pop from backoff")])
@pytest.mark.parametrize("scenario", OURS, ids=lambda scenario: scenario.id)
def test_the_scenario_ends_as_expected(scenario: Scenario, pop: bool) -> None:
    """Every expectation holds, and nobody ever waits at Permit."""
    options = msgspec.structs.replace(scenario.options, pop_from_backoff_q=pop)
    result = run_scenario(msgspec.structs.replace(scenario, options=options), PROFILES[scenario.profile])
    assert result.failures == []
    assert not [step for step in result.steps if any(pod.state == "waiting" for pod in step.pods.values())]


def test_there_are_scenarios() -> None:
    """Those of the file are run here."""
    assert len(OURS) >= 2
