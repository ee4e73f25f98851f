"""The rows with the highest total score, updated while the totals of single rows change.

A placed pod changes the total of one node, and thousands of nodes can share the highest total. Finding all of them
again would read the totals of all nodes three times for each pod.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["TopRows"]


class TopRows:
    """The rows of the highest of some totals (any integers, at least one): `rows`, ascending, not to be changed."""

    __slots__ = ("_highest", "_list", "rows")

    def __init__(self, totals: NDArray[np.signedinteger]) -> None:
        highest = totals.max()
        self._highest = int(highest)
        self.rows: Sequence[int] | NDArray[np.int64] = (totals == highest).nonzero()[0]
        #: The same rows, once one of them has changed.
        self._list: list[int] | None = None

    def move(self, row: int, before: int, after: int) -> bool:
        """Apply the new total of a row; return False where no highest row is left, so that all have to be searched."""
        highest = self._highest
        if before != highest and after < highest:
            return True
        if after > highest:
            self._highest = after
            self.rows = self._list = [row]
            return True
        if before == after:
            return True
        rows = self._list
        if rows is None:
            rows = self.rows = self._list = np.asarray(self.rows).tolist()
        place = bisect_left(rows, row)
        if after == highest:
            rows.insert(place, row)
            return True
        del rows[place]
        return bool(rows)
