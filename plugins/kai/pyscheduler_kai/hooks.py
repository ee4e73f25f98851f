"""Register the batch system `kai` for the plugin `Batch`."""

from __future__ import annotations

from pyscheduler.framework.hooks import PluginRegistry, hookimpl

__all__ = ["pyscheduler_register"]


@hookimpl
def pyscheduler_register(registry: PluginRegistry) -> None:
    """Offer the batch system of this distribution."""
    registry.require_api("1.1")
    registry.add_system("kai", "pyscheduler_kai.system:Kai")
