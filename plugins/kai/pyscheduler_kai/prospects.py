"""Compute the state that a job would have if some of its pods were evicted, to judge eviction plans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler_batch.contract import ALLOCATED
from pyscheduler_kai.gang import ZERO

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from pyscheduler_batch.contract import Session, Task
    from pyscheduler_kai.gang import Gang, Quantities
    from pyscheduler_kai.job_queue import JobKey

__all__ = ["Prospect", "Prospects"]

#: A job that loses more tasks is not evicted at once: other tasks of the scheduler could not run meanwhile.
_MOST_TASKS: Final = 64


@attrs.frozen(eq=False)
class Prospect:
    """A job as it will be, and its place in its queue."""

    key: JobKey
    gang: Gang
    #: The tasks that it places next, their GPUs, and what they request together.
    tasks: Sequence[Task]
    sizes: Sequence[float]
    total: Quantities
    #: Whether it places tasks of the plan only, wherever there are GPUs for them.
    is_plain: bool
    #: What it holds now and will not hold then.
    lost: Quantities = ZERO


class Prospects:
    """The jobs of a pass as they will be."""

    def __init__(
        self,
        session: Session,
        virtual: set[str],
        *,
        job_key: Callable[[Gang], JobKey],
        total: Callable[[Iterable[Task]], Quantities],
        size: Callable[[Task], float],
    ) -> None:
        """`virtual` takes the UIDs of evicted tasks; `job_key` returns the place of a job in its queue.

        `total` returns what tasks request together, `size` the GPUs of a task.
        """
        self._session = session
        self._virtual = virtual
        self._job_key = job_key
        self._total = total
        self._size = size
        #: By the UIDs of evicted tasks: the numbers of tasks of the job by state before, and the job then.
        self._known: dict[tuple[str, ...], tuple[Sequence[int], Prospect]] = {}

    def of(self, key: JobKey, gang: Gang, plan: Collection[Task], lost: Sequence[Task] = ()) -> Prospect:
        """Return a job that is as it will be. `plan`: the tasks of the job or of all jobs in the plan.

        `lost`: the tasks of the job that it holds now and will not hold then.
        """
        tasks, uids = gang.to_place(), {task.uid for task in plan}
        is_plain = gang.is_simple() and all(task.uid in uids for task in tasks)
        return Prospect(key, gang, tasks, [*map(self._size, tasks)], self._total(tasks), is_plain, self._total(lost))

    def evicted(self, gang: Gang, tasks: Sequence[Task]) -> Prospect | None:
        """Return a job once these tasks of it are evicted; None if that has to be simulated."""
        uids = tuple(task.uid for task in tasks)
        known = self._known.get(uids)
        if known is not None and known[0] == gang.job.counts:
            return known[1]
        if len(tasks) > _MOST_TASKS or any(task.state not in ALLOCATED or task.leaving for task in tasks):
            return None
        counts, statement = [*gang.job.counts], self._session.statement()
        try:
            for task in tasks:
                statement.evict(task, action="")
                self._virtual.add(task.uid)
            found = self.of(self._job_key(gang), gang.frozen(), tasks, tasks)
        finally:
            statement.discard()
        self._known[uids] = counts, found
        return found
