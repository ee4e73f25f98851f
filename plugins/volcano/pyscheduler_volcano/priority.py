"""Volcano's plugin `priority`: jobs and pods of high priority are placed first.

A job may preempt jobs of lower priority.

Source: Volcano `plugins/priority`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pyscheduler_batch.contract import TaskState
from pyscheduler_volcano.job_facts import READY, priority_of
from pyscheduler_volcano.policy import VolcanoPolicy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Claim, Job, Key, Task, Tasks

__all__ = ["Priority"]


class Priority(VolcanoPolicy):
    """Order jobs and tasks by priority; let jobs preempt jobs, and own tasks, of lower priority."""

    name: ClassVar[str] = "priority"

    def job_key(self, job: Job) -> Key:
        """Order jobs by the priority of their class, the highest first."""
        return (-job.priority,)

    def task_key(self, task: Task) -> Key:
        """Order tasks by the priority of their pod, the highest first."""
        return (-priority_of(task),)

    def preemptable(self, claim: Claim, tasks: Tasks) -> NDArray[np.bool_]:
        """Return bool[n]: tasks of jobs with lower priority, and tasks with lower priority of the own job."""
        mine = claim.job
        lower = np.array([job.priority < mine.priority for job in tasks.jobs], dtype=np.bool_)[tasks.job_of]
        if mine in tasks.jobs and claim.task is not None:
            own = np.array([task.job is mine for task in tasks.tasks], dtype=np.bool_)
            limit = priority_of(claim.task)
            lower[own] = [priority_of(task) < limit for task in tasks.tasks if task.job is mine]
        return lower

    def job_starving(self, job: Job) -> bool:
        """Return whether some tasks are neither ready nor pipelined."""
        return job.count(READY) + job.counts[TaskState.PIPELINED] < len(job.tasks)
