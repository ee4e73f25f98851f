"""Register the plugins of the batch package, such as `Batch` and `GpuSharing`.

pyscheduler finds this module through the package's entry point.
"""

from __future__ import annotations

from pyscheduler.framework.hooks import PluginRegistry, hookimpl

__all__ = ["pyscheduler_register"]


@hookimpl
def pyscheduler_register(registry: PluginRegistry) -> None:
    """Offer the plugins of this distribution."""
    registry.require_api("1.1")
    registry.add("Batch", "pyscheduler_batch.plugin:Batch")
    registry.add("GpuSharing", "pyscheduler_batch.gpu_sharing.plugin:GpuSharing")
    registry.add("BindRequest", "pyscheduler_batch.binder.plugin:BindRequestPlugin")
    registry.add("BindRequestReconciler", "pyscheduler_batch.binder.reconciler:BindRequestReconciler")
