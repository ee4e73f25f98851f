"""Register the batch system `volcano` for the plugin `Batch`; the package's entry point names this module."""

from __future__ import annotations

from pyscheduler.framework.hooks import PluginRegistry, hookimpl

__all__ = ["pyscheduler_register"]


@hookimpl
def pyscheduler_register(registry: PluginRegistry) -> None:
    """Offer the batch system of this distribution."""
    registry.require_api("1.1")
    registry.add_system("volcano", "pyscheduler_volcano.system:Volcano")
