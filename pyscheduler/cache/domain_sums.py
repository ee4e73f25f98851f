"""The number of matching pods in each topology domain, summed up from the numbers on each node.

A pod with spread constraints or pod affinity needs these sums. So does the next pod of its kind, when one more pod has
been placed. Adding up all nodes again takes many times as long as finding the node whose number changed. So the sums
are kept with the numbers that they were made from, compared with the present numbers, and corrected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyscheduler.framework.nodes import LabelColumn

__all__ = ["DomainSums", "sum_by_domain"]

#: Sums that are kept, each with the counts it was made of; beyond that the one not asked for longest goes.
_MAX_KEPT: Final = 128
#: Where more than this share of the rows changed, all are added up again.
_MANY: Final = 16


def sum_by_domain(column: LabelColumn, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return int64 by id of the label: the sums of `counts`, int64[n]; fresh."""
    if counts.dtype != np.int64:
        raise TypeError(f"`counts` must be int64, one for each node, not {counts.dtype}; write counts.astype(np.int64)")
    # Sums of counts of pods are far below 2^53, up to which float64 is exact.
    return np.bincount(column.ids, weights=counts, minlength=len(column.values)).astype(np.int64)


@attrs.define(eq=False)
class _Kept:
    #: The array that the counts are in, held so that no other can take its place in memory.
    source: NDArray[np.int64]
    node_version: int
    counts: NDArray[np.int64]
    sums: NDArray[np.int64]


class DomainSums:
    """Sums over all rows of a snapshot, of arrays that are kept up to date themselves."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        #: By identity of the array and label key, in the order of their last use.
        self._kept: dict[tuple[int, str], _Kept] = {}

    def of(self, key: str, column: LabelColumn, counts: NDArray[np.int64], node_version: int) -> NDArray[np.int64]:
        """Return int64 by id of the label `key`, fresh; `node_version` is that of the rows' `ChangeLog`."""
        source = counts if counts.base is None else counts.base
        kept = self._kept.pop((id(source), key), None)
        if kept is None or kept.source is not source or kept.node_version != node_version:
            kept = _Kept(source, node_version, counts.copy(), sum_by_domain(column, counts))
            if len(self._kept) >= _MAX_KEPT:
                del self._kept[next(iter(self._kept))]
        else:
            rows = np.flatnonzero(kept.counts != counts)
            if len(rows) * _MANY > len(counts):
                kept.counts[:], kept.sums = counts, sum_by_domain(column, counts)
            elif len(rows):
                now = counts[rows]
                np.add.at(kept.sums, column.ids[rows], now - kept.counts[rows])
                kept.counts[rows] = now
        self._kept[id(source), key] = kept
        return kept.sums.copy()
