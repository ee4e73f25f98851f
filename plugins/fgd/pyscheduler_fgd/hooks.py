"""Register the six plugins of this package; pyscheduler finds this module through the package's entry point."""

from __future__ import annotations

from pyscheduler.framework.hooks import PluginRegistry, hookimpl

__all__ = ["pyscheduler_register"]


@hookimpl
def pyscheduler_register(registry: PluginRegistry) -> None:
    """Offer the plugins of this distribution."""
    registry.require_api("1.1")
    registry.add("FGD", "pyscheduler_fgd.gradient:FGD")
    for name in ("BestFit", "DotProd", "GpuClustering", "GpuPacking", "Random"):
        registry.add(name, f"pyscheduler_fgd.policies:{name}")
