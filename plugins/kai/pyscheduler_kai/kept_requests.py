"""Sums of the requests of waiting jobs by queue, kept from pass to pass: only jobs that changed are summed anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from pyscheduler_batch.contract import TaskState
from pyscheduler_batch.model.memory import Kept
from pyscheduler_kai.gang import ZERO, Quantities, add, subtract

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Amounts, Job, Session

__all__ = ["KeptRequests"]

_PENDING: Final = int(TaskState.PENDING)
_PIPELINED: Final = int(TaskState.PIPELINED)
#: CPU, memory and GPUs.
_COLUMNS: Final = 3


class KeptRequests(Kept):
    """The requests of the pending tasks of each job."""

    def __init__(self) -> None:
        super().__init__()
        #: By uid of a job with pending tasks, its place in the arrays: int64[n] and float64[n, 3].
        self._places: dict[str, int] = {}
        self._rows: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._amounts: NDArray[np.float64] = np.zeros((0, _COLUMNS))
        self._free: list[int] = []
        self._is_new = True

    def by_queue(self, session: Session, quantities: Callable[[Amounts], Quantities]) -> Amounts:
        """Return float64[Q, 3]: the requests of the pending tasks in each queue, less those with a promise."""
        jobs = session.jobs
        if self._is_new:
            self._is_new = False
            # Most jobs run: no function call for them.
            changed = [uid for uid, job in jobs.items() if job.counts[_PENDING] or job.counts[_PIPELINED]]
        else:
            changed = [*self.changed()]
        for uid in changed:
            job = jobs.get(uid)
            self._take_out(uid)
            if job is not None and job.queue_row >= 0 and (job.counts[_PENDING] or job.counts[_PIPELINED]):
                self._put(uid, job.queue_row, _requests(job, quantities))
        own = np.zeros((len(session.queues), _COLUMNS))
        np.add.at(own, self._rows, self._amounts)
        return own

    def _put(self, uid: str, row: int, amounts: Quantities) -> None:
        if not self._free:
            size = len(self._rows)
            more = max(size, 64)
            self._rows = np.concatenate([self._rows, np.zeros(more, dtype=np.int64)])
            self._amounts = np.concatenate([self._amounts, np.zeros((more, _COLUMNS))])
            self._free = list(range(size + more - 1, size - 1, -1))
        place = self._places[uid] = self._free.pop()
        self._rows[place], self._amounts[place] = row, amounts

    def _take_out(self, uid: str) -> None:
        place = self._places.pop(uid, None)
        if place is not None:
            self._rows[place], self._amounts[place] = 0, 0.0
            self._free.append(place)


def _requests(job: Job, quantities: Callable[[Amounts], Quantities]) -> Quantities:
    """Return the requests of the pending tasks of a job, less those with a promise."""
    if job.alike is not None:
        count, (cpu, memory, gpu) = job.counts[_PENDING] - job.counts[_PIPELINED], quantities(job.alike)
        return (cpu * count, memory * count, gpu * count)
    total = ZERO
    for task in job.tasks.values():
        if task.state == TaskState.PENDING:
            total = add(total, quantities(task.request))
        elif task.state == TaskState.PIPELINED:
            total = subtract(total, quantities(task.request))
    return total
