"""The table of queues in a scheduling round: their tree, and the resources that the jobs of each queue have now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler_batch.model.axis import Amounts

__all__ = ["QueueTable"]


@attrs.define(eq=False, kw_only=True)
class QueueTable:
    """Columns over queues. Parents come before their children; queues with an error are not in the table.

    The configured columns hold what the queue's dialect means: infinity is unlimited. `allocated` and
    `non_preemptible` are sums over the active tasks of the queue and of all queues below it.
    """

    names: Sequence[str]
    index: Mapping[str, int]
    #: int64[Q]: row of the parent, -1 at the top.
    parent: NDArray[np.int64]
    #: float64[Q, R], all four. KAI's quota, limit and over-quota weight; Volcano's deserved, capability and guarantee,
    #: NaN where the queue sets nothing.
    quota: Amounts
    limit: Amounts
    guarantee: Amounts
    over_quota_weight: Amounts
    #: float64[Q], all three. Seconds since 1970 for `created`.
    weight: NDArray[np.float64]
    priority: NDArray[np.float64]
    created: NDArray[np.float64]
    #: bool[Q]: whether other queues may reclaim from it (Volcano).
    reclaimable: NDArray[np.bool_]
    #: Open, Closed, Closing or Unknown (Volcano); "" elsewhere.
    state: Sequence[str]
    #: Seconds, NaN where not set (KAI).
    preempt_min_runtime: NDArray[np.float64]
    reclaim_min_runtime: NDArray[np.float64]
    #: `volcano.sh/hierarchy` and `volcano.sh/hierarchy-weights`, "" where not set.
    hierarchy: Sequence[tuple[str, str]]
    allocated: Amounts
    non_preemptible: Amounts
    #: float64[Q, R]: historical usage divided by the capacity of the cluster (KAI); None if there is no history.
    usage: Amounts | None = None
    #: By row: the row itself and its ancestors, the leaf first.
    paths: Sequence[NDArray[np.int64]]
    #: bool[Q]: no queue has it as its parent.
    is_leaf: NDArray[np.bool_]
    #: Why the tree is broken at a queue, by name: its parent is missing, or it is its own ancestor.
    problems: Mapping[str, str] = attrs.Factory(dict)
    #: By name of a queue below a missing one, the name of the missing queue.
    missing_parents: Mapping[str, str] = attrs.Factory(dict)

    def __len__(self) -> int:
        return len(self.names)

    def add(self, row: int, amounts: Amounts, *, non_preemptible: bool) -> None:
        """Add amounts to the sums of a queue and its ancestors; subtract with negative amounts."""
        # Paths are short: much faster than one access with an array of rows.
        for each in self.paths[row].tolist():
            sums = self.allocated[each]
            sums += amounts
            if non_preemptible:
                sums = self.non_preemptible[each]
                sums += amounts


def paths_of(parent: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return by row the row and its ancestors, the row first. Parents come before their children."""
    paths: list[NDArray[np.int64]] = []
    for row, above in enumerate(parent.tolist()):
        own = np.array([row], dtype=np.int64)
        paths.append(own if above < 0 else np.concatenate([own, paths[above]]))
    return paths
