"""Keep sorted lists of jobs, and sums of their requests, from one scheduling round to the next."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pyscheduler_batch.contract import ACTIVE, TaskState
from pyscheduler_batch.model.memory import Kept
from pyscheduler_volcano.job_facts import READY, is_pending

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from pyscheduler_batch.contract import Amounts, Job, Task
    from pyscheduler_volcano.amounts import Scale

__all__ = ["KeptJobs", "Kind", "SortedJobs"]

_PENDING: Final = TaskState.PENDING
_PLACED: Final = frozenset({TaskState.BOUND, TaskState.RUNNING})
_WAITING: Final = frozenset({TaskState.PENDING, TaskState.GATED})
#: Rows are given anew once more than this are free, and more than half of all.
_MOST_FREE: Final = 1000


class SortedJobs:
    """Jobs in the order of their keys, with their uids."""

    __slots__ = ("_keys", "jobs", "uids")

    def __init__(self) -> None:
        self._keys: list[Any] = []
        self.jobs: list[Job] = []
        self.uids: list[str] = []

    def put(self, key: Any, job: Job) -> None:
        """Put a job in its place."""
        at = bisect_left(self._keys, key)
        self._keys.insert(at, key)
        self.jobs.insert(at, job)
        self.uids.insert(at, job.uid)

    def remove(self, key: Any) -> None:
        """Take a job out."""
        at = bisect_left(self._keys, key)
        del self._keys[at], self.jobs[at], self.uids[at]

    @classmethod
    def of(cls, jobs: list[Job]) -> SortedJobs:
        """Return jobs that are in order, only to be read."""
        found = cls()
        found.jobs, found.uids = jobs, [job.uid for job in jobs]
        return found

    def waiting(self) -> SortedJobs:
        """Return a copy without the jobs whose task is placed, only to be read."""
        return self.of([job for job in self.jobs if job.counts[_PENDING]])


class Kind:
    """Look-alikes: the oldest first, and in the order of rows."""

    __slots__ = ("by_age", "listed", "number")

    def __init__(self, number: int, by_age: SortedJobs, listed: SortedJobs) -> None:
        #: `Job.look_alike` of its jobs.
        self.number = number
        self.by_age = by_age
        self.listed = listed

    def waiting(self) -> Kind:
        """Return the kind without the jobs whose task is placed."""
        return Kind(self.number, self.by_age.waiting(), self.listed.waiting())


class KeptJobs(Kept):
    """The kept data of the jobs that have a queue."""

    def __init__(self, scale: Scale) -> None:
        super().__init__()
        self._scale = scale
        self._width = len(scale.tolerance)
        self._is_new = True
        self._clear()

    def _clear(self) -> None:
        #: By uid, in the order of rows.
        self._jobs: dict[str, Job] = {}
        self.rows: dict[str, int] = {}
        self.size = 0
        self._sums = np.zeros((3, 0, self._width))
        self._queue_rows = np.zeros(0, dtype=np.int64)
        #: By row: how many pending tasks request nothing but a pod's place.
        self.pending_best_effort: list[int] = []
        #: Uids of the tasks that request nothing but a pod's place, of all jobs and by uid of the job.
        self.best_effort: set[str] = set()
        self._best_effort_of: dict[str, list[str]] = {}
        #: By uid, the jobs with `minResources`, those with tasks on nodes, and those that are neither settled nor
        #: look-alikes; not in order.
        self._declaring: dict[str, Job] = {}
        self._holders: dict[str, Job] = {}
        self._open: dict[str, Job] = {}
        #: By row of the queue and row of the job, the settled jobs.
        self.settled: dict[int, dict[int, Job]] = {}
        self._kinds: dict[int, Kind] = {}
        #: By uid, the kind and the key of look-alikes, and the row of the queue of settled jobs.
        self._kind_of: dict[str, tuple[int, tuple[float, str]]] = {}
        self._settled_in: dict[str, int] = {}
        #: By bytes of a request, whether it is for nothing but a pod's place.
        self._is_empty: dict[bytes, bool] = {}

    # The cluster

    def note(self, uid: str) -> None:
        """Take notice that a job changed; jobs that were built anew are read in the order in which they were built."""
        self._changed.pop(uid, None)
        super().note(uid)

    def follow(self, jobs: Mapping[str, Job]) -> Iterator[None]:
        """Read the jobs that changed since the last pass; yield after each of them. `jobs`: by uid."""
        free = self.size - len(self._jobs)
        if self._is_new or (free > _MOST_FREE and 2 * free > self.size):
            self._clear()
            self._changed.clear()
            for uid in jobs:
                self.note(uid)
            self._is_new = False
        for uid in self.changed():
            self._read(uid, jobs.get(uid))
            yield

    def _read(self, uid: str, job: Job | None) -> None:
        if uid in self._jobs:
            self._forget(uid, is_same=self._jobs[uid] is job)
        if job is None or job.queue_row < 0:
            return
        if uid not in self._jobs:
            self._add_row(job)
        row = self.rows[uid]
        self._add_up(job, row)
        if job.min_resources is not None:
            self._declaring[uid] = job
        if job.count(_PLACED):
            self._holders[uid] = job
        if job.look_alike is not None and job.counts[_PENDING]:
            self._put_in_kind(job, row)
        elif _is_settled(job):
            self.settled.setdefault(job.queue_row, {})[row] = job
            self._settled_in[uid] = job.queue_row
        else:
            self._open[uid] = job

    def _add_row(self, job: Job) -> None:
        row = self.size
        if row == len(self._queue_rows):
            more = max(row, 64)
            self._sums = np.concatenate([self._sums, np.zeros((3, more, self._width))], axis=1)
            self._queue_rows = np.concatenate([self._queue_rows, np.full(more, -1, dtype=np.int64)])
        self._jobs[job.uid] = job
        self.rows[job.uid] = row
        self._queue_rows[row] = job.queue_row
        self.pending_best_effort.append(0)
        self.size += 1

    def _add_up(self, job: Job, row: int) -> None:
        """Add up the tasks of a job."""
        sums = self._sums[:, row]
        if job.alike is not None:
            size = sum(job.counts)
            sums[0] = job.alike * job.count(ACTIVE)
            sums[1] = job.alike * size
            sums[2] = job.alike * job.count(_WAITING)
            if size and self._is_for_nothing(job.alike):
                self._note_best_effort(job, row, [*job.uids()], job.counts[_PENDING])
            return
        sums[:] = 0.0
        empty, pending = [], 0
        for task in job.tasks.values():
            sums[1] += task.request
            if task.state in ACTIVE:
                sums[0] += task.request
            elif task.state in _WAITING:
                sums[2] += task.request
            if self._is_for_nothing(task.request):
                empty.append(task.uid)
                pending += task.state == _PENDING
        if empty:
            self._note_best_effort(job, row, empty, pending)

    def _is_for_nothing(self, request: Amounts) -> bool:
        key = request.tobytes()
        found = self._is_empty.get(key)
        if found is None:
            found = self._is_empty[key] = self._scale.is_empty(request)
        return found

    def _note_best_effort(self, job: Job, row: int, uids: list[str], pending: int) -> None:
        self.best_effort.update(uids)
        self._best_effort_of[job.uid] = uids
        self.pending_best_effort[row] = pending

    def _put_in_kind(self, job: Job, row: int) -> None:
        number = job.look_alike
        assert number is not None, "only look-alikes have a kind"
        kind = self._kinds.get(number)
        if kind is None:
            kind = self._kinds[number] = Kind(number, SortedJobs(), SortedJobs())
        key = (job.created, job.uid)
        kind.by_age.put(key, job)
        kind.listed.put(row, job)
        self._kind_of[job.uid] = (number, key)

    def _forget(self, uid: str, *, is_same: bool) -> None:
        """Forget what was read of a job; one that `is_same` keeps its row."""
        row = self.rows[uid]
        for each in (self._declaring, self._holders, self._open):
            each.pop(uid, None)
        self.best_effort.difference_update(self._best_effort_of.pop(uid, ()))
        self.pending_best_effort[row] = 0
        queue = self._settled_in.pop(uid, None)
        if queue is not None:
            del self.settled[queue][row]
        found = self._kind_of.pop(uid, None)
        if found is not None:
            kind = self._kinds[found[0]]
            kind.by_age.remove(found[1])
            kind.listed.remove(row)
            if not kind.listed.jobs:
                del self._kinds[found[0]]
        if not is_same:
            del self._jobs[uid], self.rows[uid]
            self._sums[:, row] = 0.0
            self._queue_rows[row] = -1

    # Views for a session

    @property
    def jobs(self) -> Collection[Job]:
        """Return all jobs, in order."""
        return self._jobs.values()

    @property
    def sums(self) -> Amounts:
        """Return float64[3, J, R]: what the active tasks hold, what all tasks request, and those that wait; by row.

        Rows of no job are 0. What a session changes here is read anew before the next one.
        """
        return self._sums[:, : self.size]

    @property
    def queue_rows(self) -> Any:
        """Return int64[J]: the row of each job's queue, by row of the job; -1 for rows of no job."""
        return self._queue_rows[: self.size]

    def declaring(self) -> list[Job]:
        """Return the jobs with `minResources`, in order."""
        return self.in_order(self._declaring.values())

    def with_best_effort(self) -> list[Job]:
        """Return the jobs with tasks that request nothing but a pod's place, in order."""
        return self.in_order(self._jobs[uid] for uid in self._best_effort_of)

    def in_order(self, jobs: Iterable[Job]) -> list[Job]:
        """Return jobs in order."""
        return sorted(jobs, key=lambda job: self.rows[job.uid])

    def residents(self) -> list[Task]:
        """Return the tasks that hold nodes, in the order of jobs and, within them, of arrival."""
        holders = self.in_order(self._holders.values())
        return [task for job in holders for task in job.tasks.values() if task.node >= 0 and task.state in _PLACED]

    def grouped(self, moved: Iterable[Job]) -> tuple[list[Job], list[Kind]]:
        """Return single jobs and the kinds of look-alikes, in order; `moved`: the jobs that this pass changed so far.

        The single jobs are those that an action may work on. Settled jobs are left out, but for one of each queue, and
        for those that the pass changed.
        """
        touched = {job.uid: job for job in moved if job.uid in self.rows}
        single = dict(self._open)
        partial: set[int] = set()
        for uid, job in touched.items():
            kind = self._kind_of.get(uid)
            if kind is None:
                single[uid] = job
            elif not job.counts[_PENDING]:
                single[uid] = job
                partial.add(kind[0])
        for settled in self.settled.values():
            first = min((row for row, job in settled.items() if job.uid not in touched), default=None)
            if first is not None:
                single[settled[first].uid] = settled[first]
        kinds = [kind.waiting() if number in partial else kind for number, kind in self._kinds.items()]
        kinds = [kind for kind in kinds if kind.listed.jobs]
        return self.in_order(single.values()), sorted(kinds, key=lambda kind: self.rows[kind.listed.uids[0]])


def _is_settled(job: Job) -> bool:
    """Return whether all tasks of an enqueued job are ready, its minimum included: no action gives it anything."""
    ready = job.count(READY)
    return ready == sum(job.counts) and ready >= job.min_member and not job.min_task_member and not is_pending(job)
