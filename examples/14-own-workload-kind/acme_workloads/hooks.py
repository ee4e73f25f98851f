"""The hook behind the entry point: it names the row, which is imported only when PodGrouper is enabled."""

from pyscheduler import PluginRegistry, hookimpl


@hookimpl
def pyscheduler_register(registry: PluginRegistry) -> None:
    """Let PodGrouper group the pods of Acme's renderings."""
    registry.require_api("1.0")
    registry.add_grouper("acme-rendering", "acme_workloads.rendering:ROW")
