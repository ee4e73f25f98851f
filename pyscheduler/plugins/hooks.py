"""Register the in-tree plugins by name; a plugin's class is imported only when a profile enables the plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler.framework.hooks import hookimpl

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler.framework.hooks import PluginRegistry

__all__ = ["PLUGINS", "pyscheduler_register"]

PLUGINS: Final[Mapping[str, str]] = {
    "DefaultBinder": "default_binder",
    "DefaultPreemption": "default_preemption",
    "DynamicResources": "dynamic_resources.plugin",
    "GangScheduling": "gang_scheduling",
    "ImageLocality": "image_locality",
    "InterPodAffinity": "inter_pod_affinity.plugin",
    "NodeAffinity": "node_affinity",
    "NodeDeclaredFeatures": "node_declared_features",
    "NodeName": "node_name",
    "NodePorts": "node_ports",
    "NodeResourcesBalancedAllocation": "node_resources.balanced_allocation",
    "NodeResourcesFit": "node_resources.fit",
    "NodeUnschedulable": "node_unschedulable",
    "NodeVolumeLimits": "node_volume_limits.plugin",
    "PodGroupPodsCount": "pod_group_pods_count",
    "PodTopologySpread": "pod_topology_spread.plugin",
    "PrioritySort": "priority_sort",
    "SchedulingGates": "scheduling_gates",
    "TaintToleration": "taint_toleration",
    "TopologyPlacementGenerator": "topology_placement_generator",
    "VolumeBinding": "volume_binding.plugin",
    "VolumeRestrictions": "volume_restrictions",
    "VolumeZone": "volume_zone",
}
"""The module of each plugin's class, which bears the plugin's name, below `pyscheduler.plugins`."""


@hookimpl
def pyscheduler_register(registry: PluginRegistry) -> None:
    """Offer the in-tree plugins."""
    for name, module in PLUGINS.items():
        registry.add(name, f"pyscheduler.plugins.{module}:{name}")
