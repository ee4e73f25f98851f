"""TopologyPlacementGenerator: all pods of a PodGroup run on nodes with one value of a label, such as one zone.

The PodGroup names the label in `spec.schedulingConstraints.topology[0].key`. For each value of this label, the plugin
makes a set of nodes to try.
Source: kube-scheduler 1.36, `plugins/topologyaware`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from pyscheduler.framework import (
    CycleState,
    GroupInfo,
    GroupPlacement,
    Handle,
    LabelColumn,
    Nodes,
    PlacementGeneratePlugin,
    Status,
)
from pyscheduler.podgroup import GroupId, PodGroups
from pyscheduler.podgroup.wire import IN_TREE_PODGROUPS, InTreePodGroup

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["TopologyPlacementGenerator"]

_FAMILY: Final = "intree"


class TopologyPlacementGenerator(PlacementGeneratePlugin):
    """Make one placement of each topology domain."""

    watches = (IN_TREE_PODGROUPS,)

    def __init__(self, args: object = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        if handle is not None:
            self._directory = PodGroups.of(handle).directory

    def generate_placements(
        self, state: CycleState, group: GroupInfo, parent: GroupPlacement
    ) -> Sequence[GroupPlacement] | Status:
        found = self._directory.get(GroupId(group.namespace, group.name, _FAMILY))
        item = found.object if found is not None else None
        if found is None or not isinstance(item, InTreePodGroup):
            text = f'podgroup.{IN_TREE_PODGROUPS.group} "{group.name}" not found'
            return Status.from_error(LookupError(text))
        constraints = item.spec.scheduling_constraints
        if constraints is None or not constraints.topology:
            return (parent,)
        column = parent.nodes.labels(constraints.topology[0].key)
        domain = _domain_of_members(group, parent.nodes, column)
        return domain if isinstance(domain, Status) else _placements(parent.nodes, column, domain)


def _domain_of_members(group: GroupInfo, nodes: Nodes, column: LabelColumn) -> int | Status | None:
    """Return the id of the value that the nodes of the placed members have; None if no member has a node."""
    domain: int | None = None
    for pod, name in group.placed.items():
        row = nodes.index(name)
        if row is None:
            return _error(f'getting node for pod {pod}: nodeinfo not found for node name "{name}"')
        found = int(column.ids[row])
        if not found:
            return _error(f"no topology domain found for pod {pod}")
        if domain is not None and domain != found:
            return _error(f"more than 1 domain found for pod group: {column.values[domain]}, {column.values[found]}")
        domain = found
    return domain


def _error(text: str) -> Status:
    return Status.from_error(RuntimeError(f"cannot determine domain for already scheduled pods: {text}"))


def _placements(nodes: Nodes, column: LabelColumn, only: int | None) -> list[GroupPlacement]:
    """Return a placement for each value of the label, or for one value, in the order of the first node."""
    if only is not None:
        rows = np.flatnonzero(column.ids == only)
        return [GroupPlacement(str(column.values[only]), nodes.take(rows))] if len(rows) else []
    order = np.argsort(column.ids, kind="stable")
    ids = column.ids[order]
    starts = np.flatnonzero(np.diff(ids, prepend=-1))
    parts = np.split(order, starts[1:])
    pairs = zip(ids[starts].tolist(), parts, strict=True) if len(ids) else ()
    return [GroupPlacement(str(column.values[each]), nodes.take(rows)) for each, rows in pairs if each]
