"""Merge the plugins of a profile with the default plugins, and add the default args of in-tree plugins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from pyscheduler.config.forms import with_forms
from pyscheduler.config.types import (
    Configuration,
    PluginConfig,
    PluginEntry,
    Plugins,
    PluginSet,
    SchedulerProfile,
)
from pyscheduler.framework.in_tree_args import (
    IN_TREE_ARGS,
    DynamicResourcesArgs,
    UtilizationShapePoint,
    VolumeBindingArgs,
)

__all__ = ["complete", "default_plugins", "merge_plugins"]

_DEFAULTS: Final = (
    PluginEntry("SchedulingGates"),
    PluginEntry("PrioritySort"),
    PluginEntry("NodeUnschedulable"),
    PluginEntry("NodeName"),
    PluginEntry("TaintToleration", 3),
    PluginEntry("NodeAffinity", 2),
    PluginEntry("NodePorts"),
    PluginEntry("NodeResourcesFit", 1),
    PluginEntry("VolumeRestrictions"),
    PluginEntry("NodeVolumeLimits"),
    PluginEntry("VolumeBinding"),
    PluginEntry("VolumeZone"),
    PluginEntry("PodTopologySpread", 2),
    PluginEntry("InterPodAffinity", 2),
    PluginEntry("DefaultPreemption"),
    PluginEntry("NodeResourcesBalancedAllocation", 1),
    PluginEntry("ImageLocality", 1),
    PluginEntry("DefaultBinder"),
)
#: Before preemption, so that an idle claim is deallocated rather than a running pod evicted.
_DYNAMIC_RESOURCES: Final = PluginEntry("DynamicResources", 2)
_NO_DEFAULTS: Final = "*"
#: Scoring by storage capacity prefers the smallest sufficient capacity, unless the args differ.
_DEFAULT_SHAPE: Final = (UtilizationShapePoint(0, 10), UtilizationShapePoint(100, 0))


def complete(
    configuration: Configuration, profiles: Sequence[Mapping[str, object]], gates: Mapping[str, bool]
) -> Configuration:
    """Return `configuration` with the defaults of its profiles; `profiles` is their part of the file."""
    return attrs.evolve(
        configuration,
        profiles=tuple(
            _complete_profile(profile, said, gates)
            for profile, said in zip(configuration.profiles, profiles, strict=True)
        ),
    )


def default_plugins(gates: Mapping[str, bool]) -> Plugins:
    """Return the plugins of a profile that configures none."""
    enabled: list[PluginEntry] = []
    for entry in _DEFAULTS:
        if entry.name == "DefaultPreemption" and gates["DynamicResourceAllocation"]:
            enabled.append(_DYNAMIC_RESOURCES)
        enabled.append(entry)
    if gates["NodeDeclaredFeatures"]:
        enabled.append(PluginEntry("NodeDeclaredFeatures"))
    if gates["GangScheduling"]:
        enabled.append(PluginEntry("GangScheduling"))
    if gates["TopologyAwareWorkloadScheduling"]:
        enabled += [PluginEntry("TopologyPlacementGenerator"), PluginEntry("PodGroupPodsCount", 1)]
    return Plugins(multi_point=PluginSet(enabled=tuple(enabled)))


def merge_plugins(defaults: Plugins, custom: Plugins) -> Plugins:
    """Return `defaults` changed by a profile's plugins, per extension point."""
    theirs = dict(custom.sets())
    return attrs.evolve(defaults, **{point: _merge(ours, theirs[point]) for point, ours in defaults.sets()})


def _merge(defaults: PluginSet, custom: PluginSet) -> PluginSet:
    disabled = [entry.name for entry in (*custom.disabled, *defaults.disabled)]
    written = [attrs.evolve(entry, place=index) for index, entry in enumerate(custom.enabled)]
    # If a plugin is enabled twice, the last entry replaces the default; the runtime reports the duplicate.
    again = {entry.name: index for index, entry in enumerate(custom.enabled)}
    replaced: set[int] = set()
    enabled: list[PluginEntry] = []
    for entry in defaults.enabled if _NO_DEFAULTS not in disabled else ():
        if entry.name in disabled:
            continue
        index = again.get(entry.name)
        if index is not None:
            replaced.add(index)
            entry = written[index]
        enabled.append(entry)
    enabled += [entry for index, entry in enumerate(written) if index not in replaced]
    return PluginSet(enabled=tuple(enabled), disabled=tuple(map(PluginEntry, disabled)))


def _complete_profile(
    profile: SchedulerProfile, said: Mapping[str, object], gates: Mapping[str, bool]
) -> SchedulerProfile:
    plugins = with_forms(merge_plugins(default_plugins(gates), profile.plugins), profile.plugin_config)
    configs = [
        attrs.evolve(config, args=_gated(config.args, _args_said(said, index), gates))
        for index, config in enumerate(profile.plugin_config)
    ]
    configured = {config.name for config in configs}
    enabled = {entry.name for _, chosen in plugins.sets() for entry in chosen.enabled}
    configs += [
        PluginConfig(name=name, args=_gated(IN_TREE_ARGS[name](), {}, gates))
        for name in sorted(enabled - configured)
        if name in IN_TREE_ARGS
    ]
    return attrs.evolve(profile, plugins=plugins, plugin_config=tuple(configs))


def _args_said(profile: Mapping[str, object], index: int) -> Mapping[str, object]:
    """Return the args in a file at a place that is known to be well-formed."""
    configs = profile.get("pluginConfig")
    config = configs[index] if isinstance(configs, list) else None
    args = config.get("args") if isinstance(config, Mapping) else None
    return args if isinstance(args, Mapping) else {}


def _gated(args: object, said: Mapping[str, object], gates: Mapping[str, bool]) -> object:
    """Return args with the defaults that depend on feature gates."""
    if isinstance(args, DynamicResourcesArgs):
        binding = gates["DRADeviceBindingConditions"] and gates["DRAResourceClaimDeviceStatus"]
        if not gates["DRASchedulerFilterTimeout"] and said.get("filterTimeout") is None:
            args = attrs.evolve(args, filter_timeout_seconds=None)
        if not binding and said.get("bindingTimeout") is None:
            args = attrs.evolve(args, binding_timeout_seconds=None)
    if isinstance(args, VolumeBindingArgs) and not args.shape and gates["StorageCapacityScoring"]:
        args = attrs.evolve(args, shape=_DEFAULT_SHAPE)
    return args
