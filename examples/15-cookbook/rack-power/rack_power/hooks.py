"""Registers the plugin; its module is imported only if a profile enables it."""

from pyscheduler import PluginRegistry, hookimpl


@hookimpl
def pyscheduler_register(registry: PluginRegistry) -> None:
    """Offer the plugin."""
    registry.add("RackPower", "rack_power.plugin:RackPower")
