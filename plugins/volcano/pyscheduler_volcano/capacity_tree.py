"""Compute the shares and limits of queues for Volcano's plugin `capacity`, with or without a tree of queues.

Source: Volcano `plugins/capacity`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pyscheduler_volcano.queue_policy import own_capability, share_limit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Amounts, QueueTable
    from pyscheduler_volcano.amounts import Scale

__all__ = ["CapacityTable", "flat_table", "queue_shares", "tree_table"]


class CapacityTable(NamedTuple):
    """The deserved amounts and the limits of the queues; float64[Q, R], the last one bool[Q, R]."""

    deserved: Amounts
    guarantee: Amounts
    real_capability: Amounts
    #: Where a queue has a deserved amount, 0 included.
    is_set: NDArray[np.bool_]


def flat_table(queues: QueueTable, total: Amounts, scale: Scale) -> CapacityTable:
    """Return the table of queues without a tree: deserved as configured, cut by the limit, at least the guarantee."""
    capability = own_capability(total, queues.guarantee, queues.limit, scale.native)
    guarantee = np.nan_to_num(queues.guarantee)
    limit = share_limit(total, queues.guarantee, capability, scale.native)
    deserved = np.maximum(np.minimum(np.nan_to_num(queues.quota), limit), guarantee)
    return CapacityTable(deserved, guarantee, capability, _is_set(queues, scale))


def tree_table(queues: QueueTable, total: Amounts, root: int, scale: Scale) -> CapacityTable:
    """Return the table of a tree, level by level.

    Deserved is at least the guarantee; the root's are the sums of its children. A child inherits capabilities that it
    does not set; a resource that no queue above sets is not cut. Its limit is what the guarantees of its siblings leave
    of its parent's limit. The root without any capability is unlimited; a root with some has 0 of the others.
    """
    guarantee = np.nan_to_num(queues.guarantee)
    deserved = np.maximum(np.nan_to_num(queues.quota), guarantee)
    limit = np.where(scale.native & (queues.limit <= 0), np.nan, queues.limit)
    if scale.is_empty(np.nan_to_num(queues.limit[root])):
        limit[root] = np.where(scale.native | (total > 0), np.inf, np.nan)
    else:
        limit[root] = np.where(scale.native, np.nan_to_num(queues.limit[root]), queues.limit[root])
    real = np.zeros_like(limit)
    real[root] = np.nan_to_num(limit[root], posinf=np.inf)
    is_set = _is_set(queues, scale)
    guaranteed = np.zeros_like(guarantee)
    below = queues.parent >= 0
    np.add.at(guaranteed, queues.parent[below], guarantee[below])
    # Parents come before their children, so one pass over the levels is enough.
    for rows in _levels(queues):
        above = queues.parent[rows]
        limit[rows] = np.where(np.isnan(limit[rows]), limit[above], limit[rows])
        left = np.maximum(real[above] - guaranteed[above], 0.0)
        real[rows] = np.fmin(left + guarantee[rows], limit[rows])
    children = queues.parent == root
    deserved[root] = deserved[children].sum(axis=0)
    guarantee[root] = guarantee[children].sum(axis=0)
    is_set[root] = is_set[children].any(axis=0) | scale.native
    return CapacityTable(deserved, guarantee, real, is_set)


def _levels(queues: QueueTable) -> list[NDArray[np.int64]]:
    """Return the rows below the top, level by level."""
    depth = np.array([len(path) for path in queues.paths], dtype=np.int64)
    return [np.flatnonzero(depth == level) for level in range(2, int(depth.max(initial=1)) + 1)]


def _is_set(queues: QueueTable, scale: Scale) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = ~np.isnan(queues.quota) | ~np.isnan(queues.guarantee) | scale.native
    return found


def queue_shares(allocated: Amounts, deserved: Amounts, scale: Scale) -> NDArray[np.float64]:
    """Return float64[Q]: the largest part of the deserved amounts that is held; 1 for queues that deserve nothing."""
    counts = scale.significant(deserved)
    parts = np.divide(allocated, deserved, out=np.zeros_like(deserved), where=counts)
    shares: NDArray[np.float64] = np.maximum(parts.max(axis=1, initial=0.0), 0.0)
    shares[~np.any(counts & scale.counted, axis=1)] = 1.0
    return shares
