"""Simulate the eviction of tasks (pods); then either undo the simulation or evict the tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler_batch.model.statement import position_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyscheduler_batch.contract import Job, Session, Statement, Task
    from pyscheduler_kai.proportion import Proportion

__all__ = ["OpenStatement"]

#: Other tasks of the scheduler may run after so many changes of a statement.
_TURN_EVERY: Final = 32


class OpenStatement:
    """What the statement evicted that a scheduling round has begun last."""

    def __init__(self, session: Session, proportion: Proportion, virtual: set[str]) -> None:
        """`virtual`: uids of the tasks that were evicted in thought only; a statement adds its own."""
        self._session, self._proportion, self._virtual = session, proportion, virtual
        #: UIDs of those that the open statement evicted.
        self._evicted: set[str] = set()
        #: Evictions of tasks that the open statement had already evicted.
        self._repeated: list[tuple[Task, str, Job]] = []

    def begin(self) -> Statement:
        """Return a new statement, which has evicted nothing yet."""
        self._evicted.clear()
        self._repeated.clear()
        return self._session.statement()

    async def evict(self, statement: Statement, tasks: Iterable[Task], *, action: str, by: Job) -> None:
        """Evict tasks within a statement."""
        for at, task in enumerate(tasks, start=1):
            if at % _TURN_EVERY == 0:
                await self._session.turn()
            if task.uid in self._evicted:
                self._repeated.append((task, action, by))
                self._proportion.book(task, placed=False)
                continue
            statement.evict(task, action=action, by=by)
            self._evicted.add(task.uid)
            self._virtual.add(task.uid)

    async def undo(self, statement: Statement) -> None:
        """Undo a statement; other tasks of the scheduler may run meanwhile."""
        try:
            while (left := statement.checkpoint()) > _TURN_EVERY:
                statement.rollback(left - _TURN_EVERY)
                await self._session.turn()
        finally:
            self.discard(statement)

    def discard(self, statement: Statement) -> None:
        """Undo a statement at once."""
        statement.discard()
        for task, _, _ in self._repeated:
            self._proportion.book(task, placed=True)
        self._repeated.clear()

    async def commit(self, statement: Statement) -> None:
        """Carry out a statement; other tasks of the scheduler may run meanwhile."""
        first = {change.task.uid: change for change in reversed(statement.changes)}
        # An evicted task that stays where it was, even as a promise, is no eviction.
        evicted = {
            change.task.job.uid: change.task.job
            for uid, change in first.items()
            if uid in self._evicted and position_of(change.task) != change.old
        }
        try:
            await self._session.commit_in_turns(statement)
        finally:
            self._virtual.difference_update(self._evicted)
        for task, action, by in self._repeated:
            self._session.effects.evict(task, action=action, by=by)
            evicted[task.job.uid] = task.job
        self._repeated.clear()
        for job in evicted.values():
            job.last_eviction = self._session.now
