"""Jobs as they will be once some of their tasks are evicted: simulations in plain numbers begin with them.

Most simulations evict the same jobs again, in other company. What a job then asks for, and its place among the jobs of
its queue, does not depend on the company. So each is evicted once, alone, and the answers are kept for the pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.batch.tasks import ALLOCATED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.batch.tasks import Job, Task
    from pyscheduler_batch.kai.cycle import Cycle
    from pyscheduler_batch.kai.gang import Gang, Quantities
    from pyscheduler_batch.kai.job_queue import JobKey

__all__ = ["Prospect", "Prospects"]

#: A job that loses more tasks is not evicted at once: other tasks of the scheduler could not run meanwhile.
_MOST_TASKS: Final = 64


@attrs.frozen(eq=False)
class Prospect:
    """What a job will be."""

    gang: Gang
    #: Its place among the jobs of its queue.
    key: JobKey
    _to_place: Sequence[Task]
    _asked: Quantities | None = None

    @property
    def job(self) -> Job:
        """Return the job itself."""
        return self.gang.job

    @property
    def is_part(self) -> bool:
        """Return whether it stands for a part of the job."""
        return self.gang.is_part

    def is_simple(self) -> bool:
        """Return whether the job has neither sub-groups nor a topology constraint."""
        return self.gang.is_simple()

    def to_place(self) -> Sequence[Task]:
        """Return the tasks to place next."""
        return self._to_place

    def requested(self) -> Quantities:
        """Return the amounts of the tasks to place next; a part of a job says it when it is first asked."""
        return self.gang.requested() if self._asked is None else self._asked


class Prospects:
    """The prospects of a pass."""

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle
        #: By the UIDs of evicted tasks: the numbers of tasks of the job by state, and its prospect.
        self._known: dict[tuple[str, ...], tuple[Sequence[int], Prospect]] = {}

    def now(self, gang: Gang) -> Prospect:
        """Return a job, or a part of it, as it is."""
        return Prospect(gang, self._cycle.job_key(gang), gang.to_place())

    def evicted(self, gang: Gang, tasks: Sequence[Task]) -> Prospect | None:
        """Return a job once these tasks of it are evicted; None if that has to be simulated."""
        uids = tuple(task.uid for task in tasks)
        known = self._known.get(uids)
        if known is not None and known[0] == gang.job.counts:
            return known[1]
        if len(tasks) > _MOST_TASKS or any(task.state not in ALLOCATED or task.leaving for task in tasks):
            return None
        counts, cycle = [*gang.job.counts], self._cycle
        statement = cycle.session.statement()
        try:
            for task in tasks:
                statement.evict(task, action="")
                cycle.virtual.add(task.uid)
            found = Prospect(gang, cycle.job_key(gang), gang.to_place(), gang.requested())
        finally:
            statement.discard()
        self._known[uids] = counts, found
        return found
