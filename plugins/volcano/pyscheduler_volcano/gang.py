"""Volcano's plugin `gang`: a job starts with its minimum of pods or not at all.

Source: Volcano `plugins/gang`, `api/job_info.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pyscheduler_batch.contract import Refusal, TaskState
from pyscheduler_batch.model.sub_groups import counts_by_role, minimum_by_role_applies
from pyscheduler_volcano.job_facts import READY
from pyscheduler_volcano.policy import VolcanoPolicy
from pyscheduler_volcano.sub_jobs import PROMISED, parts_exist, parts_reach

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Claim, Job, Key, Tasks

__all__ = ["Gang"]

_VALID = PROMISED | {TaskState.PENDING, TaskState.GATED}


class Gang(VolcanoPolicy):
    """Refuse jobs with too few pods; protect jobs at their minimum; order jobs that are not ready before others."""

    name: ClassVar[str] = "gang"
    steps: ClassVar[Mapping[str, str]] = {"NotEnoughTasks": "pods", "NotEnoughPodsOfTask": "pods"}

    def ready_count(self, job: Job) -> int:
        """Return the tasks that are ready, with pending ones that request nothing."""
        books = self.session.books
        return job.count(READY) + books.pending_best_effort[books.rows[job.uid]]

    def is_ready(self, job: Job) -> bool:
        """Return whether the minimum of the whole job is ready."""
        return self.ready_count(job) >= job.min_member

    def job_key(self, job: Job) -> Key:
        """Order jobs that are not ready first."""
        return (int(self.is_ready(job)),)

    def job_valid(self, job: Job) -> Refusal | None:
        """Refuse a job with fewer tasks than its minimum, of the job or of a role, or with too few sub-groups."""
        if minimum_by_role_applies(job):
            counts = counts_by_role(job, _VALID)
            if any(minimum and counts.get(role, 0) < minimum for role, minimum in job.min_task_member.items()):
                return Refusal("NotEnoughPodsOfTask", "Not enough valid pods of each task for gang-scheduling")
        if job.sub_groups and not parts_exist(job):
            return Refusal("NotEnoughPodsOfTask", "Not enough valid subGroups of each task for gang-scheduling")
        valid = job.count(_VALID)
        if valid < job.min_member:
            message = f"Not enough valid tasks for gang-scheduling, valid: {valid}, min: {job.min_member}"
            return Refusal("NotEnoughTasks", message)
        return None

    def _roles_reach(self, job: Job, states: Collection[TaskState]) -> bool:
        if not minimum_by_role_applies(job):
            return True
        counts = counts_by_role(job, states, self.session.books.best_effort)
        return all(counts.get(role, 0) >= minimum for role, minimum in job.min_task_member.items())

    def _parts_reach(self, job: Job, states: Collection[TaskState]) -> bool:
        return self._roles_reach(job, states) and parts_reach(job, states, self.session.books.best_effort)

    def job_ready(self, job: Job) -> bool:
        """Return whether the minimums of the job, of its roles and of its sub-groups are ready."""
        return self.is_ready(job) and self._parts_reach(job, READY)

    def job_pipelined(self, job: Job) -> int:
        """Accept if the minimums are reached with the pipelined tasks; refuse otherwise."""
        waiting = job.counts[TaskState.PIPELINED]
        reached = self.ready_count(job) + waiting >= job.min_member and self._parts_reach(job, PROMISED)
        return 1 if reached else -1

    def job_starving(self, job: Job) -> bool:
        """Return whether ready and pipelined tasks are below the minimum; pending best-effort tasks do not help."""
        return job.count(PROMISED) < job.min_member

    def preemptable(self, claim: Claim, tasks: Tasks) -> NDArray[np.bool_]:
        """Return bool[n]: per job, in the order given, as many tasks as it has beyond its minimum."""
        surplus = [job.count(READY) - job.min_member for job in tasks.jobs]
        chosen = np.zeros(len(tasks), dtype=np.bool_)
        for at, job in enumerate(tasks.job_of.tolist()):
            if surplus[job] > 0:
                surplus[job] -= 1
                chosen[at] = True
        return chosen

    reclaimable = preemptable
