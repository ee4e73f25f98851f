"""The action `enqueue`: set the phase of a pod group to `Inqueue` if plugins such as `overcommit` admit its job.

Volcano's controllers create the pods of a job only after its group has this phase.

Source: Volcano `actions/enqueue`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from pyscheduler_batch.contract import Action
from pyscheduler_batch.model.priority_queue import PriorityQueue
from pyscheduler_volcano.job_facts import is_pending

if TYPE_CHECKING:
    from pyscheduler_batch.contract import Job, Session
    from pyscheduler_volcano.session import VolcanoSession

__all__ = ["Enqueue"]


class Enqueue(Action):
    """Admit jobs in order: set the phase of their groups to `Inqueue`; without `minResources`, admit a job at once."""

    name: ClassVar[str] = "enqueue"

    async def run(self, session: Session) -> None:
        """Set the phase of the jobs that are admitted to Inqueue."""
        session = cast("VolcanoSession", session)
        queues: PriorityQueue[int] = PriorityQueue(session.orders.queue_less)
        waiting: dict[int, list[Job]] = {}
        for job in session.grouped()[0]:
            if job.queue_row not in waiting:
                waiting[job.queue_row] = []
                queues.push(job.queue_row)
            if is_pending(job):
                waiting[job.queue_row].append(job)
        for jobs in waiting.values():
            # No key changes here. Comparisons of jobs in a heap would cost more than all else with many groups.
            jobs.sort(key=lambda job: (session.orders.order_key(job), job.created, job.uid), reverse=True)
            await session.turn()
        while len(queues):
            queue = queues.pop()
            if not waiting[queue]:
                continue
            job = waiting[queue].pop()
            if _is_admitted(session, job):
                session.gates.job_enqueued(job)
                job.phase = "Inqueue"
                session.memory.note(job.uid)
            queues.push(queue)
            await session.turn()


def _is_admitted(session: VolcanoSession, job: Job) -> bool:
    """Return whether a job is enqueued; record why not."""
    if job.min_resources is None:
        return True
    if not session.gates.job_enqueueable(job):
        return False
    why = session.stuck.why(job) if session.is_live else ""
    if why:
        session.record(job, "NotEnoughResources", why)
    return not why
