"""The hook that the entry point names. It names the class of the system without an import of it."""

from __future__ import annotations

from pyscheduler.framework.hooks import PluginRegistry, hookimpl

__all__ = ["pyscheduler_register"]


@hookimpl
def pyscheduler_register(registry: PluginRegistry) -> None:
    """Offer the batch system of this distribution."""
    registry.require_api("1.1")
    registry.add_system("kai", "pyscheduler_kai.system:Kai")
