"""Phases and conditions of pod groups at the end of a session, as kube-batch writes them.

Source: kube-batch `framework/session.go`, `plugins/gang`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler.batch.tasks import ALLOCATED, TaskState
from pyscheduler_batch.volcano.job_facts import READY
from pyscheduler_batch.volcano.status import GroupCondition

if TYPE_CHECKING:
    from pyscheduler.batch.contract import Refusal
    from pyscheduler.batch.tasks import Job

__all__ = ["gang_condition", "group_phase"]


def group_phase(job: Job, *, is_unschedulable: bool) -> str:
    """Return the phase of the job's group; `is_unschedulable`: this session found the gang unschedulable."""
    if job.counts[TaskState.RUNNING] and is_unschedulable:
        return "Unknown"
    return "Running" if job.count(ALLOCATED) >= job.min_member else "Pending"


def gang_condition(job: Job, refusal: Refusal | None) -> GroupCondition | None:
    """Return the condition of the job's group; `refusal`: why the job was not valid when the session opened."""
    if refusal is not None:
        return GroupCondition("Unschedulable", refusal.reason, refusal.message)
    ready = job.count(READY)
    if ready >= job.min_member:
        return None
    message = f"{job.min_member - ready}/{len(job.tasks)} tasks in gang unschedulable: 0 nodes are available"
    return GroupCondition("Unschedulable", "NotEnoughResources", message)
