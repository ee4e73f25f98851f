"""The actions `next` and `overdue`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from deadline_policy.policy import ANNOTATION, deadline_of
from pyscheduler_batch.contract import ALLOCATED, Action, TaskState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyscheduler_batch.contract import Job, Session, Statement, Task

__all__ = ["Next", "Overdue"]


class Next(Action):
    """Place the waiting jobs as wholes, the one whose deadline is next first.

    Argument: `annotation`, as the policy's.
    """

    name: ClassVar[str] = "next"
    argument_names = ("annotation",)
    # The step of `kubectl queue explain` that shows the reason.
    steps: ClassVar = {"NoRoom": "nodes"}

    async def run(self, session: Session) -> None:
        """Place each waiting job as a whole, or change nothing for it."""
        annotation = self.arguments.get("annotation", ANNOTATION)
        waiting = [job for job in session.jobs.values() if job.counts[TaskState.PENDING]]
        for job in sorted(waiting, key=lambda each: (deadline_of(each, annotation), each.created, each.uid)):
            statement = session.statement()
            for task in [task for task in job.tasks.values() if task.state is TaskState.PENDING]:
                rows = np.flatnonzero(session.placer.feasible(task) & session.nodes.fits_now(task.request))
                if not len(rows):
                    session.record(job, "NoRoom", f"no node has room for {task.key}")
                    statement.discard()
                    break
                statement.allocate(task, int(rows[0]))
            else:
                session.commit(statement)
            await session.turn()


class Overdue(Action):
    """Evict jobs that have missed their deadline for jobs of their queue that have not.

    Argument: `annotation`, as the policy's.
    """

    name: ClassVar[str] = "overdue"
    argument_names = ("annotation",)

    def __init__(self, arguments: Mapping[str, str] | None = None) -> None:
        super().__init__(arguments)
        self._annotation = self.arguments.get("annotation", ANNOTATION)

    async def run(self, session: Session) -> None:
        """Place each waiting job as a whole, or change nothing for it."""
        overdue = [job for job in session.jobs.values() if self._is_overdue(job, session.now)]
        waiting = [job for job in session.jobs.values() if job.counts[TaskState.PENDING]] if overdue else []
        for job in waiting:
            if not self._is_overdue(job, session.now):
                statement = session.statement()
                if self._place(session, statement, job, self._victims(session, job, overdue)):
                    session.commit(statement)
                else:
                    statement.discard()
            await session.turn()

    def _is_overdue(self, job: Job, now: float) -> bool:
        return deadline_of(job, self._annotation) < now

    def _victims(self, session: Session, claimant: Job, overdue: Sequence[Job]) -> list[list[Task]]:
        """Return the tasks of each job that may be evicted. Nobody checks what an action evicts."""
        protected = session.protected(claimant)
        jobs = (job for job in overdue if job.queue_row == claimant.queue_row and job.preemptible)
        tasks = (
            [task for task in job.tasks.values() if task.state in ALLOCATED] for job in jobs if job.uid not in protected
        )
        return [found for found in tasks if found and not any(task.critical for task in found)]

    def _place(self, session: Session, statement: Statement, job: Job, victims: list[list[Task]]) -> bool:
        """Promise nodes to the pending tasks of a job; return False if there is no room for all."""
        has_evicted = False
        for task in [task for task in job.tasks.values() if task.state is TaskState.PENDING]:
            while (row := _row(session, task)) < 0:
                if not victims:
                    return False
                for victim in victims.pop():
                    statement.evict(victim, action=self.name, by=job)
                has_evicted = True
            statement.pipeline(task, row)
        return has_evicted


def _row(session: Session, task: Task) -> int:
    """Return the first node (a row) that has room for a task once its evicted pods are gone, or -1."""
    rows = np.flatnonzero(session.placer.feasible(task) & session.nodes.fits_later(task.request))
    return int(rows[0]) if len(rows) else -1
