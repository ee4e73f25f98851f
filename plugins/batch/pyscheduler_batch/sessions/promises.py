"""The first action of each scheduling round: place jobs on the nodes where earlier rounds made room for them.

Such a node is promised to the job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pyscheduler_batch.contract import Action, Predicate, PromiseGate
from pyscheduler_batch.model.answers import mask_of
from pyscheduler_batch.model.decisions import DecisionKind
from pyscheduler_batch.model.tasks import ACTIVE, ALLOCATED, TaskState
from pyscheduler_batch.queue_problems import BINDING_BACKOFF

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler_batch.model.axis import Amounts
    from pyscheduler_batch.model.decisions import Decision, Decisions
    from pyscheduler_batch.model.session import Session
    from pyscheduler_batch.model.statement import Statement
    from pyscheduler_batch.model.tasks import Job, Task
    from pyscheduler_batch.sessions.commitments import Promise
    from pyscheduler_batch.sessions.recovery import Interrupted

__all__ = ["HoldPromises", "keep_parts"]


def keep_parts(promises: Iterable[str], jobs: Mapping[str, Job], decisions: Decisions) -> bool:
    """Promise what the actions placed of a job with a promise and did not bind; return True if there is any.

    kube-batch forgets it at the end of a session, in which the job was not ready because of what it is promised.
    `promises`: uids of jobs.
    """
    count = len(decisions.items)
    bound = {each.task.uid for each in decisions.items if each.kind is DecisionKind.BIND}
    for uid in promises:
        for task in jobs[uid].tasks.values() if uid in jobs else ():
            if task.state is TaskState.ALLOCATED and task.uid not in bound:
                decisions.nominate(task, task.node)
    return len(decisions.items) > count


class HoldPromises(Action):
    """Puts the tasks of jobs with a promise on their nodes; goes on with evictions that a crash interrupted."""

    name: ClassVar[str] = "promises"

    def __init__(self, promises: Mapping[str, Promise], interrupted: Interrupted, *, keeps_parts: bool) -> None:
        super().__init__()
        self._promises = promises
        self._interrupted = interrupted
        self._keeps_parts = keeps_parts
        #: How many decisions it repeated.
        self.count = 0

    async def run(self, session: Session) -> None:
        """Run the action."""
        waiting = {}
        for uid, promise in self._promises.items():
            tasks = session.jobs[uid].tasks.values() if uid in session.jobs else ()
            pending = [task for task in tasks if task.uid in promise.nodes and task.state is TaskState.PENDING]
            if pending:
                waiting[uid] = [(task, promise.nodes[task.uid]) for task in pending]
        if not waiting:
            return
        owed = _Owed(session, [place for places in waiting.values() for place in places])
        for uid, places in sorted(waiting.items(), key=lambda each: owed.order(session.jobs[each[0]], each[1])):
            evictions = self._interrupted.by_job.get(uid, ())
            kept = await _hold(session, session.jobs[uid], places, owed, evictions, keeps_parts=self._keeps_parts)
            if kept:
                self.count += kept + len(evictions)
                self._interrupted.resumed.extend(evictions)
            else:
                self._interrupted.unfinished.extend(evictions)
            for task, _ in places:
                owed.end(task)
            await session.turn()


class _Owed:
    """The amounts that nodes owe to promises not kept yet in this pass: no other task takes them.

    That holds within a job, too. If a member took the room of another one, the gang would lose all its promises.
    """

    def __init__(self, session: Session, places: Iterable[tuple[Task, str]]) -> None:
        self._table = session.nodes
        #: By uid of a task, the row of its node.
        self._rows: dict[str, int] = {}
        #: float64[N, R].
        self._amounts: NDArray[np.float64] = np.zeros_like(session.nodes.idle)
        for task, name in places:
            row = self._table.index.get(name, -1)
            if row >= 0:
                self._rows[task.uid] = row
                self._amounts[row] += task.request

    def end(self, task: Task) -> None:
        """Take out the promise of a task whose turn it is, or whose job has none any more."""
        row = self._rows.pop(task.uid, -1)
        if row >= 0:
            self._amounts[row] -= task.request

    def order(self, job: Job, places: Iterable[tuple[Task, str]]) -> tuple[bool, int, bool]:
        """Return the sort key of a job; it matters after a crash, which may leave more promises than room.

        Jobs that have their minimum come last, and jobs that can start on their nodes first. Of those without names,
        for which any node will do, the ones with the fewest nodes to choose from come first.
        """
        has_minimum = job.count(ALLOCATED) >= job.min_member
        choices = [int(self.later_rows(task.request).sum()) for task, name in places if not name]
        rows = ((task.request, self._rows[task.uid]) for task, _ in places if task.uid in self._rows)
        waits = any((request > self._table.idle[row]).any() for request, row in rows)
        return has_minimum, min(choices, default=0), waits

    def idle_rows(self, request: Amounts) -> NDArray[np.bool_]:
        """Return bool[N]: the nodes with enough idle resources beside what they owe."""
        return self._hold_beside(self._table.idle, request)

    def later_rows(self, request: Amounts) -> NDArray[np.bool_]:
        """Return bool[N]: the nodes that will have enough resources beside what they owe."""
        return self._hold_beside(self._table.idle + self._table.releasing - self._table.pipelined, request)

    def _hold_beside(self, free: Amounts, request: Amounts) -> NDArray[np.bool_]:
        asked = request > 0
        left = free[:, asked] - np.maximum(self._amounts[:, asked], 0.0)
        rows: NDArray[np.bool_] = np.all(left >= request[asked], axis=1)
        return rows


async def _hold(
    session: Session,
    job: Job,
    places: Sequence[tuple[Task, str]],
    owed: _Owed,
    evictions: Sequence[Decision],
    *,
    keeps_parts: bool,
) -> int:
    """Promise nodes (by name) to a job again, or bind it; return for how many tasks: 0 if that is impossible now.

    `evictions`: those for the job that a crash interrupted.
    """
    # A lost binding is tried again after a backoff. Meanwhile nobody else takes the room of the victims.
    is_in_backoff = job.queue_error.startswith(BINDING_BACKOFF)
    if job.queue_row < 0 and not is_in_backoff:
        return 0
    ran = job.count(ALLOCATED) > 0
    statement = session.statement()
    for each in evictions:
        await session.turn_amid(statement)
        statement.evict(each.task, action=each.action, by=each.by)
    if not is_in_backoff and _is_refused(session, job, [task for task, _ in places]):
        statement.discard()
        return 0
    if not await _place(session, statement, places, owed, needs_all=bool(evictions) or not keeps_parts):
        statement.discard()
        return 0
    # A part of a gang keeps the room of its victims, but nothing of it starts.
    waits = job.count(ACTIVE) < job.min_member or any(task.state is TaskState.PIPELINED for task, _ in places)
    is_part = bool(job.sub_groups or job.min_task_member) or job.count(ALLOCATED) < job.min_member
    if is_in_backoff or (waits and is_part):
        for task, _ in places:
            if task.state is TaskState.ALLOCATED:
                statement.to_pipelined(task)
    elif not ran:
        job.last_start = session.now
    await session.commit_in_turns(statement)
    return sum(task.state is not TaskState.PENDING for task, _ in places)


async def _place(
    session: Session, statement: Statement, places: Sequence[tuple[Task, str]], owed: _Owed, *, needs_all: bool
) -> bool:
    """Place tasks on their nodes; return False if all must have theirs (`needs_all`) and one cannot.

    Tasks that would wait on their nodes take idle room elsewhere, if there is some.
    """
    full: set[bytes] = set()
    for task, name in places:
        await session.turn_amid(statement)
        owed.end(task)
        mark = statement.checkpoint()
        if not _put(session, statement, task, name, owed):
            if needs_all:
                return False
            continue  # the actions decide about this task
        if task.state is TaskState.PIPELINED and task.request.tobytes() not in full:
            row = _idle_row(session, task, owed)
            if row < 0:
                full.add(task.request.tobytes())
            else:
                statement.rollback(mark)
                statement.allocate(task, row)
    return True


def _is_refused(session: Session, job: Job, tasks: Sequence[Task]) -> bool:
    """Return whether a limit of a queue, or a gate of the preset, refuses the tasks now."""
    queues, path = session.queues, session.queues.paths[job.queue_row]
    total = np.sum([task.request for task in tasks], axis=0)
    if np.any((total > 0) & (queues.allocated[path] + total > queues.limit[path])):
        return True
    gates = [policy for tier in session.policies(PromiseGate) for policy in tier]
    return any(policy.may_keep(job, tasks) is not None for policy in gates)


def _put(session: Session, statement: Statement, task: Task, name: str, owed: _Owed) -> bool:
    """Place a task on a node, on idle resources if they suffice; return False if the node cannot take it.

    Without a name it is the first node with idle resources that it owes to nobody, or else the first one that will have
    such room.
    """
    table, placer, asked = session.nodes, session.placer, task.request > 0
    row = table.index.get(name, -1) if name else _first_row(session, task, owed)
    if row < 0:
        return False
    # One row, and not all: a large job has as many rows to look at as tasks.
    idle, wanted = table.idle[row, asked], task.request[asked]
    if np.any(idle + table.releasing[row, asked] - table.pipelined[row, asked] < wanted):
        return False
    if not all(mask[row] for mask in _accepting(session, task)):
        return False
    if np.all(idle >= wanted) and (not table.releasing[row].any() or placer.feasible_now(task, row)):
        statement.allocate(task, row)
    else:
        statement.pipeline(task, row)
    return True


def _idle_row(session: Session, task: Task, owed: _Owed) -> int:
    """Return the first node with idle resources that it owes to nobody; -1 if there is none."""
    able = owed.idle_rows(task.request)
    for mask in _accepting(session, task) if able.any() else ():
        able &= mask
    releasing, placer = session.nodes.releasing, session.placer
    rows = (row for row in np.flatnonzero(able).tolist() if not releasing[row].any() or placer.feasible_now(task, row))
    return next(rows, -1)


def _first_row(session: Session, task: Task, owed: _Owed) -> int:
    """Return the first node with idle resources for a task, or else the first one that will have room; -1: none."""
    able = owed.later_rows(task.request)
    for mask in _accepting(session, task):
        able &= mask
    best = able & owed.idle_rows(task.request)
    rows = np.flatnonzero(best if best.any() else able)
    return int(rows[0]) if len(rows) else -1


def _accepting(session: Session, task: Task) -> Iterator[NDArray[np.bool_]]:
    """Return bool[N] of the filters, and of each policy: the nodes that they accept."""
    yield session.placer.feasible(task)
    for tier in session.policies(Predicate):
        for policy in tier:
            accepted = policy.filter_nodes(task)
            if accepted is not None:
                yield mask_of(accepted, len(session.nodes), policy.filter_nodes)
