"""LeastAllocated: the emptier a node would be with the pod, the better."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pyscheduler.framework import MAX_SCORE
from pyscheduler.plugins.node_resources.resource_allocation import Allocation, weighted_average

__all__ = ["least_allocated"]


def least_allocated(resources: Sequence[Allocation], size: int) -> NDArray[np.int64]:
    """Score int64[size] by the free percentage, averaged over the resources by weight; 0 where one is overdrawn."""
    return weighted_average(
        [
            (
                np.maximum(each.allocatable - each.requested, 0) * MAX_SCORE // np.maximum(each.allocatable, 1),
                each.allocatable != 0,
                each.weight,
            )
            for each in resources
        ],
        size,
    )
