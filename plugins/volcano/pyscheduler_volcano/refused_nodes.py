"""Remember nodes on which evictions cannot make room for a task (pod), so that equal tasks later skip these nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pyscheduler_batch import contract
from pyscheduler_volcano.job_facts import priority_of

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Task
    from pyscheduler_volcano.session import VolcanoSession

__all__ = ["RefusedNodes"]


class RefusedNodes:
    """Masks over nodes by claim; a listener that forgets all of them when a task changes its state.

    Policies of others may look at anything, so with one that chooses victims nothing is kept.
    """

    def __init__(self, session: VolcanoSession) -> None:
        self._session = session
        self._masks: dict[Hashable, NDArray[np.bool_]] = {}
        choosing = (contract.Preemptable, contract.Reclaimable)
        self._keeps = all(
            session.is_own(policy) for role in choosing for tier in session.policies(role) for policy in tier
        )

    def moved(self, *_: object) -> None:
        """Forget all masks."""
        if self._masks:
            self._masks.clear()

    def of(self, task: Task, action: str, *, within_job: bool = False) -> NDArray[np.bool_]:
        """Return bool[N]: the refused nodes; the caller adds the nodes that it finds."""
        key = self._key(task, action, within_job=within_job) if self._keeps else None
        mask = self._masks.get(key) if key is not None else None
        if mask is None:
            mask = np.zeros(len(self._session.nodes), dtype=np.bool_)
            if key is not None:
                self._masks[key] = mask
        return mask

    def _key(self, task: Task, action: str, *, within_job: bool) -> Hashable:
        job, books = task.job, self._session.books
        row = books.rows[job.uid]
        # The candidates depend on the job itself if some of them are its own.
        is_itself = within_job or bool(np.any(books.residents.job == row))
        return (
            action,
            job.uid if is_itself else "",
            priority_of(task) if within_job else 0,
            job.queue_row,
            job.priority,
            task.uid in books.best_effort,
            task.request.tobytes(),
            books.allocated[row].tobytes(),
            books.total_request[row].tobytes(),
            self._session.victims.protected_from(job),
        )
