"""The hook that the entry point names. It names the plugin class without an import of it."""

from __future__ import annotations

from pyscheduler.framework.hooks import PluginRegistry, hookimpl

__all__ = ["pyscheduler_register"]


@hookimpl
def pyscheduler_register(registry: PluginRegistry) -> None:
    """Offer the plugins of this distribution."""
    registry.require_api("1.0")
    registry.add("GangSort", "pyscheduler_queuesort.plugin:GangSort")
