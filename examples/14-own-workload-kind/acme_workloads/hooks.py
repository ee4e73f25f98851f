"""The hook of the entry point. It names the grouping rule as text, so the rule is imported only if it is needed."""

from pyscheduler import PluginRegistry, hookimpl


@hookimpl
def pyscheduler_register(registry: PluginRegistry) -> None:
    """Let PodGrouper group the pods of Acme's renderings."""
    registry.require_api("1.0")
    registry.add_grouper("acme-rendering", "acme_workloads.rendering:ROW")
