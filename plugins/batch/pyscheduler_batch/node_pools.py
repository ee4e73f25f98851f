"""Node pools of KAI: a profile uses the nodes, queues and groups of one pool.

A label of an object names its pool. A profile without a pool of its own takes the objects without this label.

Source: KAI-Scheduler `pkg/scheduler/conf/scheduler_conf.go`, `cache/cluster_info/data_lister`, `scheduler_util`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.framework.departures import is_ready
from pyscheduler_batch.model.batch_plugin import NodeUse

if TYPE_CHECKING:
    from pyscheduler.api import KubeObject, Node

__all__ = ["EVERYTHING", "NodePool"]

#: The name of the pool of a profile without one.
_DEFAULT: Final = "default"
_PRESSURES: Final = frozenset({"MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"})


@attrs.frozen
class NodePool:
    """The objects whose label `key` has a value; with the value "", those without the label. No key: all objects."""

    key: str
    value: str

    @property
    def shown_name(self) -> str:
        """Return the pool's name as conditions have it."""
        return self.value or _DEFAULT

    def has(self, item: KubeObject) -> bool:
        """Return whether an object is in the pool."""
        return not self.key or item.labels.get(self.key) == (self.value or None)

    def node_use(self, node: Node) -> NodeUse:
        """Return what a node is to the sessions: cordoned nodes and those with a bad condition are not ready."""
        if not self.has(node):
            return NodeUse.NONE
        return NodeUse.FULL if _takes_pods(node) else NodeUse.NOT_READY


EVERYTHING: Final = NodePool("", "")


def _takes_pods(node: Node) -> bool:
    has_pressure = any(each.type in _PRESSURES and each.status != "False" for each in node.status.conditions)
    return is_ready(node) and not has_pressure and not node.spec.unschedulable
