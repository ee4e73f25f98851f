"""kube-batch's plugin `priority`: jobs of high priority are placed first, and may preempt jobs of lower priority.

Source: kube-batch `plugins/priority`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pyscheduler_volcano.job_facts import priority_of
from pyscheduler_volcano.policy import VolcanoPolicy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Claim, Job, Key, Task, Tasks

__all__ = ["Priority"]


class Priority(VolcanoPolicy):
    """Order jobs and tasks by priority; let jobs preempt jobs of lower priority."""

    name: ClassVar[str] = "priority"

    def job_key(self, job: Job) -> Key:
        """Order jobs by the priority of their class, the highest first."""
        return (-job.priority,)

    def task_key(self, task: Task) -> Key:
        """Order tasks by the priority of their pod, the highest first."""
        return (-priority_of(task),)

    def preemptable(self, claim: Claim, tasks: Tasks) -> NDArray[np.bool_]:
        """Return bool[n]: the tasks of jobs with lower priority."""
        return np.array([job.priority < claim.job.priority for job in tasks.jobs], dtype=np.bool_)[tasks.job_of]
