"""Register the plugin `PodGrouper` with pyscheduler, which finds this module through the package's entry point."""

from __future__ import annotations

from pyscheduler.framework.hooks import PluginRegistry, hookimpl

__all__ = ["pyscheduler_register"]


@hookimpl
def pyscheduler_register(registry: PluginRegistry) -> None:
    """Offer the plugins of this distribution."""
    registry.require_api("1.0")
    registry.add("PodGrouper", "pyscheduler_podgrouper.plugin:PodGrouper")
