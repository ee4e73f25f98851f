"""The action `preempt` of kube-batch: evict pods to make room for pending pods of the same queue or job.

Source: kube-batch `actions/preempt`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np

from pyscheduler_batch.contract import Action, Claim, TaskState
from pyscheduler_batch.disruption_budgets import sparing_first
from pyscheduler_batch.model.priority_queue import PriorityQueue
from pyscheduler_kube_batch.evictions import enough_victims, rich_nodes
from pyscheduler_volcano.evictions import pending_tasks

if TYPE_CHECKING:
    from collections import deque

    from pyscheduler_batch.contract import Job, Session, Statement, Task
    from pyscheduler_kube_batch.session import KubeBatchSession

__all__ = ["Preempt"]


class Preempt(Action):
    """Evict tasks for jobs with pending tasks: first tasks of other jobs of the queue, then tasks of the same job.

    Victims alone must hold what a task requests. Evictions for a job are kept if it is pipelined by them.
    """

    name: ClassVar[str] = "preempt"
    evicts: ClassVar[str] = "preempt"

    async def run(self, session: Session) -> None:
        """Make room, queue by queue."""
        session = cast("KubeBatchSession", session)
        waiting: dict[int, PriorityQueue[Job]] = {}
        wanting: list[Job] = []
        tasks: dict[str, deque[Task]] = {}
        for job in session.books.jobs:
            jobs = waiting.setdefault(job.queue_row, PriorityQueue(session.orders.job_less))
            if job.counts[TaskState.PENDING]:
                jobs.push(job)
                wanting.append(job)
                tasks[job.uid] = pending_tasks(session, job)
        for jobs in waiting.values():
            while len(jobs):
                job = jobs.pop()
                if await _preempt_others(session, job, tasks[job.uid]):
                    jobs.push(job)
                await session.turn()
            for job in wanting:
                await _preempt_within(session, tasks[job.uid])
                await session.turn()


async def _preempt_others(session: KubeBatchSession, job: Job, tasks: deque[Task]) -> bool:
    """Pipeline tasks until the job is pipelined; undo all if it is not; return True if it should be tried again."""
    statement = session.statement()
    is_assigned = False
    while tasks:
        is_assigned |= _preempt(session, statement, tasks.popleft(), within_job=False)
        if session.gates.job_pipelined(job):
            await session.commit_in_turns(statement)
            break
        await session.turn_amid(statement)
    if session.gates.job_pipelined(job):
        return is_assigned
    session.victims.note_discarded(job, "preempt", statement)
    statement.discard()
    return False


async def _preempt_within(session: KubeBatchSession, tasks: deque[Task]) -> None:
    while tasks:
        statement = session.statement()
        is_assigned = _preempt(session, statement, tasks.popleft(), within_job=True)
        session.commit(statement)
        if not is_assigned:
            return
        await session.turn()


def _preempt(session: KubeBatchSession, statement: Statement, task: Task, *, within_job: bool) -> bool:
    """Pipeline a task on the best node whose victims hold what it requests."""
    if session.is_live and not task.may_preempt:
        return False
    residents, books = session.books.residents, session.books
    own = residents.job == books.rows[task.job.uid]
    candidates = residents.running & (own if within_job else ~own & (residents.queue == task.job.queue_row))
    if protected := session.victims.protected_from(task.job):
        candidates &= residents.exposed(protected)
    refused = session.refused.of(task, "preempt", within_job=within_job)
    hopeful = rich_nodes(session, task, candidates) & ~refused
    if not hopeful.any():
        return False
    rows = np.flatnonzero(session.accepted(task))
    if not len(rows):
        return False
    rows = rows[np.argsort(-session.places.scores(task, rows), kind="stable")]
    rows = sparing_first(session, session.books.residents.tasks, rows, candidates, partial(rich_nodes, session, task))
    claim = Claim(task.job, task)
    for node in rows[hopeful[rows]].tolist():
        victims = enough_victims(session, claim, node, candidates, session.victims.preemptable)
        if not victims:
            refused[node] = True
            continue
        order = session.victims.queue(victims, claim)
        freed = np.zeros_like(task.request)
        while len(order):
            victim = order.pop()
            statement.evict(victim, action="preempt", by=task.job)
            freed = freed + victim.request
            if session.scale.fits(task.request, freed):
                break
        statement.pipeline(task, node)
        return True
    return False
