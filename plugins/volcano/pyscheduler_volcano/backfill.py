"""The action `backfill` of Volcano: place pods without resource requests.

Source: Volcano `actions/backfill`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np

from pyscheduler_batch.contract import Action, TaskState
from pyscheduler_batch.model.priority_queue import PriorityQueue
from pyscheduler_volcano.job_facts import is_pending

if TYPE_CHECKING:
    from pyscheduler_batch.contract import Job, Session, Task
    from pyscheduler_volcano.session import VolcanoSession

__all__ = ["Backfill"]


class Backfill(Action):
    """Place best-effort tasks, whatever their queues hold; bind all allocated tasks of a job once it is ready.

    Nothing is undone: tasks of a job that is not ready stay allocated, unbound, until the session ends.
    """

    name: ClassVar[str] = "backfill"

    async def run(self, session: Session) -> None:
        """Place the best-effort tasks, job by job."""
        session = cast("VolcanoSession", session)
        for task in _waiting(session):
            rows = session.places.bindable(task, np.flatnonzero(session.places.feasible(task)))
            if not len(rows):
                session.note_unfit(task)
                continue
            session.statement().allocate(task, session.places.best_node(task, rows))
            if session.gates.job_ready(task.job):
                session.dispatch(task.job)
            await session.turn()


def _waiting(session: VolcanoSession) -> list[Task]:
    """Return the best-effort tasks in order of queues, jobs and tasks; pipelined ones become pending again."""
    queues: PriorityQueue[int] = PriorityQueue(session.orders.queue_less)
    jobs: dict[int, PriorityQueue[Job]] = {}
    tasks: dict[str, list[Task]] = {}
    best_effort = session.books.best_effort
    for job in session.books.kept.with_best_effort():
        if is_pending(job) or session.gates.job_valid(job) is not None:
            continue
        wanted = [
            task
            for task in job.tasks.values()
            if task.uid in best_effort and task.state in {TaskState.PENDING, TaskState.PIPELINED}
        ]
        if not wanted:
            continue
        for task in wanted:
            if task.state == TaskState.PIPELINED:
                session.statement().unplace(task)
        tasks[job.uid] = session.orders.sorted_tasks(wanted)
        if job.queue_row not in jobs:
            jobs[job.queue_row] = PriorityQueue(session.orders.job_less)
            queues.push(job.queue_row)
        jobs[job.queue_row].push(job)
    ordered: list[Task] = []
    while len(queues):
        waiting = jobs[queues.pop()]
        while len(waiting):
            ordered.extend(tasks[waiting.pop().uid])
    return ordered
