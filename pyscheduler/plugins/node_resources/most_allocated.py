"""MostAllocated: the fuller a node would be with the pod, the better; packs pods onto few nodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pyscheduler.framework import MAX_SCORE
from pyscheduler.plugins.node_resources.resource_allocation import Allocation, weighted_average

__all__ = ["most_allocated"]


def most_allocated(resources: Sequence[Allocation], size: int) -> NDArray[np.int64]:
    """Score int64[size] by the used percentage, averaged over the resources by weight; an overdrawn one is 100."""
    return weighted_average(
        [
            (
                np.minimum(each.requested, each.allocatable) * MAX_SCORE // np.maximum(each.allocatable, 1),
                each.allocatable != 0,
                each.weight,
            )
            for each in resources
        ],
        size,
    )
