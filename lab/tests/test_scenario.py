"""Reading scenario files: valid files, and the messages for mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyscheduler.config.load import loads
from pyscheduler.framework import ConfigError
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler_lab.simulation.scenario import KINDS, load_scenarios, read_scenarios
from pyscheduler_lab.simulation.scenario_config import configure

CARRIED = Path(__file__).parent / "gang-scenarios.yaml"
HEAD = "schema: 1\nprofiles: {plain: {queueSort: priority, plugins: []}}\nscenarios:\n"


@pytest.mark.slow
def test_scenario_file_of_this_repository_can_be_read() -> None:
    """Sixty scenarios, and every kind of step but two is used in them."""
    profiles, scenarios = load_scenarios(CARRIED)
    assert len(scenarios) == 60
    assert sum(scenario.optional for scenario in scenarios) == 2
    kinds = {step.kind for scenario in scenarios for step in scenario.steps}
    assert {"batch", *KINDS} - kinds == {"update_node", "delete_node"}
    for scenario in scenarios:
        config = configure(scenario, profiles[scenario.profile])
        assert config.settings.permit_wait_limit_seconds == float("inf")
        assert config.settings.feature_gates["SchedulerPopFromBackoffQ"] is False


def test_a_profile_becomes_a_configuration() -> None:
    """Plugins at multiPoint, the order at queueSort, args merged plugin by plugin, points switched off."""
    text = """
schema: 1
profiles:
  p:
    queueSort: gang
    plugins: [gang, coscheduling]
    disable: {coscheduling: [postFilter]}
    args: {gang: {defaultTimeout: 600s, deadlock: {enabled: true}}}
scenarios:
- id: s
  profile: p
  args: {gang: {deadlock: {enabled: false}}, coscheduling: {permitWaitingTimeSeconds: 3}}
  disable: {gang: [postBind]}
  options: {preemption: true, popFromBackoffQ: true, podInitialBackoffSeconds: 2, podMaxBackoffSeconds: 4,
            unschedulableFlushSeconds: 60, permitMaxSeconds: 900}
