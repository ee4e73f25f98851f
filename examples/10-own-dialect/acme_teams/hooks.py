"""The hook of the entry point. It names the group format as text, so `rows.py` is imported only if it is needed."""

from pyscheduler import PluginRegistry, hookimpl


@hookimpl
def pyscheduler_register(registry: PluginRegistry) -> None:
    """Let Coscheduling serve Acme's teams."""
    registry.require_api("1.0")
    registry.add_dialect("acme", "acme_teams.rows:ROW", claimed_by="Coscheduling")
