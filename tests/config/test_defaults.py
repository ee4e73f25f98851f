"""The default plugins, and how a profile's own are merged into them."""

from __future__ import annotations

import pytest

from pyscheduler.config.defaults import default_plugins, merge_plugins
from pyscheduler.config.feature_gates import parse
from pyscheduler.config.load import default_configuration, loads
from pyscheduler.config.types import PluginEntry, Plugins, PluginSet
from pyscheduler.framework.in_tree_args import DynamicResourcesArgs, UtilizationShapePoint, VolumeBindingArgs


def plugin_set(text: str) -> PluginSet:
    """Read `A B:2 -C`: enabled, enabled with a weight, disabled."""
    entries = [(word.lstrip("-"), word.startswith("-")) for word in text.split()]
    parsed = [(PluginEntry(name.partition(":")[0], int(name.partition(":")[2] or 0)), off) for name, off in entries]
    return PluginSet(
        enabled=tuple(entry for entry, off in parsed if not off), disabled=tuple(entry for entry, off in parsed if off)
    )


@pytest.mark.parametrize(
    ("defaults", "custom", "merged"),
    [
        pytest.param("A B", "", "A B", id="nothing said"),
        pytest.param("A B", "X", "A B X", id="appended"),
        pytest.param("A B", "X B -B", "A X B -B", id="moved to the end"),
        pytest.param("A B", "X A B -*", "X A B -*", id="all replaced"),
        pytest.param("A B", "B A -*", "B A -*", id="reordered"),
        pytest.param("A B C", "A:2 C:3", "A:2 B C:3", id="weights in place"),
        pytest.param("A B C", "B:2 A:1", "A:1 B:2 C", id="weights keep the default order"),
        pytest.param("A B C", "A B:2 C B:4", "A B:4 C B:2", id="enabled twice, the last in place"),
        pytest.param("A B", "X X", "A B X X", id="enabled twice, both new"),
        pytest.param("A B", "-A -B:7", "-A -B", id="disabled, weights dropped"),
        pytest.param("A B", "-Z", "A B -Z", id="disabled, not there"),
        pytest.param("A B", "-*", "-*", id="all disabled"),
        pytest.param("A -B", "X -A", "X -A -B", id="defaults disable too"),
        pytest.param("A -*", "X", "X -*", id="defaults disable all"),
    ],
)
@pytest.mark.parametrize("point", ["multi_point", "score", "placement_score"])
def test_a_profile_changes_the_defaults(defaults: str, custom: str, merged: str, point: str) -> None:
    """Point by point, with kube-scheduler's rules for place, weight and `*`."""
    result = merge_plugins(Plugins(**{point: plugin_set(defaults)}), Plugins(**{point: plugin_set(custom)}))
    assert result == Plugins(**{point: plugin_set(merged)})


def test_extension_points_are_merged_separately() -> None:
    """What is disabled at one point stays enabled at all others."""
    defaults = Plugins(multi_point=plugin_set("A B"))
    custom = Plugins(multi_point=plugin_set("X"), score=plugin_set("-A"), filter=plugin_set("B"))
    assert merge_plugins(defaults, custom) == Plugins(
        multi_point=plugin_set("A B X"), score=plugin_set("-A"), filter=plugin_set("B")
    )


@pytest.mark.parametrize(
    ("gates", "added", "removed"),
    [
        pytest.param("", set(), set(), id="defaults"),
        pytest.param(
            "NodeDeclaredFeatures=false,ExtendWebSocketsToKubelet=false,InPlacePodVerticalScalingInitContainers=false,"
            "InPlacePodLevelResourcesVerticalScaling=false,RestartAllContainersOnContainerExits=false,"
            "UserNamespacesHostNetworkSupport=false",
            set(),
            {("NodeDeclaredFeatures", 0)},
            id="NodeDeclaredFeatures off",
        ),
        pytest.param(
            "GenericWorkload=true,GangScheduling=true", {("GangScheduling", 0)}, set(), id="GangScheduling on"
        ),
    ],
)
def test_feature_gates_change_the_default_plugins(
    gates: str, added: set[tuple[str, int]], removed: set[tuple[str, int]]
) -> None:
    """A plugin whose feature is off is no default."""
    usual = {(entry.name, entry.weight) for entry in default_plugins(parse("")).multi_point.enabled}
    found = {(entry.name, entry.weight) for entry in default_plugins(parse(gates)).multi_point.enabled}
    assert (found - usual, usual - found) == (added, removed)


def test_dynamic_resources_come_before_preemption() -> None:
    """An idle claim is taken back before a running pod is evicted."""
    names = [entry.name for entry in default_plugins(parse("")).multi_point.enabled]
    assert names.index("DynamicResources") == names.index("DefaultPreemption") - 1
    assert len(names) == 20


@pytest.mark.parametrize(
    ("gates", "name", "args"),
    [
        pytest.param("", "DynamicResources", DynamicResourcesArgs(), id="timeouts"),
        pytest.param(
            "DRASchedulerFilterTimeout=false",
            "DynamicResources",
            DynamicResourcesArgs(filter_timeout_seconds=None),
            id="no filter timeout",
        ),
        pytest.param(
            "DRADeviceBindingConditions=false",
            "DynamicResources",
            DynamicResourcesArgs(binding_timeout_seconds=None),
            id="no binding timeout",
        ),
        pytest.param("", "VolumeBinding", VolumeBindingArgs(), id="no shape"),
        pytest.param(
            "StorageCapacityScoring=true",
            "VolumeBinding",
            VolumeBindingArgs(shape=(UtilizationShapePoint(0, 10), UtilizationShapePoint(100, 0))),
            id="a shape",
        ),
    ],
)
def test_feature_gates_change_default_args(gates: str, name: str, args: object) -> None:
    """In a profile that says nothing, and where its args are empty."""
    silent = default_configuration(gates=parse(gates)).profiles[0]
    assert {config.name: config.args for config in silent.plugin_config}[name] == args
    text = f"""
        apiVersion: kubescheduler.config.k8s.io/v1
        kind: KubeSchedulerConfiguration
        profiles: [{{pluginConfig: [{{name: {name}, args: }}]}}]
    """
    assert loads(text, gates=parse(gates)).profiles[0].plugin_config[0].args == args


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param(
            "pluginConfig: [{name: VolumeBinding}, {name: Mine}]",
            "VolumeBinding Mine DefaultPreemption DynamicResources InterPodAffinity NodeAffinity "
            "NodeResourcesBalancedAllocation NodeResourcesFit PodTopologySpread",
            id="given first, the rest by name",
        ),
        pytest.param(
            "plugins: {multiPoint: {disabled: [{name: '*'}], enabled: [{name: VolumeZone}, {name: NodeAffinity}]}}",
            "NodeAffinity",
            id="enabled plugins only",
        ),
        pytest.param(
            "plugins: {multiPoint: {disabled: [{name: '*'}]}, score: {enabled: [{name: NodeResourcesFit}]}}",
            "NodeResourcesFit",
            id="enabled at one point",
        ),
    ],
)
def test_every_enabled_plugin_gets_args(text: str, names: str) -> None:
    """Those that a profile is silent about get the defaults, in the order of their names."""
    config = loads(
        f"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{{{text}}}]"
    )
    assert [each.name for each in config.profiles[0].plugin_config] == names.split()
