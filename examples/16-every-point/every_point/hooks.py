"""The offer behind the entry point: the class by name, imported only when a profile enables it."""

from pyscheduler import PluginRegistry, hookimpl


@hookimpl
def pyscheduler_register(registry: PluginRegistry) -> None:
    """Offer the plugin."""
    registry.require_api("1.1")
    registry.add("EveryPoint", "every_point.plugin:EveryPoint")