"""
    profiles, (scenario,) = read_scenarios(text)
    config = configure(scenario, profiles["p"])
    assert config.plugins == ["Gang", "Coscheduling", "GangSort"]
    assert config.dialect == "koordinator"
    assert config.settings.max_unschedulable_seconds == 60
    assert config.settings.permit_wait_limit_seconds == 900
    assert config.settings.feature_gates["SchedulerPopFromBackoffQ"] is True
    configuration = loads(config.text)
    assert configuration.pod_initial_backoff_seconds == 2
    assert configuration.pod_max_backoff_seconds == 4
    profile = configuration.profiles[0]
    args = {each.name: each.args for each in profile.plugin_config}
    assert {name: args[name] for name in ("Gang", "Coscheduling", "GangSort")} == {
        "Gang": {"defaultTimeout": "600s", "deadlock": {"enabled": False}},
        "Coscheduling": {"permitWaitingTimeSeconds": 3},
        "GangSort": {"order": "gang"},
    }
    assert "- name: DefaultPreemption" not in config.text
    assert "cut to 900 s" in config.document
    with pytest.raises(ConfigError, match="is not installed"):
        config.check(
            discover(blocked=["coscheduling", "gang", "kube-pyscheduler-coscheduling", "kube-pyscheduler-gang"])
        )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("a: [", "the file is not YAML", id="no YAML"),
        pytest.param("schema: !!int x", "the file is not YAML", id="tag"),
        pytest.param("[]", "Expected `object`, got `array`", id="no map"),
        pytest.param("schema: 2\nprofiles: {}\nscenarios: []", "at `$.schema`", id="another version"),
        pytest.param("schema: 1\nscenarios: []", "missing required field `profiles`", id="no profiles"),
        pytest.param(
            "schema: 1\nprofiles: {p: {plugins: [volcano]}}\nscenarios: []",
            "at `$.profiles[...].plugins[0]`",
            id="plugin",
        ),
        pytest.param(
            "schema: 1\nprofiles: {p: {disable: {gang: [posterior]}}}\nscenarios: []",
            "'posterior'",
            id="extension point",
        ),
        pytest.param(HEAD + "- {id: s}", "scenario s: Object missing required field `profile`", id="no profile"),
        pytest.param(HEAD + "- {id: s, profile: q}", 'there is no profile "q"; known are plain', id="unknown profile"),
        pytest.param(
            HEAD + "- {id: s, profile: plain}\n- {id: s, profile: plain}", "scenario s: this id is used twice", id="id"
        ),
        pytest.param(HEAD + "- 7", "scenario number 0: Expected `object`", id="no scenario"),
        pytest.param(
            HEAD + "- {id: s, profile: plain, nodes: [{name: n, cpu: four}]}", "at `$.nodes[0].cpu`", id="cpu"
        ),
        pytest.param(HEAD + "- {id: s, profile: plain, options: {evicting: true}}", "evicting", id="option"),
        pytest.param(
            HEAD + "- {id: s, profile: plain, never_partial: {a: 0}}", "Expected `int` >= 1", id="never partial"
        ),
        pytest.param(
            HEAD + "- {id: s, profile: plain, steps: [{jump: 1}]}",
            'scenario s, step 0: there is no kind of step "jump"; known are batch, create_podgroup',
            id="kind",
        ),
        pytest.param(
            HEAD + "- {id: s, profile: plain, steps: [{advance: 1, expect: {}}]}",
            "step 0: a step is a map with one key",
            id="two kinds at once",
        ),
        pytest.param(
            HEAD + "- {id: s, profile: plain, steps: [{advance: 1}, {advance: -1}]}",
            "step 1 (advance)",
            id="back in time",
        ),
        pytest.param(
            HEAD + "- {id: s, profile: plain, steps: [{create_pods: {prefix: a, cout: 3}}]}",
            "step 0 (create_pods): Object contains unknown field `cout`",
            id="misspelt",
        ),
        pytest.param(
            HEAD + "- {id: s, profile: plain, steps: [{batch: [{advance: 1}]}]}",
            "step 0, 0 of the batch: advance cannot be part of a batch",
            id="time in a batch",
        ),
        pytest.param(HEAD + "- {id: s, profile: plain, steps: [{batch: 3}]}", "a batch is a list of steps", id="batch"),
        pytest.param(
            HEAD + "- {id: s, profile: plain, steps: [{delete_pods: {count: 3}}]}",
            "give either the pods by name",
            id="whom",
        ),
        pytest.param(
            HEAD + "- {id: s, profile: plain, steps: [{delete_pods: {pods: [a], count: 3}}]}",
            "need 'of'",
            id="count",
        ),
        pytest.param(
            HEAD + "- {id: s, profile: plain, steps: [{create_podgroup: {name: g, dialect: annotation}}]}",
            "have no object",
            id="no object",
        ),
        pytest.param(
            HEAD + "- {id: s, profile: plain, steps: [{create_pods: {prefix: g, dialect: sigs}}]}",
            "needs 'group'",
            id="no group",
        ),
    ],
)
def test_mistakes_name_their_place(text: str, problem: str) -> None:
    """One line says where, what, and where it helps what would be right."""
    with pytest.raises(ConfigError) as caught:
        read_scenarios(text, source="file.yaml")
    assert caught.value.source == "file.yaml"
    assert len(caught.value.problems) == 1
    assert problem.replace("`", "'") in caught.value.problems[0]


def test_all_mistakes_are_reported_at_once() -> None:
    """Whoever writes a file need not mend it one run at a time."""
    text = HEAD + "- {id: a, profile: nope}\n- {id: b, profile: plain, steps: [{jump: 1}, {advance: x}]}\n"
    with pytest.raises(ConfigError) as caught:
        read_scenarios(text)
    assert len(caught.value.problems) == 3


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """It is named, with the reason."""
    with pytest.raises(ConfigError, match="no such file"):
        load_scenarios(tmp_path / "missing.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"\xe9")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_scenarios(tmp_path / "latin.yaml")
