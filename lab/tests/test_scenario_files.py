"""The scenario files, each scenario with and without pods popped from backoff."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
import pytest

from pyscheduler_lab.simulation.scenario import ProfileSpec, Scenario, load_scenarios
from pyscheduler_lab.simulation.scenario_runner import run_scenario

FILES = [load_scenarios(Path(__file__).parent / name) for name in ("gang-scenarios.yaml", "more-gang-scenarios.yaml")]
CASES = [
    pytest.param(scenario, profiles[scenario.profile], id=scenario.id)
    for profiles, scenarios in FILES
    for scenario in scenarios
]


#: `make test` pops from backoff in one of so many scenarios.
SHARE = 8
WITH_POP = [
    pytest.param(*case.values, True, id=f"{case.id}-pop from backoff", marks=pytest.mark.long if at % SHARE else [])
    for at, case in enumerate(CASES)
]
WITHOUT = [pytest.param(*case.values, False, id=f"{case.id}-backoff") for case in CASES]


@pytest.mark.sampled(40)
@pytest.mark.parametrize(("scenario", "profile", "pop"), [*WITHOUT, *WITH_POP])
def test_scenario_ends_as_expected(scenario: Scenario, profile: ProfileSpec, pop: bool) -> None:
    """Every expectation and invariant holds; Kubernetes' own groups never wait at Permit."""
    options = msgspec.structs.replace(scenario.options, pop_from_backoff_q=pop)
    result = run_scenario(msgspec.structs.replace(scenario, options=options), profile)
    assert result.failures == []
    if scenario.id.startswith("it-"):
        assert not [step for step in result.steps if any(pod.state == "waiting" for pod in step.pods.values())]


def test_files_have_scenarios_of_every_plugin() -> None:
    """No scenario has been lost from the files."""
    counts = [Counter(each.id.partition("-")[0] for each in scenarios) for _, scenarios in FILES]
    assert counts == [{"cs": 32, "g": 26, "it": 2}, {"g": 38, "cs": 29, "e": 16, "it": 9, "d": 7}]


@pytest.mark.parametrize(("profiles", "scenarios"), FILES[1:])
def test_every_profile_is_used(profiles: dict[str, ProfileSpec], scenarios: list[Scenario]) -> None:
    """Each profile of the second file is used by some scenario."""
    assert {scenario.profile for scenario in scenarios} == profiles.keys()
