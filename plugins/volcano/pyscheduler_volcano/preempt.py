"""The action `preempt` of Volcano: a job that lacks nodes evicts pods in its own queue.

Source: Volcano `actions/preempt`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np

from pyscheduler_batch.contract import Action, Claim
from pyscheduler_batch.disruption_budgets import sparing_first
from pyscheduler_batch.model.priority_queue import PriorityQueue
from pyscheduler_volcano.evictions import Search, evict_until, pending_tasks, reachable, starving_jobs
from pyscheduler_volcano.preempt_candidates import CandidateLimits, preempt_on_best

if TYPE_CHECKING:
    from pyscheduler_batch.contract import Job, Session, Statement, Task
    from pyscheduler_volcano.session import VolcanoSession

__all__ = ["Preempt"]


class Preempt(Action):
    """Evict tasks for starving jobs: first tasks of other jobs of the queue, then tasks of the same job.

    Nodes are tried by score, or compared by the victims that each would cost (`enableTopologyAwarePreemption`).
    Evictions for a job are kept if it is pipelined by them.
    """

    name: ClassVar[str] = "preempt"
    evicts: ClassVar[str] = "preempt"

    async def run(self, session: Session) -> None:
        """Make room for starving jobs, queue by queue."""
        session = cast("VolcanoSession", session)
        limits = CandidateLimits.of(self.arguments)
        starving = {queue: backlog for queue, backlog in starving_jobs(session).items() if backlog}
        queues = PriorityQueue(session.orders.queue_less, starving)
        while len(queues):
            queue = queues.pop()
            line = starving[queue].in_order(session)
            while (job := line.pop()) is not None:
                statement = session.statement()
                tasks = pending_tasks(session, job)
                while tasks and session.gates.job_starving(job):
                    await _preempt(session, statement, tasks.popleft(), limits, within_job=False)
                    await session.turn_amid(statement)
                if session.gates.job_pipelined(job):
                    await session.commit_in_turns(statement)
                    line.revive()
                else:
                    session.victims.note_discarded(job, self.name, statement)
                    statement.discard()
                    line.fail()
                await session.turn()
            line = starving[queue].as_listed(session)
            while (job := line.pop()) is not None:
                if await _preempt_within(session, job, limits):
                    line.revive()
                else:
                    line.fail()
                await session.turn()


async def _preempt_within(session: VolcanoSession, job: Job, limits: CandidateLimits | None) -> bool:
    """Place tasks of a job at the cost of its other tasks, until one cannot be placed; return whether any was."""
    is_any_placed = False
    for task in pending_tasks(session, job):
        statement = session.statement()
        if not await _preempt(session, statement, task, limits, within_job=True):
            statement.discard()
            break
        session.commit(statement)
        is_any_placed = True
        await session.turn()
    return is_any_placed


async def _preempt(
    session: VolcanoSession, statement: Statement, task: Task, limits: CandidateLimits | None, *, within_job: bool
) -> bool:
    """Pipeline a task on the best node where evictions, or none, make room for it.

    With `limits`, nodes are compared by their victims, and one without victims does not count.
    """
    if not task.may_preempt:
        return False
    job, books, scale = task.job, session.books, session.scale
    residents = books.residents
    own = residents.job == books.rows[job.uid]
    candidates = residents.placed & residents.preemptable
    candidates &= own if within_job else ~own & (residents.queue == job.queue_row)
    if task.uid in books.best_effort:
        candidates &= residents.best_effort
    if protected := session.victims.protected_from(job):
        candidates &= residents.exposed(protected)
    hopeful = reachable(session, task, candidates)
    if not hopeful.any():
        return False
    refused = session.refused.of(task, "preempt", within_job=within_job)
    hopeful = hopeful & ~refused
    if not hopeful.any():
        return False
    rows = np.flatnonzero(session.placer.curable(task))
    if not len(rows):
        return False
    search = Search("preempt", Claim(job, task), task, candidates, session.victims.preemptable, refused)
    if limits is not None:
        return await preempt_on_best(session, statement, search, rows, hopeful, limits)
    if np.count_nonzero(hopeful[rows]) > 1:
        rows = rows[np.argsort(-session.places.scores(task, rows), kind="stable")]
    rows = sparing_first(
        session, session.books.residents.tasks, rows[hopeful[rows]], candidates, partial(reachable, session, task)
    )
    for node in rows.tolist():

        def fits(node: int = node) -> bool:
            return (
                session.gates.allocatable(task)
                and bool(scale.fits(task.request, session.nodes.future[node]))
                and bool(session.places.feasible(task)[node])
            )

        if evict_until(session, statement, search, node, fits):
            return True
    return False
