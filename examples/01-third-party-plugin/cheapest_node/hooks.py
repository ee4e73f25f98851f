"""The hook behind the entry point: it names the class, which is imported only when a profile enables it."""

from pyscheduler import PluginRegistry, hookimpl


@hookimpl
def pyscheduler_register(registry: PluginRegistry) -> None:
    """Offer the plugin."""
    registry.require_api("1.0")
    registry.add("CheapestNode", "cheapest_node.plugin:CheapestNode")
