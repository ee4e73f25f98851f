"""What a session keeps about jobs and about the tasks on nodes, so that nothing is counted twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pyscheduler.batch.tasks import ACTIVE, TaskState

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from pyscheduler.batch.axis import Amounts
    from pyscheduler.batch.tasks import Job, Task
    from pyscheduler_batch.volcano.amounts import Scale

__all__ = ["Books", "Residents"]

_PLACED = (TaskState.BOUND, TaskState.RUNNING)
_WAITING = (TaskState.PENDING, TaskState.GATED)


class Residents:
    """The tasks that hold nodes at the begin of the session, as columns; candidates for eviction."""

    def __init__(self, jobs: Sequence[Job], best_effort: set[str], width: int) -> None:
        tasks = [task for job in jobs for task in job.tasks.values() if task.node >= 0 and task.state in _PLACED]
        #: In the order of jobs and, within them, of arrival.
        self.tasks: Sequence[Task] = tasks
        self._rows = {task.uid: row for row, task in enumerate(tasks)}
        self._job_rows = job_rows = {job.uid: row for row, job in enumerate(jobs)}
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

    def exposed(self, protected: Collection[str]) -> NDArray[np.bool_]:
        """Return bool[n]: the tasks of jobs that are not protected (by uid)."""
        rows = [self._job_rows[uid] for uid in protected if uid in self._job_rows]
        return ~np.isin(self.job, rows)

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


class _Requests:
    """The different requests of tasks. Equal ones are the same array as a rule, so they are known by identity."""

    def __init__(self, scale: Scale) -> None:
        self._scale = scale
        self._kinds: dict[int, int] = {}
        self._arrays: list[Amounts] = []
        #: By kind.
        self.is_empty: list[bool] = []

    def kind(self, request: Amounts) -> int:
        """Return the number of a request."""
        kind = self._kinds.get(id(request))
        if kind is None:
            kind = self._kinds[id(request)] = len(self._arrays)
            self._arrays.append(request)
            self.is_empty.append(self._scale.is_empty(request))
        return kind

    def sums(self, tasks: tuple[list[int], list[int]], jobs: int, width: int) -> Amounts:
        """Return float64[J, R]: the sums of tasks, given as rows of jobs and kinds of requests."""
        total = np.zeros((jobs, width))
        rows, kinds = tasks
        if rows:
            np.add.at(total, rows, np.array(self._arrays)[kinds])
        return total


class Books:
    """Sums by job, kept in step with the statements; a listener."""

    def __init__(self, jobs: Sequence[Job], scale: Scale) -> None:
        self.jobs: Sequence[Job] = jobs
        #: By uid of the job.
        self.rows = {job.uid: row for row, job in enumerate(jobs)}
        width = len(scale.tolerance)
        #: Uids of the tasks that request nothing but a pod's place.
        self.best_effort: set[str] = set()
        #: By row: how many pending tasks request nothing.
        self.pending_best_effort = [0] * len(jobs)
        requests = _Requests(scale)
        all_tasks: tuple[list[int], list[int]] = [], []
        active: tuple[list[int], list[int]] = [], []
        waiting: tuple[list[int], list[int]] = [], []
        for row, job in enumerate(jobs):
            for task in job.tasks.values():
                kind, state = requests.kind(task.request), task.state
                all_tasks[0].append(row)
                all_tasks[1].append(kind)
                if state in ACTIVE:
                    active[0].append(row)
                    active[1].append(kind)
                elif state in _WAITING:
                    waiting[0].append(row)
                    waiting[1].append(kind)
                if requests.is_empty[kind]:
                    self.best_effort.add(task.uid)
                    self.pending_best_effort[row] += state == TaskState.PENDING
        #: float64[J, R]: what active tasks hold, what all tasks request, and what those request that wait.
        self.allocated = requests.sums(active, len(jobs), width)
        self.total_request = requests.sums(all_tasks, len(jobs), width)
        self.waiting_request = requests.sums(waiting, len(jobs), width)
        self.residents = Residents(jobs, self.best_effort, width)

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
