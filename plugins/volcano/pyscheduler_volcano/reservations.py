"""The amounts that admitted jobs reserve in their queues for pods that are not placed yet.

Source: Volcano `plugins/util/util.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from pyscheduler_batch.contract import ALLOCATED, TaskState

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Amounts, Job
    from pyscheduler_volcano.books import Books

__all__ = ["QueueSums", "Reservers", "gated_amounts", "is_settled", "minimum_of", "reserved_rest"]

#: How many jobs a text names.
_NAMED: Final = 3


def gated_amounts(job: Job, width: int) -> Amounts:
    """Return float64[R]: what the gated tasks of the job request."""
    amounts = np.zeros(width)
    if job.counts[TaskState.GATED]:
        for task in job.tasks.values():
            if task.state == TaskState.GATED:
                amounts += task.request
    return amounts


def minimum_of(job: Job, width: int) -> Amounts:
    """Return float64[R]: the job's minResources less what its gated tasks request; zeros if it declares none."""
    if job.min_resources is None:
        return np.zeros(width)
    return np.maximum(job.min_resources - gated_amounts(job, width), 0.0)


def reserved_rest(job: Job, allocated: Amounts) -> Amounts:
    """Return float64[R]: what of minResources is not allocated yet, less what gated tasks request."""
    width = len(allocated)
    if job.min_resources is None:
        return np.zeros(width)
    rest = np.maximum(job.min_resources - allocated, 0.0)
    return np.maximum(rest - gated_amounts(job, width), 0.0)


def is_settled(job: Job) -> bool:
    """Return whether a running job holds its minimum, so that it reserves the rest of minResources."""
    return job.phase == "Running" and job.min_resources is not None and job.count(ALLOCATED) >= job.min_member


class Reservers:
    """The first jobs that reserve a resource, by row of a queue: a refused job waits for them."""

    def __init__(self) -> None:
        self._keys: dict[tuple[int, int], list[str]] = {}

    def add(self, job: Job, rows: Iterable[int], amounts: Amounts) -> None:
        """Add a job that reserves `amounts`, float64[R], in these rows."""
        columns = np.flatnonzero(amounts > 0).tolist()
        for row in rows:
            for column in columns:
                keys = self._keys.setdefault((row, column), [])
                if len(keys) <= _NAMED:
                    keys.append(job.key)

    def text(self, row: int, over: NDArray[np.bool_]) -> str:
        """Return the end of a sentence with the jobs that reserve the resources `over` (bool[R]); "" without any."""
        columns = np.flatnonzero(over).tolist()
        keys = [*dict.fromkeys(key for column in columns for key in self._keys.get((row, column), ()))]
        if not keys:
            return ""
        return f", reserved by enqueued groups: {', '.join(keys[:_NAMED])}{' and others' if keys[_NAMED:] else ''}"


class QueueSums:
    """Sums over the jobs of each queue at the begin of a session; float64[Q, R] each.

    `stuck`: uids of enqueued jobs that reserve nothing.
    """

    def __init__(self, books: Books, queues: int, stuck: Collection[str] = ()) -> None:
        allocated = books.allocated
        width = allocated.shape[1]
        is_job = books.kept.queue_rows >= 0
        at = books.kept.queue_rows[is_job]
        self.inqueue = np.zeros((queues, width))
        #: bool[Q]: the queues that have a job.
        self.has_jobs = np.zeros(queues, dtype=np.bool_)
        self.has_jobs[at] = True
        self.request = _sums(at, (allocated + books.waiting_request)[is_job], queues)
        #: The jobs that reserve something beside what they hold, and how much.
        self.reserved: list[tuple[Job, Amounts]] = []
        elastic = allocated.copy()
        for job in books.kept.declaring():
            row = books.rows[job.uid]
            if (job.phase == "Inqueue" and job.uid not in stuck) or is_settled(job):
                rest = reserved_rest(job, allocated[row])
                self.inqueue[job.queue_row] += rest
                self.reserved.append((job, rest))
            elastic[row] = np.maximum(allocated[row] - job.min_resources, 0.0)
        self.elastic = _sums(at, elastic[is_job], queues)


def _sums(at: NDArray[np.int64], amounts: Amounts, queues: int) -> Amounts:
    """Return float64[Q, R]: the sums of `amounts` (float64[n, R]) by queue; `at`: int64[n]."""
    columns = [np.bincount(at, amounts[:, column], minlength=queues) for column in range(amounts.shape[1])]
    return np.stack(columns, axis=1)
