"""The hook behind the entry point: it names the row, which is imported only when its plugin is enabled."""

from pyscheduler import PluginRegistry, hookimpl


@hookimpl
def pyscheduler_register(registry: PluginRegistry) -> None:
    """Let Coscheduling serve Acme's teams."""
    registry.require_api("1.0")
    registry.add_dialect("acme", "acme_teams.rows:ROW", claimed_by="Coscheduling")
