"""Find the first plugin that rejected a node, and the status that the plugin returned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pyscheduler.framework.node_statuses import NodeStatuses
from pyscheduler.framework.status import Code, Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from pyscheduler.framework.nodes import Nodes

__all__ = ["all_failing", "blank_statuses", "fail_rows", "first_error", "merge_statuses"]


def blank_statuses(nodes: Nodes) -> NodeStatuses:
    """Return statuses of `nodes`, all passing, that can be read by node name."""
    statuses = NodeStatuses(len(nodes))
    statuses.bind_names(nodes.name, nodes.index)
    return statuses


def all_failing(nodes: Nodes, status: Status) -> NodeStatuses:
    """Return statuses in which every node has `status`."""
    statuses = blank_statuses(nodes)
    statuses.fail(np.ones(len(nodes), dtype=np.bool_), status)
    return statuses


def fail_rows(statuses: NodeStatuses, found: Mapping[int, Status]) -> None:
    """Give rows that have no failure yet the ones in `found`."""
    #: By identity, as a rule one for many.
    alike: dict[int, tuple[Status, list[int]]] = {}
    for row, status in found.items():
        alike.setdefault(id(status), (status, []))[1].append(row)
    for status, rows in alike.values():
        statuses.reason_ids[rows] = statuses.add_reason(status)
        statuses.codes[rows] = status.code


def merge_statuses(into: NodeStatuses, statuses: NodeStatuses, plugin: str) -> None:
    """Give the nodes that have no failure yet those of a columnar plugin, in its name."""
    fresh = ~statuses.passed() & into.passed()
    nameless = fresh & (statuses.reason_ids == 0)
    if nameless.any():
        # A plugin may set codes alone; then there is a code to tell, and no reason.
        for code in np.unique(statuses.codes[nameless]).tolist():
            into.fail(nameless & (statuses.codes == code), Status(Code(code), plugin=plugin))
        fresh &= ~nameless
    offset = len(into.table) - 1
    into.table.extend(status.with_plugin(plugin) for status in statuses.table[1:])
    np.copyto(into.reason_ids, statuses.reason_ids + np.int32(offset), where=fresh)
    np.copyto(into.codes, statuses.codes, where=fresh)


def first_error(statuses: NodeStatuses, alive: NDArray[np.bool_] | None) -> Status | None:
    """Return the first status that is no rejection, among the nodes in `alive` (bool[n]; None: all)."""
    for reason, status in enumerate(statuses.table):
        if reason and not status.is_rejected:
            hit = statuses.reason_ids == reason
            if (hit if alive is None else hit & alive).any():
                return status
    return None
