"""Enable the plugin `GpuSharing`, which counts parts of GPUs, in profiles for a simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.config.types import PluginConfig, PluginEntry

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyscheduler.config.types import Configuration, SchedulerProfile

__all__ = ["GPU_SHARING", "with_gpu_sharing", "without_device_index"]

GPU_SHARING: Final = "GpuSharing"
"""The plugin that counts parts of GPUs."""

_ARGS: Final = {"allocationTimeout": "0s"}


def with_gpu_sharing(config: Configuration, names: Collection[str] = ()) -> Configuration:
    """Return a configuration whose profiles of these names enable GpuSharing; by default, the first profile does."""
    chosen = names or {config.profiles[0].scheduler_name}
    profiles = (_sharing(each) if each.scheduler_name in chosen else each for each in config.profiles)
    return without_device_index(attrs.evolve(config, profiles=tuple(profiles)))


def without_device_index(config: Configuration) -> Configuration:
    """Return a configuration whose profiles with GpuSharing do not wait for the index of a device."""
    profiles = (_without_index(each) if _enables_sharing(each) else each for each in config.profiles)
    return attrs.evolve(config, profiles=tuple(profiles))


def _enables_sharing(profile: SchedulerProfile) -> bool:
    return any(entry.name == GPU_SHARING for _, chosen in profile.plugins.sets() for entry in chosen.enabled)


def _sharing(profile: SchedulerProfile) -> SchedulerProfile:
    if _enables_sharing(profile):
        return profile
    chosen = profile.plugins.multi_point
    multi_point = attrs.evolve(chosen, enabled=(*chosen.enabled, PluginEntry(GPU_SHARING)))
    return attrs.evolve(profile, plugins=attrs.evolve(profile.plugins, multi_point=multi_point))


def _without_index(profile: SchedulerProfile) -> SchedulerProfile:
    given = next((each.raw or {} for each in profile.plugin_config if each.name == GPU_SHARING), {})
    others = tuple(each for each in profile.plugin_config if each.name != GPU_SHARING)
    args = PluginConfig(name=GPU_SHARING, args={**given, **_ARGS})
    return attrs.evolve(profile, plugin_config=(*others, args))
