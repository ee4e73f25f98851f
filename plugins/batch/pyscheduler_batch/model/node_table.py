"""The table of nodes in a scheduling round.

It has these amounts of a node's resources: allocatable, free, held by evicted or terminating pods, and promised to
waiting pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler_batch.model.axis import Amounts

__all__ = ["NodeTable"]


@attrs.define(eq=False, kw_only=True)
class NodeTable:
    """Columns over nodes; row order is the order of the snapshot. Only a statement changes them.

    `idle` is free now. What evicted and terminating pods hold is in `releasing`, what is promised to pipelined tasks in
    `pipelined`. So `idle + releasing - pipelined` is free later.
    """

    names: Sequence[str]
    index: Mapping[str, int]
    #: float64[N, R], all four.
    allocatable: Amounts
    idle: Amounts
    releasing: Amounts
    pipelined: Amounts
    #: bool[N]: the nodes that take tasks, and whose amounts are divided among queues; None for all.
    ready: NDArray[np.bool_] | None = None

    @classmethod
    def of(cls, names: Sequence[str], allocatable: Amounts) -> NodeTable:
        """Return the table of empty nodes; `allocatable`: float64[N, R]."""
        return cls(
            names=names,
            index={name: row for row, name in enumerate(names)},
            allocatable=allocatable,
            idle=allocatable.copy(),
            releasing=np.zeros_like(allocatable),
            pipelined=np.zeros_like(allocatable),
        )

    def __len__(self) -> int:
        return len(self.names)

    @property
    def future(self) -> Amounts:
        """Return float64[N, R]: what is free once all releasing tasks are gone and all promises are kept."""
        return self.idle + self.releasing - self.pipelined

    def fits_now(self, request: Amounts) -> NDArray[np.bool_]:
        """Return bool[N]: the nodes whose idle amounts hold the request; resources not requested do not matter."""
        asked = request > 0
        fits: NDArray[np.bool_] = np.all(self.idle[:, asked] >= request[asked], axis=1)
        return fits

    def fits_later(self, request: Amounts) -> NDArray[np.bool_]:
        """Return bool[N]: the nodes that will hold the request."""
        asked = request > 0
        free = self.idle[:, asked] + self.releasing[:, asked] - self.pipelined[:, asked]
        fits: NDArray[np.bool_] = np.all(free >= request[asked], axis=1)
        return fits
