"""The arguments of Volcano's `predicates` switch filters of the profile off."""

from __future__ import annotations

import pytest

from pyscheduler.config.feature_gates import default_gates
from pyscheduler.config.load import loads
from pyscheduler.framework.errors import ConfigError
from pyscheduler.framework.profile import ExtensionPoint
from pyscheduler.runtime.profile import Profile
from pyscheduler.testing import FakeCluster

FILE = """
preset: %s
actions: "allocate"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates, arguments: {%s}}, {name: nodeorder}]
"""


def profile_of(arguments: str, preset: str = "volcano") -> Profile:
    """Return the profile of a file, as a scheduler has it."""
    return FakeCluster().framework(config=FILE % (preset, arguments)).profile


def at(profile: Profile, point: ExtensionPoint) -> set[str]:
    """Return the plugins of an extension point."""
    return set(profile.points[point])


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("argument", "plugin"),
    [
        ("NodeAffinity", "NodeAffinity"),
        ("NodePorts", "NodePorts"),
        ("TaintToleration", "TaintToleration"),
        ("PodAffinity", "InterPodAffinity"),
        ("NodeVolumeLimits", "NodeVolumeLimits"),
        ("VolumeZone", "VolumeZone"),
        ("PodTopologySpread", "PodTopologySpread"),
    ],
)
def test_a_predicate_that_is_off_does_not_filter(argument: str, plugin: str) -> None:
    """Its scores stay, and so do all other filters."""
    usual, changed = profile_of(""), profile_of(f"predicate.{argument}Enable: false")
    assert at(usual, ExtensionPoint.FILTER) - at(changed, ExtensionPoint.FILTER) == {plugin}
    assert plugin not in at(changed, ExtensionPoint.PRE_FILTER)
    assert at(usual, ExtensionPoint.SCORE) == at(changed, ExtensionPoint.SCORE)
    on = profile_of(f"predicate.{argument}Enable: true")
    assert at(usual, ExtensionPoint.FILTER) == at(on, ExtensionPoint.FILTER)


@pytest.mark.parametrize(
    ("argument", "plugin"), [("VolumeBinding", "VolumeBinding"), ("DynamicResourceAllocation", "DynamicResources")]
)
def test_plugins_that_reserve_go_as_a_whole(argument: str, plugin: str) -> None:
    """Without their filter they have nothing to reserve."""
    assert plugin in profile_of("").plugins
    assert plugin not in profile_of(f"predicate.{argument}Enable: false").plugins


def test_the_timeout_of_volumes_is_an_arg_of_volume_binding() -> None:
    """A value that is no integer is a warning, and the default counts."""
    key = "volumebinding.bindTimeoutSeconds"
    assert args_of("VolumeBinding", f"{key}: 30").bind_timeout_seconds == 30  # type: ignore[attr-defined]  # VolumeBindingArgs
    assert args_of("VolumeBinding", f"{key}: soon").bind_timeout_seconds == 600  # type: ignore[attr-defined]  # VolumeBindingArgs


def args_of(name: str, arguments: str, **gates: bool) -> object:
    """Return the args of a plugin in the configuration that a file of Volcano becomes."""
    config = loads(FILE % ("volcano", arguments), gates={**default_gates(), **gates})
    (args,) = [each.args for each in config.profiles[0].plugin_config if each.name == name]
    return args


def test_the_timeout_of_claims_is_an_arg_of_dynamic_resources() -> None:
    """A time below 0 does not count, as in Volcano."""
    key = "dynamicresources.filterTimeoutSeconds"
    usual = args_of("DynamicResources", "")
    assert args_of("DynamicResources", f"{key}: 3").filter_timeout_seconds == 3  # type: ignore[attr-defined]  # DynamicResourcesArgs
    assert args_of("DynamicResources", f"{key}: -3") == usual


def test_the_shape_of_volume_scores_counts_with_the_gate() -> None:
    """Without StorageCapacityScoring, Volcano does not read the shape either."""
    shape = "volumebinding.shape: [{utilization: 0, score: 3}, {utilization: 100, score: 7}]"
    assert args_of("VolumeBinding", shape).shape is None  # type: ignore[attr-defined]  # VolumeBindingArgs
    args = args_of("VolumeBinding", shape, StorageCapacityScoring=True)
    assert [each.score for each in args.shape] == [3, 7]  # type: ignore[attr-defined]  # VolumeBindingArgs
    with pytest.raises(ConfigError, match="shape"):
        args_of("VolumeBinding", "volumebinding.shape: steep", StorageCapacityScoring=True)


@pytest.mark.parametrize("order", ["", "leastrequested.weight: 5"])
@pytest.mark.parametrize(("weight", "expected"), [(3, 3), (1, 1), (-1, 1), (0, None)])
def test_the_weight_of_volume_scores_is_that_of_the_plugin(weight: int, expected: int | None, order: str) -> None:
    """0 leaves the score out; weights of `nodeorder` stay."""
    text = FILE.replace("{name: nodeorder}", "{name: nodeorder, arguments: {%s}}")
    profile = FakeCluster().framework(config=text % ("volcano", f"volumebinding.weight: {weight}", order)).profile
    assert profile.score_weights.get("VolumeBinding") == expected
    assert profile.score_weights["NodeResourcesFit"] == (5 if order else 1)


def test_kube_batch_has_no_such_switches() -> None:
    """Its arguments are about pressure of nodes, for which there are taints."""
    usual, changed = profile_of("", "kube-batch"), profile_of("predicate.NodeAffinityEnable: false", "kube-batch")
    assert at(usual, ExtensionPoint.FILTER) == at(changed, ExtensionPoint.FILTER)
