"""The action `allocate` of kube-batch: place waiting jobs on free resources.

Source: kube-batch `actions/allocate`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np

from pyscheduler_batch.contract import Action, TaskState
from pyscheduler_batch.model.priority_queue import PriorityQueue

if TYPE_CHECKING:
    from pyscheduler_batch.contract import Job, Session, Task
    from pyscheduler_kube_batch.session import KubeBatchSession

__all__ = ["Allocate"]


class Allocate(Action):
    """Place the first job of the first queue that is not overused, again and again until none is left.

    A turn of a job ends when it is ready, or at the first task without a node. What a job got stays with it until the
    session ends, ready or not, and is not free for others.
    """

    name: ClassVar[str] = "allocate"

    async def run(self, session: Session) -> None:
        """Place what fits; bind the tasks of ready jobs."""
        session = cast("KubeBatchSession", session)
        queues: PriorityQueue[int] = PriorityQueue(session.orders.queue_less)
        jobs: dict[int, PriorityQueue[Job]] = {}
        pending: dict[str, deque[Task]] = {}
        for job in session.books.jobs:
            queues.push(job.queue_row)
            jobs.setdefault(job.queue_row, PriorityQueue(session.orders.job_less)).push(job)
        while len(queues):
            queue = queues.pop()
            if session.gates.overused(queue) or not len(jobs[queue]):
                continue
            job = jobs[queue].pop()
            if job.uid not in pending:
                pending[job.uid] = _wanted(session, job)
            tasks = pending[job.uid]
            while tasks:
                await session.turn()
                task = tasks.popleft()
                if not _place(session, task):
                    session.note_unfit(task)
                    break
                if tasks and session.gates.job_ready(job):
                    jobs[queue].push(job)
                    break
            queues.push(queue)
            await session.turn()


def _wanted(session: KubeBatchSession, job: Job) -> deque[Task]:
    best_effort = session.books.best_effort
    found = (task for task in job.tasks.values() if task.state == TaskState.PENDING and task.uid not in best_effort)
    return deque(session.orders.sorted_tasks(found))


def _place(session: KubeBatchSession, task: Task) -> bool:
    """Place a task on the best of the nodes whose idle room, or whose room being released, holds it."""
    nodes, scale = session.nodes, session.scale
    is_idle = scale.fits(task.request, nodes.idle)
    accepted = (is_idle | scale.fits(task.request, nodes.releasing - nodes.pipelined)) & session.places.feasible(task)
    rows = np.flatnonzero(accepted)
    if not len(rows):
        return False
    node = session.places.best_node(task, rows)
    if is_idle[node] and len(session.places.bindable(task, np.array([node]))):
        session.bind_on(task, node)
    else:
        session.statement().pipeline(task, node)
    return True
