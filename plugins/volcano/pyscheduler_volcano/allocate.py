"""The action `allocate` of Volcano: place waiting jobs on idle resources, or on resources of terminating pods.

Source: Volcano `actions/allocate`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np

from pyscheduler_batch.contract import Action, TaskState
from pyscheduler_batch.model.priority_queue import PriorityQueue
from pyscheduler_batch.model.sub_groups import counts_by_role
from pyscheduler_volcano.job_facts import READY, is_pending
from pyscheduler_volcano.look_alikes import Backlog
from pyscheduler_volcano.sub_jobs import SubJobs, parts_short

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Job, Session, Statement, Task
    from pyscheduler_volcano.session import VolcanoSession
    from pyscheduler_volcano.sub_jobs import SubJob

__all__ = ["Allocate"]

NOT_ENOUGH_SUB_GROUPS = "NotEnoughSubGroups"


class Allocate(Action):
    """Place the first job of the first queue, again and again until none is left.

    A turn of a job ends when it is ready. If it is neither ready nor pipelined, its turn is undone and it is not tried
    again in this action. A job that is ready with tasks left competes again.
    """

    name: ClassVar[str] = "allocate"
    steps: ClassVar[Mapping[str, str]] = {NOT_ENOUGH_SUB_GROUPS: "nodes"}

    async def run(self, session: Session) -> None:
        """Place what fits; bind the tasks of ready jobs."""
        session = cast("VolcanoSession", session)
        tasks: dict[str, deque[Task]] = {}
        jobs = {queue: backlog.in_order(session) for queue, backlog in _waiting(session).items()}
        queues: PriorityQueue[int] = PriorityQueue(session.orders.queue_less, jobs)
        while len(queues):
            queue = queues.pop()
            if session.gates.overused(queue) or (job := jobs[queue].pop()) is None:
                continue
            wanted = tasks.get(job.uid)
            if wanted is None:
                wanted = tasks[job.uid] = deque(session.orders.sorted_tasks(_wanted(session, job)))
            statement = await _allocate_job(session, job, wanted)
            if statement is None:
                # Room only shrinks here, so nothing that failed is tried again.
                jobs[queue].fail()
            elif session.gates.job_ready(job):
                await session.commit_in_turns(statement)
                if wanted:
                    jobs[queue].push(job)
            queues.push(queue)
            await session.turn()


def _waiting(session: VolcanoSession) -> dict[int, Backlog]:
    """Return by queue the jobs that may start and have tasks to place."""
    waiting: dict[int, Backlog] = {}
    single, kinds = session.grouped()
    for job in single:
        if _may_start(session, job) and _wanted(session, job):
            waiting.setdefault(job.queue_row, Backlog()).single.append(job)
    for kind in kinds:
        first = kind.listed.jobs[0]
        if _may_start(session, first) and _wanted(session, first):
            waiting.setdefault(first.queue_row, Backlog()).kinds.append(kind)
    return waiting


def _wanted(session: VolcanoSession, job: Job) -> list[Task]:
    """Return the tasks to place; backfill places those that request nothing."""
    if not job.counts[TaskState.PENDING]:
        return []
    best_effort = session.books.best_effort
    return [task for task in job.tasks.values() if task.state == TaskState.PENDING and task.uid not in best_effort]


def _may_start(session: VolcanoSession, job: Job) -> bool:
    """Return whether the job takes part; without an enqueue action a pending job is enqueued here."""
    if is_pending(job):
        if session.has_enqueue:
            return False
        job.phase = "Inqueue"
        session.memory.note(job.uid)
    refusal = session.gates.job_valid(job)
    if refusal is not None:
        session.record(job, refusal.reason, refusal.message)
    return refusal is None


async def _allocate_job(session: VolcanoSession, job: Job, tasks: deque[Task]) -> Statement | None:
    """Place tasks until the job is ready; return None, with all undone, if it is neither ready nor pipelined.

    A job with a topology is placed in the first HyperNode that takes it.
    """
    topology = session.network_topology
    if topology is None or topology.highest_tier(job.topology) is None:
        return await _allocate_on(session, job, tasks, None)
    for nodes in topology.domains(job):
        session.fit_failures.pop(job.uid, None)
        wanted = deque(tasks)
        statement = await _allocate_on(session, job, wanted, nodes)
        if statement is not None and statement.changes:
            tasks.clear()
            tasks.extend(wanted)
            return statement
    session.fit_failures[job.uid].update(task.uid for task in tasks)
    return None


async def _allocate_on(
    session: VolcanoSession, job: Job, tasks: deque[Task], nodes: NDArray[np.bool_] | None
) -> Statement | None:
    """Place tasks on some nodes, bool[N], or on all of them (None)."""
    if job.sub_groups:
        return await _allocate_parts(session, job, tasks, nodes)
    statement, refused = session.statement(), _RefusedByRole()
    while tasks:
        await session.turn_amid(statement)
        task = tasks.popleft()
        if not session.gates.allocatable(task):
            continue
        failures = session.fit_failures[job.uid]
        if task.role and any(job.tasks[uid].role == task.role for uid in failures):
            # A task of this role fitted nowhere; the others are not tried.
            failures.add(task.uid)
            continue
        if _place(session, statement, task, nodes, refused):
            if session.gates.job_ready(job):
                break
            continue
        session.note_unfit(task)
        if not _may_go_on(job, failures, session.books.best_effort):
            break
    if session.gates.job_ready(job) or session.gates.job_pipelined(job):
        return statement
    statement.discard()
    return None


async def _allocate_parts(
    session: VolcanoSession, job: Job, tasks: deque[Task], nodes: NDArray[np.bool_] | None
) -> Statement | None:
    """Place the sub-groups of a job, each whole or not at all, until the job is ready."""
    statement, parts = session.statement(), SubJobs(session, job, tasks)
    while (part := parts.pop()) is not None:
        mark = statement.checkpoint()
        await _allocate_part_in_domain(session, statement, job, part, nodes)
        if not (part.is_ready() or part.is_pipelined()):
            statement.rollback(mark)
        elif statement.checkpoint() > mark:
            if part.tasks:
                parts.push(part)
            if session.gates.job_ready(job):
                break
    tasks.clear()
    tasks.extend(parts.tasks())
    if statement.changes and (session.gates.job_ready(job) or session.gates.job_pipelined(job)):
        return statement
    short, why = parts_short(job, session.books.best_effort), session.why_no_domain(job)
    statement.discard()
    if short:
        text = f"Sub-groups without nodes for their size: {short}"
        session.record(job, NOT_ENOUGH_SUB_GROUPS, f"{text}; {why}" if why else text)
    return None


async def _allocate_part_in_domain(
    session: VolcanoSession, statement: Statement, job: Job, part: SubJob, nodes: NDArray[np.bool_] | None
) -> None:
    """Place tasks of a sub-group, in the first HyperNode that takes it if its policy has a topology."""
    topology = session.network_topology
    domains = None if topology is None else topology.part_domains(job, part, nodes)
    if domains is None:
        await _allocate_part(session, statement, job, part, nodes)
        return
    wanted, mark = [*part.tasks], statement.checkpoint()
    for domain in domains:
        part.tasks = deque(wanted)
        part.failures.clear()
        await _allocate_part(session, statement, job, part, domain)
        if statement.checkpoint() > mark and (part.is_ready() or part.is_pipelined()):
            return
        statement.rollback(mark)
    session.fit_failures[job.uid].update(task.uid for task in wanted)


async def _allocate_part(
    session: VolcanoSession, statement: Statement, job: Job, part: SubJob, nodes: NDArray[np.bool_] | None
) -> None:
    """Place tasks of a sub-group until it is ready, or a task fits nowhere that it needs."""
    refused = _RefusedByRole()
    while part.tasks:
        await session.turn_amid(statement)
        task = part.tasks.popleft()
        if not session.gates.allocatable(task):
            continue
        if task.role and any(job.tasks[uid].role == task.role for uid in part.failures):
            part.failures.add(task.uid)
            continue
        if _place(session, statement, task, nodes, refused):
            if part.is_ready():
                break
            continue
        part.failures.add(task.uid)
        session.note_unfit(task)
        if not part.may_go_on(job):
            break


class _RefusedByRole:
    """Nodes that refused a task: for the rest of the turn they are closed to all tasks of its role.

    That holds even for a task that requests less. A task without a role closes no node. Source: Volcano
    `scheduler/util/predicate_helper.go`.
    """

    def __init__(self) -> None:
        self._masks: dict[str, NDArray[np.bool_]] = {}

    def close(self, task: Task, accepted: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return the accepted nodes (bool[N]) that are open to the task's role; close all others."""
        if not task.role:
            return accepted
        refused = self._masks.get(task.role)
        if refused is not None:
            accepted = accepted & ~refused
        self._masks[task.role] = ~accepted
        return accepted


