"""The order of KAI's queues at the beginning of each scheduling round.

The child queues of each queue are in a heap, which is kept for the next round. If a queue changes, its ancestors'
heaps are rebuilt. If the cluster's capacity changes, all heaps are.
"""

# Row of the benchmark: batch-full, the round after a node was freed.

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyscheduler_batch.contract import Amounts

__all__ = ["TOP", "Forest"]

#: The parent of the top queues.
TOP: Final = -1


class Forest:
    """The order of each heap of queues. `parents`: row of each queue's parent, -1 at the top."""

    def __init__(self, parents: Sequence[int]) -> None:
        self._parents = parents
        #: By row of a queue with children, or -1: its children, the last row first, as they are pushed.
        self.children: dict[int, list[int]] = {}
        for row in range(len(parents) - 1, -1, -1):
            self.children.setdefault(parents[row], []).append(row)
        #: By row of a queue with children, or -1: the rows in its heap. Without those that have no jobs below.
        self.order: dict[int, list[int]] = {}
        self._changed: set[int] = set()
        self._inputs: Amounts | None = None
        self._pool: tuple[float, ...] = ()

    def jobs_changed(self, row: int) -> None:
        """Take notice that a leaf queue has other jobs."""
        self._changed.add(row)

    def stale(self, inputs: Amounts, pool: tuple[float, ...]) -> list[int]:
        """Return the queues whose heaps of children must be built anew, children before their parents.

        `inputs`: float64[Q, n], what the keys of queues depend on, besides their jobs and settings. `pool`: what the
        keys of all queues depend on.
        """
        before, self._inputs = self._inputs, inputs
        if before is None or pool != self._pool:
            self._changed.clear()
            self._pool = pool
            return sorted(self.children, reverse=True)
        changed = self._changed.union(np.flatnonzero((before != inputs).any(axis=1)).tolist())
        self._changed.clear()
        return sorted(self._above(changed), reverse=True)

    def _above(self, rows: Iterable[int]) -> set[int]:
        found: set[int] = set()
        for row in rows:
            at = self._parents[row]
            while at not in found:
                found.add(at)
                at = self._parents[at] if at >= 0 else at
        return found
