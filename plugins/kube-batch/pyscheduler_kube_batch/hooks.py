"""The hook module of the entry point; it names the class of the batch system and does not import it."""

from __future__ import annotations

from pyscheduler.framework.hooks import PluginRegistry, hookimpl

__all__ = ["pyscheduler_register"]


@hookimpl
def pyscheduler_register(registry: PluginRegistry) -> None:
    """Offer the batch system of this distribution."""
    registry.require_api("1.1")
    registry.add_system("kube-batch", "pyscheduler_kube_batch.system:KubeBatch")
