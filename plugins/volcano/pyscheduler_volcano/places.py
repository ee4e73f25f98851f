"""Find the nodes on which a task (pod) fits in a scheduling round, and the best of them.

Source: Volcano `framework/session_plugins.go`, `util/scheduler_helper.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pyscheduler_batch import contract
from pyscheduler_batch.contract import PODS
from pyscheduler_batch.model.answers import mask_of, scores_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Task
    from pyscheduler_volcano.tier_session import TierSession

__all__ = ["Places"]


class Places:
    """The nodes that take a task. Answers that depend only on amounts are kept for each node until it changes."""

    def __init__(self, session: TierSession) -> None:
        self._session = session

    def fits_now(self, task: Task) -> NDArray[np.bool_]:
        """Return bool[N]: the nodes whose idle room holds the task; not to be changed."""
        request, idle = task.request, self._session.nodes.idle
        fits: NDArray[np.bool_] = self._session.rows.get(
            ("now", request.tobytes()), lambda rows: self._session.scale.fits(request, idle[rows])
        )
        return fits

    def fits_later(self, task: Task) -> NDArray[np.bool_]:
        """Return bool[N]: the nodes that will have room for the task; not to be changed."""
        request, nodes = task.request, self._session.nodes

        def compute(rows: NDArray[np.int64]) -> NDArray[np.bool_]:
            room = nodes.idle[rows] + nodes.releasing[rows] - nodes.pipelined[rows]
            return self._session.scale.fits(request, room)

        fits: NDArray[np.bool_] = self._session.rows.get(("later", request.tobytes()), compute)
        return fits

    def has_place(self) -> NDArray[np.bool_]:
        """Return bool[N]: the nodes that take one more pod; not to be changed.

        A pod that was leaving when the session began keeps its place until it is gone. A pod that the session evicts
        frees its place at once. Source: Volcano `plugins/predicates`.
        """
        nodes, residents, pods = self._session.nodes, self._session.books.residents, self._session.axis.index[PODS]

        def compute(rows: NDArray[np.int64]) -> NDArray[np.bool_]:
            free = nodes.idle[rows, pods] - nodes.pipelined[rows, pods]
            if (free < 1).any():
                free += np.bincount(residents.node[~residents.placed], minlength=len(nodes))[rows]
            return np.asarray(free >= 1, dtype=np.bool_)

        has_place: NDArray[np.bool_] = self._session.rows.get("place", compute)
        return has_place

    def bindable(self, task: Task, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return those of the feasible nodes `rows` that accept the task while leaving tasks are still there."""
        nodes = self._session.nodes
        leaving: NDArray[np.bool_] = self._session.rows.get(
            "leaving", lambda some: np.any(nodes.releasing[some] != 0, axis=1)
        )[rows]
        if not leaving.any():
            return rows
        accepted: NDArray[np.bool_] = ~leaving
        for at in np.flatnonzero(leaving).tolist():
            accepted[at] = self._session.placer.feasible_now(task, int(rows[at]))
        kept: NDArray[np.int64] = rows[accepted]
        return kept

    def feasible(self, task: Task) -> NDArray[np.bool_]:
        """Return bool[N]: the nodes that all predicates accept; amounts are not compared."""
        accepted = np.ones(len(self._session.nodes), dtype=np.bool_)
        for tier in self._session.by_tier(contract.Predicate, "enablePredicate"):
            for policy in tier:
                mask = policy.filter_nodes(task)
                if mask is not None:
                    accepted &= mask_of(mask, len(accepted), policy.filter_nodes)
        return accepted

    def scores(self, task: Task, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return float64[n]: the sum of the scores of these nodes."""
        total = np.zeros(len(rows))
        for tier in self._session.by_tier(contract.NodeOrder, "enableNodeOrder"):
            for policy in tier:
                scores = policy.score_nodes(task, rows)
                if scores is not None:
                    total += scores_of(scores, len(rows), policy.score_nodes)
        return total

    def best_node(self, task: Task, rows: NDArray[np.int64]) -> int:
        """Return the row with the best score, a random one of equals; a single row is not scored."""
        if len(rows) == 1:
            return int(rows[0])
        scores = self.scores(task, rows)
        best = np.flatnonzero(scores == scores.max())
        return int(rows[best[0] if len(best) == 1 else best[self._session.rng.randrange(len(best))]])
