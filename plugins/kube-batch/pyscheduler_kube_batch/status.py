"""Phases and conditions of pod groups at the end of a scheduling round, as kube-batch writes them.

Source: kube-batch `framework/session.go`, `plugins/gang`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler_batch.contract import ALLOCATED, TaskState
from pyscheduler_volcano.job_facts import READY
from pyscheduler_volcano.status import GroupCondition

if TYPE_CHECKING:
    from pyscheduler_batch.contract import Job, Refusal

__all__ = ["RUNNING", "gang_condition", "group_phase", "unschedulable"]

RUNNING: Final = "Running"
#: What kube-batch says if it recorded for no node what is missing there.
_NO_NODES: Final = "0 nodes are available"


def group_phase(job: Job, *, is_unschedulable: bool) -> str:
    """Return the phase of the job's group; `is_unschedulable`: this session found the gang unschedulable."""
    if job.counts[TaskState.RUNNING] and is_unschedulable:
        return "Unknown"
    return RUNNING if job.count(ALLOCATED) >= job.min_member else "Pending"


def gang_condition(job: Job, refusal: Refusal | None) -> GroupCondition | None:
    """Return the condition of the job's group; `refusal`: why the job was not valid when the session opened."""
    if refusal is not None:
        return GroupCondition("Unschedulable", refusal.reason, refusal.message)
    ready = job.count(READY)
    if ready >= job.min_member:
        return None
    return GroupCondition("Unschedulable", "NotEnoughResources", unschedulable(job, job.min_member - ready))


def unschedulable(job: Job, count: int, reasons: str = "") -> str:
    """Return the message that `count` tasks of a gang find no node; `reasons`: why the job waits, if that is known."""
    return f"{count}/{len(job.tasks)} tasks in gang unschedulable: {reasons or _NO_NODES}"
