"""Arrays for one scheduling round: the resource sums of each job, and the pods that have a node."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from pyscheduler_batch.contract import ACTIVE, TaskState
from pyscheduler_volcano.kept_jobs import KeptJobs

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Amounts, Job, Task
    from pyscheduler_volcano.amounts import Scale

__all__ = ["Books", "Residents"]

_PLACED = (TaskState.BOUND, TaskState.RUNNING)


class Residents:
    """The tasks that hold nodes at the begin of the session, as columns; candidates for eviction."""

    def __init__(self, kept: KeptJobs, width: int) -> None:
        tasks, best_effort = kept.residents(), kept.best_effort
        #: In the order of jobs and, within them, of arrival.
        self.tasks: Sequence[Task] = tasks
        self._rows = {task.uid: row for row, task in enumerate(tasks)}
        self._job_rows = job_rows = kept.rows
        self._exposed: dict[frozenset[str], NDArray[np.bool_]] = {}
        size = len(tasks)
        #: int64[n]: rows of the node, the job and the queue.
        self.node = np.fromiter((task.node for task in tasks), dtype=np.int64, count=size)
        self.job = np.fromiter((job_rows[task.job.uid] for task in tasks), dtype=np.int64, count=size)
        self.queue = np.fromiter((task.job.queue_row for task in tasks), dtype=np.int64, count=size)
        #: float64[n, R].
        self.request = np.array([task.request for task in tasks]).reshape(size, width)
        #: bool[n], all four; the last two follow the statements.
        self.preemptable = np.fromiter((task.preemptable for task in tasks), dtype=np.bool_, count=size)
        self.best_effort = np.fromiter((task.uid in best_effort for task in tasks), dtype=np.bool_, count=size)
        self.placed = np.ones(size, dtype=np.bool_)
        self.running = np.fromiter((task.state == TaskState.RUNNING for task in tasks), dtype=np.bool_, count=size)

    def exposed(self, protected: frozenset[str]) -> NDArray[np.bool_]:
        """Return bool[n]: the tasks of jobs that are not protected (by uid); not to be changed."""
        found = self._exposed.get(protected)
        if found is None:
            rows = [self._job_rows[uid] for uid in protected if uid in self._job_rows]
            found = self._exposed[protected] = ~np.isin(self.job, rows)
        return found

    def moved(self, task: Task, new: TaskState) -> None:
        """Take notice of a task's new state."""
        row = self._rows.get(task.uid)
        if row is not None:
            self.placed[row] = new in _PLACED
            self.running[row] = new == TaskState.RUNNING

    def sums(self, chosen: NDArray[np.bool_], nodes: int) -> Amounts:
        """Return float64[N, R]: what the chosen tasks (bool[n]) hold on each node."""
        rows, request = self.node[chosen], self.request[chosen]
        columns = [np.bincount(rows, request[:, column], minlength=nodes) for column in range(request.shape[1])]
        return np.stack(columns, axis=1)

    def on(self, node: int, chosen: NDArray[np.bool_]) -> list[Task]:
        """Return the chosen tasks (bool[n]) of a node."""
        return [self.tasks[row] for row in np.flatnonzero(chosen & (self.node == node)).tolist()]


class Books:
    """Sums by job, kept in step with the statements; a listener."""

    def __init__(self, kept: KeptJobs) -> None:
        self.kept = kept
        #: By uid of the job. Rows are in the order of the session's jobs; those of jobs that are gone are empty.
        self.rows: Mapping[str, int] = kept.rows
        #: Uids of the tasks that request nothing but a pod's place.
        self.best_effort: Collection[str] = kept.best_effort
        #: By row: how many pending tasks request nothing.
        self.pending_best_effort = kept.pending_best_effort
        #: float64[J, R]: what active tasks hold, what all tasks request, and what those request that wait.
        self.allocated, self.total_request, self.waiting_request = kept.sums
        self.residents = Residents(kept, self.allocated.shape[1])

    @classmethod
    def of(cls, jobs: Iterable[Job], scale: Scale) -> Books:
        """Return the books of some jobs, without anything that was kept."""
        kept = KeptJobs(scale)
        deque(kept.follow({job.uid: job for job in jobs}), maxlen=0)
        return cls(kept)

    @property
    def jobs(self) -> Collection[Job]:
        """Return the jobs, in order."""
        return self.kept.jobs

    def moved(self, task: Task, old: TaskState, new: TaskState) -> None:
        """Take notice that the state of a task changed."""
        row = self.rows.get(task.job.uid)
        if row is None:
            return
        was_active, is_active = old in ACTIVE, new in ACTIVE
        if was_active != is_active:
            if is_active:
                self.allocated[row] += task.request
            else:
                self.allocated[row] -= task.request
        if task.uid in self.best_effort:
            self.pending_best_effort[row] += (new == TaskState.PENDING) - (old == TaskState.PENDING)
        self.residents.moved(task, new)
