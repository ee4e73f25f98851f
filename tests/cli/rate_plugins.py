"""A plugin that needs an object of the cluster and brings a definition."""

from __future__ import annotations

from pyscheduler import CycleState, Nodes, Pod, PreFilterPlugin, Status
from pyscheduler.api import ConfigMap, kind_of

__all__ = ["RateLimits"]


class RateLimits(PreFilterPlugin):
    """Lets as many pods have a node as a ConfigMap says."""

    watches = (kind_of(ConfigMap, "configmaps"),)
    crds = ("rate_limits:crd.yaml",)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        limits = self.handle.lister(ConfigMap).get("limits", "default")
        placed = int(self.handle.snapshot.nodes.pod_counts().sum())
        allowed = int(limits.data.get("pods", "0")) if limits is not None else 0
        return Status.unschedulable("the limit is reached") if placed >= allowed else None
