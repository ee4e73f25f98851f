"""Feature gates are those of kube-scheduler 1.36, with its defaults and its rules for setting them."""

from __future__ import annotations

import pytest

from pyscheduler.config.feature_gates import default_gates, parse
from pyscheduler.config.known_gates import DEPENDENCIES, GATES
from pyscheduler.framework import ConfigError


@pytest.mark.parametrize(
    ("name", "on"),
    [
        pytest.param(name, on, id=name)
        for name, on in {
            "AllAlpha": False,
            "AllBeta": False,
            "ClearingNominatedNodeNameAfterBinding": True,
            "DRADeviceBindingConditions": True,
            "DRAExtendedResource": True,
            "DRAPartitionableDevices": True,
            "DRASchedulerFilterTimeout": True,
            "DRAWorkloadResourceClaims": False,
            "DynamicResourceAllocation": True,
            "GangScheduling": False,
            "GenericWorkload": False,
            "InPlacePodVerticalScaling": True,
            "MatchLabelKeysInPodTopologySpread": True,
            "NodeDeclaredFeatures": True,
            "NominatedNodeNameForExpectation": True,
            "OpportunisticBatching": True,
            "PodLevelResources": True,
            "SchedulerAsyncAPICalls": False,
            "SchedulerAsyncPreemption": True,
            "SchedulerPopFromBackoffQ": True,
            "SchedulerQueueingHints": True,
            "StorageCapacityScoring": False,
            "TaintTolerationComparisonOperators": False,
            "TopologyAwareWorkloadScheduling": False,
            "WorkloadAwarePreemption": False,
        }.items()
    ],
)
def test_defaults(name: str, on: bool) -> None:
    """A gate that nobody sets is as in kube-scheduler 1.36."""
    assert default_gates()[name] is on


def test_the_table_is_consistent() -> None:
    """Alpha is off, what another gate needs is known, and the defaults keep their own dependencies."""
    assert [name for name, gate in GATES.items() if gate.stage == "ALPHA" and (gate.default or gate.locked)] == []
    assert {other for needed in DEPENDENCIES.values() for other in needed} | set(DEPENDENCIES) <= set(GATES)
    assert parse("") == default_gates()
    assert {gate.stage for gate in GATES.values()} == {"ALPHA", "BETA", "GA", "DEPRECATED"}


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        pytest.param("", {}, id="nothing"),
        pytest.param(" , ", {}, id="commas only"),
        pytest.param("SchedulerAsyncAPICalls=true", {"SchedulerAsyncAPICalls": True}, id="one on"),
        pytest.param(
            " SchedulerPopFromBackoffQ = false , SchedulerAsyncAPICalls=1,",
            {"SchedulerPopFromBackoffQ": False, "SchedulerAsyncAPICalls": True},
            id="two, with spaces",
        ),
        pytest.param("kube:OpportunisticBatching=F", {"OpportunisticBatching": False}, id="with its component"),
        pytest.param(
            "GenericWorkload=true,GangScheduling=true", {"GenericWorkload": True, "GangScheduling": True}, id="a chain"
        ),
        pytest.param("SchedulerAsyncAPICalls=true,SchedulerAsyncAPICalls=false", {}, id="the last counts"),
        pytest.param("SchedulerQueueingHints=true", {}, id="a locked one to its default"),
    ],
)
def test_gates_are_set(text: str, changed: dict[str, bool]) -> None:
    """What is named changes, and nothing else."""
    gates = parse(text)
    assert {name: on for name, on in gates.items() if on is not default_gates()[name]} == changed


@pytest.mark.parametrize(
    ("text", "stage", "value"),
    [
        pytest.param("AllAlpha=true", "ALPHA", True, id="alpha on"),
        pytest.param("AllBeta=true", "BETA", True, id="beta on"),
        pytest.param("AllBeta=false", "BETA", False, id="beta off"),
    ],
)
def test_a_whole_stage_is_set(text: str, stage: str, value: bool) -> None:
    """`AllAlpha` and `AllBeta` set every gate of their stage and no other."""
    gates = parse(text)
    assert {name for name, gate in GATES.items() if gate.stage == stage and gates[name] is not value} == set()
    assert {name for name, gate in GATES.items() if gate.stage != stage and gates[name] is not gate.default} == set()


@pytest.mark.parametrize(
    "text", ["AllBeta=true,SchedulerAsyncAPICalls=false", "SchedulerAsyncAPICalls=false,AllBeta=1"]
)
def test_a_named_gate_wins_over_its_stage(text: str) -> None:
    """In either order."""
    assert parse(text)["SchedulerAsyncAPICalls"] is False


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        pytest.param(
            "SchedulerQueueHints=true",
            ["unrecognized feature gate: SchedulerQueueHints, did you mean SchedulerQueueingHints?"],
            id="a typo",
        ),
        pytest.param("qwertz=true", ["unrecognized feature gate: qwertz"], id="unknown"),
        pytest.param("GangScheduling", ["missing bool value for GangScheduling"], id="no value"),
        pytest.param(
            "GangScheduling=yes",
            ["invalid value of GangScheduling=yes, expected true or false"],
            id="not a boolean of Go's",
        ),
        pytest.param(
            "SchedulerQueueingHints=false",
            ["cannot set feature gate SchedulerQueueingHints to false, feature is locked to true"],
            id="locked",
        ),
        pytest.param(
            "SeparateCacheWatchRPC=true,GitRepoVolumeDriver=true",
            [
                "cannot set feature gate SeparateCacheWatchRPC to true, feature is locked to false",
                "cannot set feature gate GitRepoVolumeDriver to true, feature is locked to false",
            ],
            id="locked to off",
        ),
        pytest.param(
            "GangScheduling=true",
            ["GangScheduling is enabled, but depends on features that are disabled: [GenericWorkload]"],
            id="without what it needs",
        ),
        pytest.param(
            "qwertz=true,SchedulerQueueingHints=0",
            [
                "unrecognized feature gate: qwertz",
                "cannot set feature gate SchedulerQueueingHints to false, feature is locked to true",
            ],
            id="two mistakes",
        ),
        pytest.param("wardle:X=true", ["component not registered: wardle"], id="another component"),
        pytest.param(
            "kube:GenericWorkload=true,SchedulerAsyncAPICalls=true",
            ["set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use"],
            id="mixed prefixes",
        ),
    ],
)
def test_mistakes_are_told(text: str, problems: list[str]) -> None:
    """All of them, one line each, with the flag's name."""
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert list(caught.value.problems) == problems
    assert str(caught.value).splitlines() == [f"--feature-gates: {problem}" for problem in problems]
