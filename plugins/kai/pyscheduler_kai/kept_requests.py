"""Cache the resource requests of waiting jobs, summed by queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from pyscheduler_batch.contract import TaskState
from pyscheduler_batch.model.memory import Kept
from pyscheduler_kai.gang import ZERO, Quantities, add, subtract
from pyscheduler_kai.shared_values import SharedValues

if TYPE_CHECKING:
    from collections.abc import Callable

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
        #: The queue of a job with pending tasks, and what they request.
        self._kinds: SharedValues[tuple[int, Quantities]] = SharedValues()
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
            waits = job is not None and job.queue_row >= 0 and (job.counts[_PENDING] or job.counts[_PIPELINED])
            self._kinds.put(uid, (job.queue_row, _requests(job, quantities)) if job is not None and waits else None)
        own = np.zeros((len(session.queues), _COLUMNS))
        kinds = self._kinds.users()
        requested = np.array([amounts for _, amounts in kinds], dtype=np.float64).reshape(-1, _COLUMNS)
        users = np.array([*kinds.values()], dtype=np.float64)
        np.add.at(own, np.array([row for row, _ in kinds], dtype=np.int64), requested * users[:, None])
        return own


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
