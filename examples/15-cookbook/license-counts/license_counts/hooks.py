"""Registers the plugin; its module is imported only if a profile enables the plugin."""

from pyscheduler import PluginRegistry, hookimpl


@hookimpl
def pyscheduler_register(registry: PluginRegistry) -> None:
    """Offer the plugin."""
    registry.add("LicenseCounts", "license_counts.plugin:LicenseCounts")
