"""`Racks`: place a pod with the label `rack` on nodes of this rack. An unknown rack raises an exception."""

from __future__ import annotations

from typing import Final

from pyscheduler import CycleState, FilterPlugin, NodeInfo, Pod, Status
from pyscheduler.framework.hooks import PluginRegistry, hookimpl

_NODES: Final = {"a": frozenset({"cpu-0"}), "b": frozenset({"cpu-1"})}


class Racks(FilterPlugin):
    """Refuse nodes of other racks. The mistake: a rack that is not known is an exception, and should be a rejection."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        rack = pod.labels.get("rack")
        if rack is None:
            return None
        if rack not in _NODES:
            raise LookupError(f"no rack is called {rack}")
        return None if node.name in _NODES[rack] else Status.unschedulable(f"node(s) were not in rack {rack}")


@hookimpl
def pyscheduler_register(registry: PluginRegistry) -> None:
    """Register the plugin."""
    registry.add("Racks", Racks)
