"""Group nodes by their properties, so that a value that depends on these properties is computed once per group.

For example, nodes that offer the same resources are one group.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["split"]


def split(ids: NDArray[np.int64], apart: NDArray[np.bool_], number: int) -> tuple[NDArray[np.int64], list[int]]:
    """Set the nodes where `apart` is true apart from others of their group.

    `ids`: int64[n] in 0..number-1. Return new ids, compact again, and for each the old id times two, plus one where it
    is the group of those set apart.
    """
    keys = ids * 2 + apart
    present = np.flatnonzero(np.bincount(keys, minlength=2 * number))
    new_ids = np.zeros(2 * number, dtype=np.int64)
    new_ids[present] = np.arange(len(present))
    return new_ids[keys], present.tolist()
