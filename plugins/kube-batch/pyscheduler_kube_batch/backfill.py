"""The action `backfill` of kube-batch: place pods that request nothing.

Source: kube-batch `actions/backfill`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np

from pyscheduler_batch.contract import Action, TaskState

if TYPE_CHECKING:
    from pyscheduler_batch.contract import Session
    from pyscheduler_kube_batch.session import KubeBatchSession

__all__ = ["Backfill"]


class Backfill(Action):
    """Place tasks that request nothing on the first node that accepts them; jobs have no order."""

    name: ClassVar[str] = "backfill"

    async def run(self, session: Session) -> None:
        """Place the best-effort tasks."""
        session = cast("KubeBatchSession", session)
        for job in session.books.jobs:
            for task in list(job.tasks.values()):
                if task.state == TaskState.PENDING and task.uid in session.books.best_effort:
                    rows = session.places.bindable(task, np.flatnonzero(session.places.feasible(task)))
                    if len(rows):
                        session.bind_on(task, int(rows[0]))
                    else:
                        session.note_unfit(task)
            await session.turn()
