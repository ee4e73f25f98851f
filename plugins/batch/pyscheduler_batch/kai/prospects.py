"""Jobs as they will be once some of their tasks are evicted: simulations in plain numbers begin with them.

Most simulations evict the same jobs again, in other company. What a job then asks for, and its place among the jobs of
its queue, does not depend on the company. So each is evicted once, alone, and the answers are kept for the pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler.batch.tasks import ALLOCATED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyscheduler.batch.session import Session
    from pyscheduler.batch.tasks import Task
    from pyscheduler_batch.kai.gang import Gang
    from pyscheduler_batch.kai.job_queue import JobKey

__all__ = ["Prospects"]

#: A job that loses more tasks is not evicted at once: other tasks of the scheduler could not run meanwhile.
_MOST_TASKS: Final = 64


class Prospects:
    """The jobs of a pass as they will be."""

    def __init__(self, session: Session, virtual: set[str], job_key: Callable[[Gang], JobKey]) -> None:
        """`virtual` takes the UIDs of evicted tasks; `job_key` returns the place of a job in its queue."""
        self._session = session
        self._virtual = virtual
        self._job_key = job_key
        #: By the UIDs of evicted tasks: the numbers of tasks of the job by state before, its key and the job then.
        self._known: dict[tuple[str, ...], tuple[Sequence[int], JobKey, Gang]] = {}

    def evicted(self, gang: Gang, tasks: Sequence[Task]) -> tuple[JobKey, Gang] | None:
        """Return a job once these tasks of it are evicted, behind its key; None if that has to be simulated."""
        uids = tuple(task.uid for task in tasks)
        known = self._known.get(uids)
        if known is not None and known[0] == gang.job.counts:
            return known[1:]
        if len(tasks) > _MOST_TASKS or any(task.state not in ALLOCATED or task.leaving for task in tasks):
            return None
        counts, statement = [*gang.job.counts], self._session.statement()
        try:
            for task in tasks:
                statement.evict(task, action="")
                self._virtual.add(task.uid)
            key, found = self._job_key(gang), gang.frozen()
        finally:
            statement.discard()
        self._known[uids] = counts, key, found
        return key, found
