"""RequestedToCapacityRatio: the score of each resource is a line over its utilisation that the profile draws.

A resource whose score is 0 does not count in the average, neither do its points nor its weight; the average is rounded,
half away from zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pyscheduler.framework import MAX_SCORE
from pyscheduler.framework.scoring import broken_linear
from pyscheduler.plugins.node_resources.resource_allocation import Allocation, Scorer

__all__ = ["requested_to_capacity_ratio"]

_FULL: Final = 100
#: The shape of a profile gives scores of 0..10.
_SCALE: Final = MAX_SCORE // 10
_HALF: Final = 0.5


def requested_to_capacity_ratio(shape: Sequence[tuple[int, int]]) -> Scorer:
    """Return the scorer for `shape`: points (utilisation in percent, score of 0..10), utilisation rising."""
    scaled = [(utilization, score * _SCALE) for utilization, score in shape]
    # Utilisation is a whole number of percent, so that the line is a table.
    line = np.array([broken_linear(scaled, percent) for percent in range(_FULL + 1)], dtype=np.int64)

    def score(resources: Sequence[Allocation], size: int) -> NDArray[np.int64]:
        total = np.zeros(size, dtype=np.int64)
        weights = np.zeros(size, dtype=np.int64)
        for each in resources:
            percent = np.minimum(each.requested, each.allocatable) * _FULL // np.maximum(each.allocatable, 1)
            scores = line[percent]
            scores[each.allocatable == 0] = 0
            total += scores * each.weight
            weights += (scores > 0) * each.weight
        average = total.astype(np.float64) / np.maximum(weights, 1).astype(np.float64)
        whole = np.trunc(average)
        return (whole + (average - whole >= _HALF)).astype(np.int64)

    return score
