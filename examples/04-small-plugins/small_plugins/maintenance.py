"""Maintenance: place no pods on nodes that a custom resource names. The plugin watches the custom resource."""

from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np

from pyscheduler import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EnqueueExtensions,
    FilterPlugin,
    Nodes,
    NodeStatuses,
    Pod,
    Status,
)
from pyscheduler.api import KubeObject, Wire, kind_of
from pyscheduler.framework import event_resource


class MaintenanceSpec(Wire):
    """The part of the resource that is read; `node_name` is `nodeName` on the wire."""

    node_name: str = ""


class Maintenance(KubeObject):
    """A node that is being worked on."""

    api_version: ClassVar[str] = "example.com/v1"
    kind: ClassVar[str] = "Maintenance"

    spec: MaintenanceSpec = MaintenanceSpec()


MAINTENANCES: Final = kind_of(Maintenance, "maintenances", namespaced=False)

UNDER_MAINTENANCE: Final = Status.unresolvable("node(s) were under maintenance")


class MaintenanceFilter(FilterPlugin, EnqueueExtensions):
    """Keep pods off nodes under maintenance. While the resource's definition is absent, no node is."""

    watches = (MAINTENANCES,)

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        closed = np.zeros(len(nodes), dtype=np.bool_)
        for maintenance in self.handle.lister(Maintenance):
            row = nodes.index(maintenance.spec.node_name)
            if row is not None:
                closed[row] = True
        return NodeStatuses.failing(closed, UNDER_MAINTENANCE)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        over = ClusterEvent(event_resource(MAINTENANCES), ActionType.UPDATE | ActionType.DELETE)
        return [ClusterEventWithHint(over)]
