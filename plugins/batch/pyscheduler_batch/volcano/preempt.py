"""preempt: make room within a queue for jobs below their minimum. Source: Volcano `actions/preempt`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np

from pyscheduler.batch.contract import Action, Claim
from pyscheduler_batch.priority_queue import PriorityQueue
from pyscheduler_batch.volcano.evictions import Search, eligible_jobs, evict_until, pending_tasks, reachable

if TYPE_CHECKING:
    from collections import deque

    from pyscheduler.batch.session import Session
    from pyscheduler.batch.statement import Statement
    from pyscheduler.batch.tasks import Job, Task
    from pyscheduler_batch.volcano.session import VolcanoSession

__all__ = ["Preempt"]


class Preempt(Action):
    """Evict tasks of other jobs of the queue, then, for each starving job, tasks of its own.

    Nodes are tried by score. Evictions for a job are kept if it is pipelined by them.
    """

    name: ClassVar[str] = "preempt"

    async def run(self, session: Session) -> None:
        """Make room for starving jobs, queue by queue."""
        session = cast("VolcanoSession", session)
        starving: dict[int, list[Job]] = {}
        tasks: dict[str, deque[Task]] = {}
        for job in eligible_jobs(session):
            if session.job_starving(job):
                starving.setdefault(job.queue_row, []).append(job)
                tasks[job.uid] = pending_tasks(session, job)
        waiting = {queue: PriorityQueue(session.job_less, jobs) for queue, jobs in starving.items()}
        queues = PriorityQueue(session.queue_less, starving)
        while len(queues):
            queue = queues.pop()
            while len(waiting[queue]):
                job = waiting[queue].pop()
                statement = session.statement()
                while tasks[job.uid] and session.job_starving(job):
                    _preempt(session, statement, tasks[job.uid].popleft(), within_job=False)
                if session.job_pipelined(job):
                    session.commit(statement)
                else:
                    session.note_discarded(job, self.name, statement)
                    statement.discard()
                await session.turn()
            for job in starving[queue]:
                _preempt_within(session, job)
                await session.turn()


def _preempt_within(session: VolcanoSession, job: Job) -> None:
    """Place tasks of a job at the cost of its other tasks, until one cannot be placed."""
    for task in pending_tasks(session, job):
        statement = session.statement()
        if not _preempt(session, statement, task, within_job=True):
            statement.discard()
            return
        session.commit(statement)


def _preempt(session: VolcanoSession, statement: Statement, task: Task, *, within_job: bool) -> bool:
    """Pipeline a task on the best node where evictions, or none, make room for it."""
    if not task.may_preempt:
        return False
    job, books, scale = task.job, session.books, session.scale
    residents = books.residents
    own = residents.job == books.rows[job.uid]
    candidates = residents.placed & residents.preemptable
    candidates &= own if within_job else ~own & (residents.queue == job.queue_row)
    if task.uid in books.best_effort:
        candidates &= residents.best_effort
    if protected := session.protected(job):
        candidates &= residents.exposed(protected)
    refused = session.refused.of(task, "preempt", within_job=within_job)
    hopeful = reachable(session, task, candidates) & ~refused
    if not hopeful.any():
        return False
    rows = np.flatnonzero(session.placer.curable(task))
    if not len(rows):
        return False
    rows = rows[np.argsort(-session.scores(task, rows), kind="stable")]
    rows = rows[hopeful[rows]]
    search = Search("preempt", Claim(job, task), task, candidates, session.preemptable, refused)
    for node in rows.tolist():

        def fits(node: int = node) -> bool:
            return (
                session.allocatable(task)
                and bool(scale.fits(task.request, session.nodes.future[node]))
                and bool(session.feasible(task)[node])
            )

        if evict_until(session, statement, search, node, fits):
            return True
    return False