def _place(
    session: VolcanoSession, statement: Statement, task: Task, nodes: NDArray[np.bool_] | None, refused: _RefusedByRole
) -> bool:
    """Place a task on the best node, idle room before room that is being released; return False if none fits."""
    later = session.places.fits_later(task) if nodes is None else session.places.fits_later(task) & nodes
    if not later.any():
        return False
    accepted = refused.close(task, later & session.places.feasible(task))
    idle = session.places.bindable(task, np.flatnonzero(accepted & session.places.fits_now(task)))
    if len(idle):
        statement.allocate(task, session.places.best_node(task, idle))
        return True
    rows = np.flatnonzero(accepted)
    if len(rows):
        statement.pipeline(task, session.places.best_node(task, rows))
    return bool(len(rows))


def _may_go_on(job: Job, failures: set[str], best_effort: Collection[str]) -> bool:
    """Return whether the job could still become ready after tasks that fitted nowhere."""
    if job.min_member >= len(job.tasks):
        return False
    failed = {job.tasks[uid].role for uid in failures}
    if job.min_member < sum(job.min_task_member.values()):
        pending = counts_by_role(job, {TaskState.PENDING, TaskState.GATED})
        left = sum(count for role, count in pending.items() if role not in failed)
        return job.count(READY) + left >= job.min_member
    held = counts_by_role(job, READY, best_effort)
    return all(held.get(role, 0) >= job.min_task_member.get(role, 0) for role in failed)
