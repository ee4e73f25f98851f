"""The action `reclaim` of Volcano: evict pods of other queues to make room for waiting jobs.

Source: Volcano `actions/reclaim`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np

from pyscheduler_batch.contract import Action, Claim, Refusal
from pyscheduler_batch.disruption_budgets import sparing_first
from pyscheduler_batch.model.priority_queue import PriorityQueue
from pyscheduler_volcano.evictions import Search, evict_until, pending_tasks, reachable, starving_jobs

if TYPE_CHECKING:
    from pyscheduler_batch.contract import Session, Statement, Task
    from pyscheduler_volcano.session import VolcanoSession

__all__ = ["MAY_NOT", "OVERUSED", "Reclaim"]

OVERUSED = Refusal("QueueOverused", "the queue holds its share already, so that it may not take from others")
MAY_NOT = Refusal("QueueMayNotReclaim", "with this job the queue would hold more than it may take from others")


class Reclaim(Action):
    """Evict running tasks of other queues for starving jobs; keep the evictions if the job is then pipelined.

    Whether a queue is overused is asked once; then all its starving jobs follow. Nodes are tried in their order.
    """

    name: ClassVar[str] = "reclaim"
    evicts: ClassVar[str] = "reclaim"

    async def run(self, session: Session) -> None:
        """Make room for starving jobs, queue by queue."""
        session = cast("VolcanoSession", session)
        starving = starving_jobs(session)
        queues = PriorityQueue(session.orders.queue_less, starving)
        while len(queues):
            queue = queues.pop()
            line = starving[queue].in_order(session)
            if session.gates.overused(queue):
                while session.plan_log is not None and (job := line.pop()) is not None:
                    session.victims.note_gate(job, self.name, OVERUSED)
                continue
            while (job := line.pop()) is not None:
                statement = session.statement()
                tasks = pending_tasks(session, job)
                while tasks and session.gates.job_starving(job):
                    await session.turn_amid(statement)
                    task = tasks.popleft()
                    if not task.may_preempt:
                        continue
                    if session.gates.may_reclaim(queue, Claim(job, task)):
                        _reclaim(session, statement, task)
                    else:
                        session.victims.note_gate(job, self.name, MAY_NOT)
                if session.gates.job_pipelined(job):
                    await session.commit_in_turns(statement)
                    line.revive()
                else:
                    session.victims.note_discarded(job, self.name, statement)
                    statement.discard()
                    line.fail()
                await session.turn()


def _reclaim(session: VolcanoSession, statement: Statement, task: Task) -> bool:
    """Pipeline a task on the first node with candidates where their eviction makes room."""
    residents = session.books.residents
    candidates = residents.running & residents.preemptable & (residents.queue != task.job.queue_row)
    candidates &= session.queues.reclaimable[residents.queue]
    if protected := session.victims.protected_from(task.job):
        candidates &= residents.exposed(protected)
    has_candidate = np.zeros(len(session.nodes), dtype=np.bool_)
    has_candidate[residents.node[candidates]] = True
    hopeful = has_candidate & reachable(session, task, candidates)
    if not hopeful.any():
        return False
    refused = session.refused.of(task, "reclaim")
    hopeful &= ~refused
    if not hopeful.any():
        return False
    rows = np.flatnonzero(hopeful & session.placer.curable(task))
    rows = sparing_first(session, session.books.residents.tasks, rows, candidates, partial(reachable, session, task))
    search = Search("reclaim", Claim(task.job, task), task, candidates, session.victims.reclaimable, refused)
    for node in rows.tolist():

        def fits(node: int = node) -> bool:
            return bool(session.scale.fits(task.request, session.nodes.future[node]))

        if evict_until(session, statement, search, node, fits):
            return True
    return False
