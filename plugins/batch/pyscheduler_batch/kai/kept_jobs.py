"""The jobs as the actions see them, kept from pass to pass: gangs, sorted lists of each queue, and stale jobs.

At the begin of a pass only jobs that changed since the last pass are read again.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pyscheduler.batch.memory import Kept
from pyscheduler.batch.tasks import TaskState
from pyscheduler_batch.kai.gang import USED, Gang
from pyscheduler_batch.kai.job_index import JobIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyscheduler.batch.session import Session
    from pyscheduler.batch.tasks import Job, Task
    from pyscheduler_batch.kai.gang import Quantities
    from pyscheduler_batch.kai.orders import Keys

__all__ = ["Gangs", "KeptJobs", "is_candidate", "is_stale"]


class Gangs(dict[str, Gang]):
    """Gangs by job uid, made when they are first asked for."""

    def __init__(self, make: Callable[[Job], Gang]) -> None:
        super().__init__()
        self.jobs: Mapping[str, Job] = {}
        self._make = make

    def __missing__(self, uid: str) -> Gang:
        gang = self[uid] = self._make(self.jobs[uid])
        return gang


def is_candidate(gang: Gang) -> bool:
    """Return whether a job is preemptible and has placed tasks."""
    return gang.job.preemptible and gang.active > 0


class KeptJobs(Kept):
    """What is kept of all jobs.

    `keys` order the tasks of a job, and the jobs of a queue. `quantities` returns what a task requests.
    """

    def __init__(self, keys: Keys, quantities: Callable[[Task], Quantities]) -> None:
        super().__init__()
        #: UIDs of the tasks that the pass evicted in thought only.
        self.virtual: set[str] = set()
        self.gangs = Gangs(lambda job: Gang.of(job, keys.of_task, quantities, self.virtual))
        #: The jobs with pending tasks, and those that may be evicted.
        self.pending = JobIndex(self.gangs, Gang.has_pending, keys.of_gang)
        self.running = JobIndex(self.gangs, is_candidate, keys.of_gang)
        self._quantities = quantities
        #: By queue row, how many preemptible jobs have so many GPUs; by uid, the row and the GPUs of a job.
        self._sizes: dict[int, Counter[float]] = {}
        self._size_of: dict[str, tuple[int, float]] = {}
        #: UIDs of the jobs that were stale at the begin of the pass, or before.
        self._stale: set[str] = set()
        self._is_new = True

    def follow(self, session: Session) -> None:
        """Read the jobs that changed since the last pass."""
        self.virtual.clear()
        self.gangs.jobs = jobs = session.jobs
        is_leaf = session.queues.is_leaf.tolist()
        changed = self.take_changed()
        for uid in jobs if self._is_new else changed:
            self.gangs.pop(uid, None)
            self._read(uid, jobs.get(uid), is_leaf)
        self._is_new = False

    def _read(self, uid: str, job: Job | None, is_leaf: Sequence[bool]) -> None:
        in_leaf = job if job is not None and job.queue_row >= 0 and is_leaf[job.queue_row] else None
        self.pending.put(uid, in_leaf if in_leaf is not None and in_leaf.counts[TaskState.PENDING] else None)
        candidate = in_leaf if in_leaf is not None and in_leaf.preemptible else None
        self.running.put(uid, candidate)
        self._count_size(uid, candidate)
        if job is not None and (job.stale_since is not None or is_stale(job, self.gangs)):
            self._stale.add(uid)
        else:
            self._stale.discard(uid)

    def _count_size(self, uid: str, job: Job | None) -> None:
        old = self._size_of.pop(uid, None)
        if old is not None:
            sizes = self._sizes[old[0]]
            sizes[old[1]] -= 1
            if not sizes[old[1]]:
                del sizes[old[1]]
        if job is not None:
            gpus = sum(self._quantities(task)[2] for task in job.tasks.values())
            self._size_of[uid] = (job.queue_row, gpus)
            self._sizes.setdefault(job.queue_row, Counter())[gpus] += 1

    def largest_units(self, accepts_queue: Callable[[int], bool]) -> Mapping[int, float]:
        """Return by leaf queue the GPUs of its largest preemptible job: no unit of eviction is larger."""
        return {row: max(sizes) for row, sizes in self._sizes.items() if sizes and accepts_queue(row)}

    def maybe_stale(self, session: Session) -> list[Job]:
        """Return the jobs that may be stale, or were, in the order of all jobs."""
        jobs = {uid: session.jobs[uid] for uid in self._stale}
        jobs.update((task.job.uid, task.job) for task, _ in session.ledger.moved.values())
        found = {uid: job for uid, job in jobs.items() if job.stale_since is not None or is_stale(job, self.gangs)}
        return [job for uid, job in session.jobs.items() if uid in found] if len(found) > 1 else [*found.values()]


def is_stale(job: Job, gangs: Mapping[str, Gang]) -> bool:
    """Return whether a job runs, no task of it has succeeded, and some leaf is below its minimum."""
    used = job.count(USED)
    if not used or job.counts[TaskState.SUCCEEDED] or (not job.sub_groups and used >= job.min_member):
        return False
    gang = gangs[job.uid]
    return gang.used > 0 and not gang.is_satisfied()
