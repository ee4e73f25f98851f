"""The action `reclaim` of kube-batch: evict pods of other queues to make room for a pending pod.

Source: kube-batch `actions/reclaim`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np

from pyscheduler_batch.contract import Action, Claim, TaskState
from pyscheduler_batch.disruption_budgets import spared_of, sparing_first
from pyscheduler_batch.model.priority_queue import PriorityQueue
from pyscheduler_kube_batch.evictions import enough_victims, rich_nodes
from pyscheduler_volcano.evictions import pending_tasks
from pyscheduler_volcano.reclaim import OVERUSED

if TYPE_CHECKING:
    from pyscheduler_batch.contract import Job, Session, Task
    from pyscheduler_kube_batch.session import KubeBatchSession

__all__ = ["Reclaim"]


class Reclaim(Action):
    """Evict tasks of other queues for one task at a time: a task of the first queue that is not overused.

    A queue whose turn placed nothing is out. Each eviction counts at once; the original wrote it at once, too.
    """

    name: ClassVar[str] = "reclaim"
    evicts: ClassVar[str] = "reclaim"

    async def run(self, session: Session) -> None:
        """Make room, one task at a time."""
        session = cast("KubeBatchSession", session)
        waiting: dict[int, PriorityQueue[Job]] = {}
        queues: PriorityQueue[int] = PriorityQueue(session.orders.queue_less)
        for job in session.books.jobs:
            if job.queue_row not in waiting:
                waiting[job.queue_row] = PriorityQueue(session.orders.job_less)
                queues.push(job.queue_row)
            if job.counts[TaskState.PENDING]:
                waiting[job.queue_row].push(job)
        while len(queues):
            queue = queues.pop()
            if session.gates.overused(queue):
                while session.plan_log is not None and len(waiting[queue]):
                    session.victims.note_gate(waiting[queue].pop(), self.name, OVERUSED)
                continue
            if not len(waiting[queue]):
                continue
            tasks = pending_tasks(session, waiting[queue].pop())
            if tasks and _reclaim(session, tasks[0]):
                queues.push(queue)
            await session.turn()


def _reclaim(session: KubeBatchSession, task: Task) -> bool:
    """Pipeline a task on the first node whose victims of other queues hold what it requests."""
    if session.is_live and not task.may_preempt:
        return False
    residents = session.books.residents
    candidates = residents.running & (residents.queue != task.job.queue_row)
    if protected := session.victims.protected_from(task.job):
        candidates &= residents.exposed(protected)
    refused = session.refused.of(task, "reclaim")
    hopeful = rich_nodes(session, task, candidates) & ~refused
    if not hopeful.any():
        return False
    rows = np.flatnonzero(session.accepted(task) & hopeful)
    rows = sparing_first(session, session.books.residents.tasks, rows, candidates, partial(rich_nodes, session, task))
    claim = Claim(task.job, task)
    for node in rows.tolist():
        victims = enough_victims(session, claim, node, candidates, session.victims.reclaimable)
        if not victims:
            refused[node] = True
            continue
        statement = session.statement()
        freed = np.zeros_like(task.request)
        spared = spared_of(session, victims)
        for victim in sorted(victims, key=lambda each: each.uid in spared) if spared else victims:
            statement.evict(victim, action="reclaim", by=task.job)
            freed = freed + victim.request
            if session.scale.fits(task.request, freed):
                break
        statement.pipeline(task, node)
        session.commit(statement)
        return True
    return False
