"""kube-batch's plugin `gang`: rules for jobs that need a minimum number of pods.

It refuses jobs that have fewer pods than their minimum.
Gangs that run no more pods than their minimum are not evicted.

Source: kube-batch `plugins/gang`, `api/job_info.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pyscheduler_batch.contract import Refusal, TaskState
from pyscheduler_volcano.job_facts import READY
from pyscheduler_volcano.policy import VolcanoPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Claim, Job, Key, Tasks

__all__ = ["Gang"]

_WAITING = READY | {TaskState.PIPELINED}
_VALID = _WAITING | {TaskState.PENDING, TaskState.GATED}


class Gang(VolcanoPolicy):
    """Refuse jobs with too few pods; protect jobs at their minimum; order jobs that are not ready before others."""

    name: ClassVar[str] = "gang"
    steps: ClassVar[Mapping[str, str]] = {"NotEnoughTasks": "pods"}

    def job_key(self, job: Job) -> Key:
        """Order jobs that are not ready first."""
        return (int(self.job_ready(job)),)

    def job_valid(self, job: Job) -> Refusal | None:
        """Refuse a job with fewer tasks than its minimum."""
        valid = job.count(_VALID)
        if valid >= job.min_member:
            return None
        message = f"Not enough valid tasks for gang-scheduling, valid: {valid}, min: {job.min_member}"
        return Refusal("NotEnoughTasks", message)

    def job_ready(self, job: Job) -> bool:
        """Return whether the minimum has nodes or is done."""
        return job.count(READY) >= job.min_member

    def job_pipelined(self, job: Job) -> int:
        """Accept if the minimum is reached with the pipelined tasks; refuse otherwise."""
        return 1 if job.count(_WAITING) >= job.min_member else -1

    def preemptable(self, claim: Claim, tasks: Tasks) -> NDArray[np.bool_]:
        """Return bool[n]: tasks of jobs that stay at their minimum without one task, or whose minimum is 1.

        Each task is compared with the same count, so several tasks together may take a job below its minimum.
        """
        allowed = [job.min_member <= job.count(READY) - 1 or job.min_member == 1 for job in tasks.jobs]
        return np.array(allowed, dtype=np.bool_)[tasks.job_of]

    reclaimable = preemptable
