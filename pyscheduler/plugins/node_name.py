"""NodeName: a pod with `spec.nodeName` fits only the node of this name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from pyscheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EnqueueExtensions,
    EventResource,
    FilterPlugin,
    NodeStatuses,
    Reuse,
    SignFragment,
    SignPlugin,
    Status,
)
from pyscheduler.framework.signatures import NODE_NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework import CycleState, Nodes

__all__ = ["NodeName"]

_REJECTION: Final = Status.unresolvable("node(s) didn't match the requested node name")


class NodeName(FilterPlugin, EnqueueExtensions, SignPlugin):
    """Refuse every node but the one in `spec.nodeName`, where that is set."""

    reuse = Reuse.WHILE_NODE_STAYS

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        if not pod.node_name:
            return None
        others = np.ones(len(nodes), dtype=np.bool_)
        row = nodes.index(pod.node_name)
        if row is not None:
            others[row] = False
        return NodeStatuses.failing(others, _REJECTION)

    def why_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> str:
        exists = self.handle.snapshot.get(pod.node_name) is not None
        return f"asks for node {pod.node_name}" + ("" if exists else ", which does not exist")

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
        return (SignFragment(NODE_NAME, pod.node_name),)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.ADD)),)
