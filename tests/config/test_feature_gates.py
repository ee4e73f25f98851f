"""Feature gates are those of kube-scheduler 1.36, with its defaults and its rules for setting them."""

from __future__ import annotations

from pathlib import Path

import pytest

import pyscheduler
from pyscheduler.config.feature_gates import default_gates, parse, warnings_of
from pyscheduler.config.known_gates import DEPENDENCIES, GATES, NO_EFFECT, NOT_IMPLEMENTED
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
    """`AllAlpha` and `AllBeta` set every gate of their stage that is implemented, and no other."""
    gates = parse(text)
    left = {name for name in NOT_IMPLEMENTED if GATES[name].stage == stage} if value else set()
    assert {name for name, gate in GATES.items() if gate.stage == stage and gates[name] is not value} == left
    assert {name for name, gate in GATES.items() if gate.stage != stage and gates[name] is not gate.default} == set()


@pytest.mark.parametrize(
    "text", ["AllBeta=true,SchedulerAsyncAPICalls=false", "SchedulerAsyncAPICalls=false,AllBeta=1"]
)
def test_named_gate_overrides_its_stage(text: str) -> None:
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
def test_mistakes_are_reported(text: str, problems: list[str]) -> None:
    """All of them, one line each, with the flag's name."""
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert list(caught.value.problems) == problems
    assert str(caught.value).splitlines() == [f"--feature-gates: {problem}" for problem in problems]


NEEDED = "GenericWorkload=true,GangScheduling=true,"


@pytest.mark.parametrize("name", sorted(NOT_IMPLEMENTED))
def test_unimplemented_feature_stays_off(name: str) -> None:
    """One `--feature-gates` serves all components: switching it on is a warning that names the gate."""
    assert not parse(f"{NEEDED}{name}=true")[name]
    (warning,) = warnings_of(f"{NEEDED}{name}=true")
    assert warning.startswith(f"--feature-gates: {name} is not implemented and stays off: ")
    assert parse(f"{name}=false") == default_gates()
    assert not warnings_of(f"{name}=false")


def test_stages_do_not_enable_unimplemented_features() -> None:
    """`AllAlpha` and `AllBeta` work, and one warning lists the gates that stay off."""
    alpha = parse("AllAlpha=true")
    assert alpha["GangScheduling"]
    assert not any(alpha[name] for name in NOT_IMPLEMENTED)
    first, *others = warnings_of("AllAlpha=true")
    assert first == (
        "--feature-gates: features that are not implemented stay off with AllAlpha: DRAListTypeAttributes, "
        "DRANodeAllocatableResources, DRAWorkloadResourceClaims"
    )
    assert others == ["--feature-gates: NativeHistograms=true has no effect: histograms have fixed buckets"]
    both, *_ = warnings_of("AllAlpha=true,AllBeta=true")
    assert "CoordinatedLeaderElection, DRAListTypeAttributes" in both
    assert not warnings_of("AllAlpha=false")


@pytest.mark.parametrize("name", sorted(NO_EFFECT))
def test_a_value_without_effect_is_warned_about(name: str) -> None:
    """The gate may be set like that, as other components read the line, too; a warning says what holds here."""
    value, _ = NO_EFFECT[name]
    text = f"{name}={str(value).lower()}"
    if name == "PodLevelResources":
        text += ",InPlacePodLevelResourcesVerticalScaling=false,PodLevelResourceManagers=false"
    assert parse(text)[name] is value
    assert any(line.startswith(f"--feature-gates: {text.split(',')[0]} has no effect: ") for line in warnings_of(text))
    assert not warnings_of(f"{name}={str(GATES[name].default).lower()}")


#: What is read by name somewhere in the package.
IMPLEMENTED = {
    "ComponentFlagz",
    "ComponentStatusz",
    "DRAConsumableCapacity",
    "DRADeviceBindingConditions",
    "DRADeviceTaintRules",
    "DRADeviceTaints",
    "DRAExtendedResource",
    "DRAPartitionableDevices",
    "DRAPrioritizedList",
    "DRAResourceClaimDeviceStatus",
    "DRASchedulerFilterTimeout",
    "GangScheduling",
    "GenericWorkload",
    "LoggingAlphaOptions",
    "MatchLabelKeysInPodTopologySpread",
    "NodeDeclaredFeatures",
    "NominatedNodeNameForExpectation",
    "OpportunisticBatching",
    "SchedulerAsyncPreemption",
    "SchedulerPopFromBackoffQ",
    "StorageCapacityScoring",
    "TaintTolerationComparisonOperators",
    "TopologyAwareWorkloadScheduling",
    "VolumeLimitScaling",
    "WorkloadAwarePreemption",
}
#: What kube-scheduler 1.36 reads under pkg/scheduler and cmd/kube-scheduler.
READ_THERE = {
    *IMPLEMENTED,
    *NOT_IMPLEMENTED,
    "DRAAdminAccess",
    "DynamicResourceAllocation",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScaling",
    "NodeInclusionPolicyInPodTopologySpread",
    "PodLevelResources",
    "SchedulerAsyncAPICalls",
    "SchedulerQueueingHints",
    "SidecarContainers",
    "VolumeAttributesClass",
}
#: Conditions are written beside the cycle whatever it says; see the parity page.
EITHER_WAY = {"SchedulerAsyncAPICalls"}


@pytest.mark.parametrize("name", sorted(READ_THERE))
def test_every_scheduler_gate_is_classified(name: str) -> None:
    """A gate that kube-scheduler reads is locked, implemented, or warned about."""
    gate = GATES[name]
    assert gate.locked or name in IMPLEMENTED or name in NOT_IMPLEMENTED or name in NO_EFFECT or name in EITHER_WAY


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", sorted(IMPLEMENTED))
def test_classified_gates_are_used(name: str) -> None:
    """Each gate that is said to be implemented is asked for by name somewhere in the package."""
    root = Path(pyscheduler.__file__).parent
    sources = [path for path in root.rglob("*.py") if path.name != "known_gates.py"]
    assert any(f'"{name}"' in path.read_text(encoding="utf-8") for path in sources)
