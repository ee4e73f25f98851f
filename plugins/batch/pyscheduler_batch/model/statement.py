"""A statement: placements and evictions that a scheduling round simulates, and then carries out or undoes.

`rollback` undoes the changes since a checkpoint. `commit` carries out the remaining changes.

Source: KAI-Scheduler `framework/statement.go`, Volcano `framework/statement.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import attrs
import numpy as np

from pyscheduler_batch.model.memory import Memory
from pyscheduler_batch.model.tasks import ACTIVE, ALLOCATED, NO_NODE, TaskState

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyscheduler_batch.contract import Listener
    from pyscheduler_batch.model.axis import Amounts
    from pyscheduler_batch.model.node_table import NodeTable
    from pyscheduler_batch.model.placer import Effects, Placer
    from pyscheduler_batch.model.queue_table import QueueTable
    from pyscheduler_batch.model.tasks import Job, Task

__all__ = ["Change", "CheckedStatement", "Ledger", "Position", "Statement", "position_of"]


#: The states in which a task holds what it requests of its node.
_HOLDING: Final = ALLOCATED | {TaskState.RELEASING}


class Position(NamedTuple):
    """The position of a task: its state, its node (a row, -1: none) and the nodes it is leaving (rows)."""

    state: TaskState
    node: int = NO_NODE
    leaving: tuple[int, ...] = ()


def position_of(task: Task) -> Position:
    """Return the present position of a task."""
    return Position(task.state, task.node, task.leaving)


def _stays(old: Position, new: Position) -> bool:
    """Return whether a task holds the same node, and only that, before and after a change."""
    return (
        old.node == new.node >= 0
        and not old.leaving
        and not new.leaving
        and old.state in _HOLDING
        and new.state in _HOLDING
    )


@attrs.define(eq=False, kw_only=True)
class Ledger:
    """The tables of a session, and the one place that changes them."""

    nodes: NodeTable
    queues: QueueTable
    placer: Placer
    listeners: list[Listener] = attrs.Factory(list)
    #: Takes notice of the jobs whose tasks are put back.
    memory: Memory = attrs.Factory(Memory)
    #: By uid, each task that was ever moved, and its first position.
    moved: dict[str, tuple[Task, Position]] = attrs.Factory(dict)

    def move(self, task: Task, to: Position) -> None:
        """Bring a task into a position."""
        old = position_of(task)
        self.moved.setdefault(task.uid, (task, old))
        task.state, task.node, task.leaving = to
        if _stays(old, to):
            # Only whether the node releases the task is new.
            if (old.state == TaskState.RELEASING) != (to.state == TaskState.RELEASING):
                change = task.request if to.state == TaskState.RELEASING else -task.request
                row = self.nodes.releasing[to.node]
                row += change
        else:
            self._book(-task.request, old)
            self._book(task.request, to)
        job = task.job
        job.counts[old.state] -= 1
        job.counts[to.state] += 1
        job.changes += 1
        was_active, is_active = old.state in ACTIVE, to.state in ACTIVE
        if was_active != is_active and job.queue_row >= 0:
            amounts = task.request if is_active else -task.request
            self.queues.add(job.queue_row, amounts, non_preemptible=not job.preemptible)
        # The placer sees the future: a task is there if it is active.
        if was_active and (not is_active or old.node != to.node):
            self.placer.remove(task, old.node)
        if is_active and (not was_active or old.node != to.node):
            self.placer.place(task, to.node)
        for listener in self.listeners:
            listener.moved(task, old.state, to.state)

    def put_back(self) -> None:
        """Put all tasks back where they were at first, when the session is over; the tables are not followed."""
        for task, (state, node, leaving) in self.moved.values():
            job = task.job
            job.counts[task.state] -= 1
            job.counts[state] += 1
            job.changes += 1
            task.state, task.node, task.leaving = state, node, leaving
        for uid in dict.fromkeys(task.job.uid for task, _ in self.moved.values()):
            self.memory.note(uid)
        self.moved.clear()

    def _book(self, amounts: Amounts, position: Position) -> None:
        """Book what a task in that position holds of nodes; negative amounts take it out."""
        state, node, leaving = position
        for left in leaving:
            self.nodes.idle[left] -= amounts
            self.nodes.releasing[left] += amounts
        # Views of rows: nothing has to be written back.
        if state == TaskState.PIPELINED:
            row = self.nodes.pipelined[node]
            row += amounts
        elif node >= 0 and (state in ACTIVE or state == TaskState.RELEASING):
            row = self.nodes.idle[node]
            row -= amounts
            if state == TaskState.RELEASING:
                row = self.nodes.releasing[node]
                row += amounts


@attrs.frozen
class Change:
    """A change of one task, with what undoes it."""

    task: Task
    old: Position
    new: Position
    #: For evictions: the action, and the job that gets the room (None for broken gangs).
    action: str = ""
    by: Job | None = None


class Statement:
    """Records changes until they are committed or undone."""

    __slots__ = ("_changes", "_ledger")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._changes: list[Change] = []

    @property
    def changes(self) -> Sequence[Change]:
        """Return what was done and not undone, in order."""
        return self._changes

    def _do(self, task: Task, to: Position, *, action: str = "", by: Job | None = None) -> None:
        self._changes.append(Change(task, position_of(task), to, action, by))
        self._ledger.move(task, to)

    def allocate(self, task: Task, node: int) -> None:
        """Place a task on idle resources of a node, a row of `session.nodes`."""
        self._do(task, Position(TaskState.ALLOCATED, node))

    def pipeline(self, task: Task, node: int) -> None:
        """Place a task on resources of a node (a row of `session.nodes`) that are still being released.

        A task that was evicted is moved: it also holds its former nodes until it has ended there.
        """
        leaving = (*task.leaving, task.node) if task.state == TaskState.RELEASING else task.leaving
        self._do(task, Position(TaskState.PIPELINED, node, leaving))

    def evict(self, task: Task, *, action: str, by: Job | None = None) -> None:
        """Evict a task: it keeps its node, and its resources count as releasing."""
        self._do(task, Position(TaskState.RELEASING, task.node, task.leaving), action=action, by=by)

    def restore(self, task: Task) -> None:
        """Take back the eviction of a task by this statement: the task stays where it was.

        Raises `LookupError` if this statement did not evict the task.
        """
        for change in reversed(self._changes):
            if change.task is task and change.new.state == TaskState.RELEASING:
                self._do(task, change.old)
                return
        raise LookupError(f"{task.key} was not evicted by this statement")

    def to_pipelined(self, task: Task) -> None:
        """Turn an allocation into a promise on the same node."""
        self._do(task, Position(TaskState.PIPELINED, task.node))

    def unplace(self, task: Task) -> None:
        """Take the placement of a pending task back, as a change of its own."""
        self._do(task, Position(TaskState.PENDING))

    def checkpoint(self) -> int:
        """Mark the present state. Checkpoints nest."""
        return len(self._changes)

    def rollback(self, to: int) -> None:
        """Undo everything since the checkpoint."""
        while len(self._changes) > to:
            change = self._changes.pop()
            self._ledger.move(change.task, change.old)

    def discard(self) -> None:
        """Undo everything."""
        self.rollback(0)

    def commit(self, effects: Effects) -> None:
        """Carry out the net effect, in the order of the first change of each task.

        A binding or an eviction that fails at once is undone alone.
        """
        for _ in self.commit_steps(effects):
            pass

    def commit_steps(self, effects: Effects) -> Iterator[None]:
        """Do what `commit` does, one task at each step. Whoever takes the first step must take all."""
        first: dict[str, Change] = {}
        evictions: dict[str, Change] = {}
        for change in self._changes:
            first.setdefault(change.task.uid, change)
            if change.new.state == TaskState.RELEASING:
                evictions[change.task.uid] = change
        self._changes.clear()
        for uid, change in first.items():
            self._carry_out(effects, change, evictions.get(uid))
            yield

    def _carry_out(self, effects: Effects, first: Change, eviction: Change | None) -> None:
        task = first.task
        if position_of(task) == first.old:
            return
        if first.old.state in ACTIVE and eviction is not None:
            gone = effects.evict(task, action=eviction.action, by=eviction.by)
            if not gone:
                self._ledger.move(task, first.old)
                return
        if task.state == TaskState.PIPELINED:
            effects.nominate(task, task.node)
        elif task.state == TaskState.ALLOCATED:
            is_bound = effects.bind(task, task.node)
            self._ledger.move(task, Position(TaskState.BINDING, task.node) if is_bound else first.old)


class CheckedStatement(Statement):
    """A statement of another distribution's action: it refuses a node that is no row.

    A negative number would mean another node, and a name would fail far from the action.
    """

    __slots__ = ()

    def allocate(self, task: Task, node: int) -> None:
        """Place a task on idle resources of a node; raise `TypeError` or `IndexError` if it is no row."""
        self._check_row(node)
        super().allocate(task, node)

    def pipeline(self, task: Task, node: int) -> None:
        """Place a task on resources that are still being released; raise as `allocate` does."""
        self._check_row(node)
        super().pipeline(task, node)

    def _check_row(self, node: int) -> None:
        if not isinstance(node, (int, np.integer)):
            raise TypeError(
                f"node is a row (int) of session.nodes, not {node!r}; NodeTable.index has the row of a name"
            )
        if not 0 <= node < len(self._ledger.nodes):
            raise IndexError(f"there is no node in row {node}; session.nodes has {len(self._ledger.nodes)} rows")
