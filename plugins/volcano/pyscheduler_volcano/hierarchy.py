"""The tree of queues and jobs for Volcano's plugin `drf` (dominant resource fairness).

Source: Volcano `plugins/drf`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Amounts
    from pyscheduler_volcano.amounts import Scale

__all__ = ["HierarchyTree", "TreeState"]

#: Shares that differ by less are equal for `may_take`.
_SHARE_DELTA: Final = 1e-9


class TreeState(NamedTuple):
    """The figures of each node of the tree in some situations: float64[K, S], and bool[K, S]."""

    share: NDArray[np.float64]
    saturated: NDArray[np.bool_]


class HierarchyTree:
    """The nodes of the tree: row 0 is the root, then the inner nodes by depth and age, and the jobs by their row."""

    def __init__(self, paths: Sequence[tuple[str, str]], total: Amounts, request: Amounts, scale: Scale) -> None:
        """Build the tree.

        `paths` are the annotations of each job's queue: path, such as `root/eng/dev`, and weights, such as `1/3/2`.
        `request`: float64[J, R], what all tasks of each job request. The first job of a path sets its weights; a weight
        below 1 or one that is no number counts as 1.
        """
        self._scale = scale
        self._total = total
        self._request = request
        self.paths: list[str] = ["root"]
        weight = [1.0]
        parent = [-1]
        depth = [0]
        self._rows: dict[str, list[int]] = {}
        rows: dict[str, int] = {"": 0}
        above: list[int] = []
        for path, weights in paths:
            parts, numbers = path.split("/"), weights.split("/")
            key, at = "", 0
            line = [0]
            for level, part in enumerate(parts[1:], start=1):
                key = f"{key}/{part}"
                if key not in rows:
                    rows[key] = len(self.paths)
                    self.paths.append(f"root{key}")
                    weight.append(_weight(numbers[level] if level < len(numbers) else ""))
                    parent.append(at)
                    depth.append(level)
                at = rows[key]
                line.append(at)
            self._rows[path] = line
            above.append(at)
        #: Row of the first job; the jobs follow in their order.
        self.first_job = len(self.paths)
        self.weight = np.array(weight + [1.0] * len(above))
        self.parent = np.array(parent + above, dtype=np.int64)
        depths = np.array(depth + [depth[row] + 1 for row in above], dtype=np.int64)
        self._levels = [np.flatnonzero(depths == level) for level in range(1, int(depths.max()) + 1)][::-1]

    def shares(self, allocated: Amounts) -> NDArray[np.float64]:
        """Return float64[...]: the dominant share of each row of `allocated`, float64[..., R]."""
        counts = self._scale.significant(self._total)
        parts = allocated[..., counts] / self._total[counts]
        shares: NDArray[np.float64] = np.maximum(parts.max(axis=-1, initial=0.0), 0.0)
        return shares

    def states(self, job_allocated: Amounts) -> TreeState:
        """Return share and saturation of each node in some situations; `job_allocated`: float64[J, S, R].

        A job is saturated if it has all it requests of some resource that it holds, or requests of one that it holds
        and that is used up. An inner node is saturated if all its children are. It holds what its saturated children
        hold, and of the others as much as the one with the smallest share, in the proportions of each.
        """
        size, first, situations = len(self.parent), self.first_job, job_allocated.shape[1]
        allocated = np.zeros((size, *job_allocated.shape[1:]))
        allocated[first:] = job_allocated
        share = np.zeros((size, situations))
        share[first:] = self.shares(job_allocated)
        saturated = np.ones((size, situations), dtype=np.bool_)
        saturated[first:] = self._job_saturated(job_allocated)
        smallest = np.ones((size, situations))
        # A job that holds nothing adds nothing, but it is not saturated.
        holds = np.ones(size, dtype=np.bool_)
        holds[first:] = job_allocated.any(axis=(1, 2))
        saturated[self.parent[~holds]] = False
        for level in self._levels:
            rows = level[holds[level]]
            inner, above = rows[rows < first], self.parent[rows]
            # The children of this level's inner nodes are one level deeper, so they are done.
            share[inner] = self.shares(allocated[inner])
            own = share[rows]
            scaled = (own != 0) & ~saturated[rows]
            np.minimum.at(smallest, above, np.where(scaled, own, np.inf))
            factor = np.where(own != 0, 1.0, 0.0)
            np.divide(smallest[above], own, out=factor, where=scaled)
            np.add.at(allocated, above, allocated[rows] * factor[..., None])
            np.logical_and.at(saturated, above, saturated[rows])
        share[0] = self.shares(allocated[0])
        return TreeState(share, saturated)

    def _job_saturated(self, allocated: Amounts) -> NDArray[np.bool_]:
        request = self._request[:, None]
        holds = self._scale.significant(allocated) & (request != 0)
        is_wanted = self._scale.significant(self._total) & (allocated.sum(axis=0) < self._total)
        saturated: NDArray[np.bool_] = np.any(holds & ((allocated >= request) | ~is_wanted), axis=-1)
        return saturated

    def compare(self, state: TreeState, left: str, right: str, situation: int = 0) -> float:
        """Compare two queue paths level by level: unsaturated first, then the smaller share by weight."""
        share, saturated = state.share[:, situation], state.saturated[:, situation]
        for first, second in zip(self._rows.get(left, [0]), self._rows.get(right, [0]), strict=False):
            if saturated[first] != saturated[second]:
                return 1.0 if saturated[first] else -1.0
            difference = share[first] / self.weight[first] - share[second] / self.weight[second]
            if difference != 0:
                return float(difference)
        return 0.0

    def may_take(self, state: TreeState, left: str, right: str, situation: int = 0) -> bool:
        """Return True if the left path has at most the weighted share of the right one, where the paths part."""
        share = state.share[:, situation]
        for first, second in zip(self._rows.get(left, [0]), self._rows.get(right, [0]), strict=False):
            if first != second:
                return bool(share[first] / self.weight[first] <= share[second] / self.weight[second] + _SHARE_DELTA)
        return False


def _weight(text: str) -> float:
    try:
        return max(1.0, float(text))  # in this order NaN counts as 1, too
    except ValueError:
        return 1.0
