"""Let a profile share GPUs in a simulation, where nothing reports which GPU a pod got."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from pyscheduler.config.types import PluginConfig, PluginEntry

if TYPE_CHECKING:
    from pyscheduler.config.types import Configuration, SchedulerProfile

__all__ = ["GPU_SHARING", "RESERVATIONS", "with_gpu_sharing"]

GPU_SHARING: Final = "GpuSharing"
"""The plugin that counts parts of GPUs."""

_NAMESPACE: Final = "device-reservations"
RESERVATIONS: Final[dict[str, Any]] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}}
"""The namespace of reservation pods."""
_ARGS: Final = {"allocationTimeout": "0s", "namespace": _NAMESPACE}


def with_gpu_sharing(config: Configuration) -> Configuration:
    """Return a configuration whose first profile enables GpuSharing, and does not wait for the index of a device."""
    first, *others = config.profiles
    return attrs.evolve(config, profiles=(_sharing(first), *others))


def _sharing(profile: SchedulerProfile) -> SchedulerProfile:
    given = next((each.raw or {} for each in profile.plugin_config if each.name == GPU_SHARING), {})
    others = tuple(each for each in profile.plugin_config if each.name != GPU_SHARING)
    args = PluginConfig(name=GPU_SHARING, args={**given, **_ARGS})
    plugins = profile.plugins
    if not any(entry.name == GPU_SHARING for _, chosen in plugins.sets() for entry in chosen.enabled):
        chosen = plugins.multi_point
        multi_point = attrs.evolve(chosen, enabled=(*chosen.enabled, PluginEntry(GPU_SHARING)))
        plugins = attrs.evolve(plugins, multi_point=multi_point)
    return attrs.evolve(profile, plugins=plugins, plugin_config=(*others, args))
