"""Compare amounts of resources as Volcano does: very small differences are ignored.

Source: Volcano `api/resource_info.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pyscheduler_batch.contract import CPU, MEMORY, PODS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Amounts, ResourceAxis

__all__ = ["Scale"]


class Scale:
    """The tolerance of each column of an axis, and the columns with rules of their own.

    With an infinite tolerance a column counts nowhere.
    """

    __slots__ = ("counted", "native", "tolerance", "units")

    def __init__(
        self, axis: ResourceAxis, *, cpu: float = 0.1, memory: float = 0.1, pods: float = 0.1, other: float = 1e-4
    ) -> None:
        own = {CPU: cpu, MEMORY: memory, PODS: pods}
        #: float64[R].
        self.tolerance = np.array([own.get(name, other) for name in axis.names])
        #: bool[R]: the columns that count where only requested resources do; all but `pods`.
        self.counted = np.array([name != PODS for name in axis.names])
        #: bool[R]: cpu and memory, which every amount has.
        self.native = np.array([name in {CPU, MEMORY} for name in axis.names])
        #: float64[R]: how many of Volcano's own units make one of the axis.
        self.units = np.where(self.native | ~self.counted, 1.0, 1000.0)

    def fits(self, request: Amounts, room: Amounts) -> NDArray[np.bool_]:
        """Return bool[...]: whether `room`, float64[..., R], holds the request; only cpu, memory and requests count."""
        # Column by column: much faster than a comparison of all columns at once.
        enough = np.ones(room.shape[:-1], dtype=np.bool_)
        for column in np.flatnonzero(self.native | (request > 0)).tolist():
            enough &= request[column] - room[..., column] < self.tolerance[column]
        return enough

    def less_equal(self, left: Amounts, right: Amounts) -> bool:
        """Return whether `left` is at most `right` in all resources, within the tolerance."""
        return bool(np.all(left - right < self.tolerance))

    def within(self, used: Amounts, limit: Amounts, request: Amounts) -> bool:
        """Return whether `used` is at most `limit` in all requested resources but pods, without tolerance."""
        return not np.any((used > limit) & (request > 0) & self.counted)

    def exceeded(self, used: Amounts, limit: Amounts, request: Amounts) -> NDArray[np.bool_]:
        """Return bool[R]: the requested resources but pods in which `used` is more than `limit`."""
        over: NDArray[np.bool_] = (used > limit) & (request > 0) & self.counted
        return over

    def significant(self, amounts: Amounts) -> NDArray[np.bool_]:
        """Return bool[..., R]: which amounts are more than nothing."""
        more: NDArray[np.bool_] = amounts >= self.tolerance
        return more

    def is_empty(self, amounts: Amounts) -> bool:
        """Return whether there is nothing but pods."""
        return not np.any(self.significant(amounts) & self.counted)
