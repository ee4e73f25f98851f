"""The hook that the entry point names."""

from __future__ import annotations

from pyscheduler.framework.hooks import PluginRegistry, hookimpl

__all__ = ["pyscheduler_register"]


@hookimpl
def pyscheduler_register(registry: PluginRegistry) -> None:
    """Offer the plugin."""
    registry.add("Learned", "gym_policy.plugin:Learned")
