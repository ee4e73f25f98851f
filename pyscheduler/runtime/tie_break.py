"""Choose among nodes with equal scores: at random, or the first or last by name.

Differs from kube-scheduler 1.36, which breaks ties at random only if an extender scored the nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import random

    from numpy.typing import NDArray

    from pyscheduler.cache.view import NodeView
    from pyscheduler.framework.nodes import Nodes

__all__ = ["TieBreak", "Ties"]

Ties: TypeAlias = Literal["random", "first", "last"]


class TieBreak:
    """Chooses among rows of a snapshot. `rng` draws for `random`; the same seed gives the same choices."""

    __slots__ = ("_epoch", "_ranks", "rng", "ties")

    def __init__(self, rng: random.Random, ties: Ties = "random") -> None:
        self.rng = rng
        self.ties = ties
        #: int64[n]: by row of the snapshot the place of its name, counted from the preferred end; valid in one epoch.
        self._ranks = np.empty(0, dtype=np.int64)
        self._epoch = -1

    def choose(self, places: NDArray[np.int64], nodes: Nodes, view: NodeView) -> int:
        """Return one of the `places` in `nodes`, which are some nodes of `view`."""
        if len(places) == 1:
            return int(places[0])
        if self.ties == "random":
            return int(places[self.rng.randrange(len(places))])
        return int(places[np.argmin(self._ranked(view)[nodes.rows[places]])])

    def order(self, rows: NDArray[np.int64], view: NodeView) -> NDArray[np.int64]:
        """Return the positions of `rows`, the preferred one last."""
        if self.ties == "random":
            return np.random.default_rng(self.rng.getrandbits(64)).permutation(len(rows))
        return np.argsort(-self._ranked(view)[rows])

    def _ranked(self, view: NodeView) -> NDArray[np.int64]:
        epoch = view.changes.epoch
        if epoch != self._epoch or len(view) != len(self._ranks):
            by_name = sorted(range(len(view)), key=view.name, reverse=self.ties == "last")
            self._ranks = np.empty(len(by_name), dtype=np.int64)
            self._ranks[by_name] = np.arange(len(by_name))
            self._epoch = epoch
        return self._ranks
