"""The hook of the entry point. It names the plugin class as text, so the class is imported only if it is needed."""

from pyscheduler import PluginRegistry, hookimpl


@hookimpl
def pyscheduler_register(registry: PluginRegistry) -> None:
    """Offer the plugin."""
    registry.require_api("1.1")
    registry.add("EveryPoint", "every_point.plugin:EveryPoint")
