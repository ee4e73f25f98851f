"""Phases and conditions of Volcano's pod groups at the end of a scheduling round.

Source: Volcano `framework/session.go` (phases), `plugins/gang` (conditions), `api/job_info.go` (messages).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from pyscheduler_batch.contract import TaskState

if TYPE_CHECKING:
    from pyscheduler_batch.contract import Job
    from pyscheduler_volcano.session import VolcanoSession

__all__ = ["GroupCondition", "gang_condition", "group_phase"]

_SCHEDULED = (TaskState.RUNNING, TaskState.BOUND, TaskState.FAILED, TaskState.SUCCEEDED)
_COMPLETED = (TaskState.FAILED, TaskState.SUCCEEDED)
_READY = (TaskState.BOUND, TaskState.BINDING, TaskState.RUNNING, TaskState.ALLOCATED, TaskState.SUCCEEDED)


@attrs.frozen
class GroupCondition:
    """A condition with status True."""

    type: str
    reason: str
    message: str = ""


def _releasing(job: Job) -> int:
    """Return the tasks that leave a node."""
    if not job.counts[TaskState.RELEASING]:
        return 0
    return sum(task.state == TaskState.RELEASING and task.node >= 0 for task in job.tasks.values())


def group_phase(job: Job, *, is_unschedulable: bool) -> str:
    """Return the phase of the job's group; `is_unschedulable`: this session found the gang unschedulable."""
    if job.counts[TaskState.RUNNING] and is_unschedulable:
        return "Unknown"
    scheduled = job.count(_SCHEDULED) + _releasing(job)
    if scheduled >= job.min_member:
        return "Completed" if scheduled == job.count(_COMPLETED) else "Running"
    return "Inqueue" if job.phase == "Inqueue" else "Pending"


def gang_condition(job: Job, session: VolcanoSession) -> GroupCondition | None:
    """Return the condition of the job's group, or None if the gang policy says nothing about it.

    It says nothing about groups without tasks, and about groups below their minimum that reach it with the tasks that
    are leaving and have nothing pending or pipelined.
    """
    if not job.tasks:
        return None
    pending = job.counts[TaskState.PENDING] + job.counts[TaskState.GATED]
    row = session.books.rows.get(job.uid)
    best_effort = 0 if row is None else session.books.pending_best_effort[row]
    if job.count(_READY) + best_effort >= job.min_member:
        return GroupCondition("Scheduled", "tasks in gang are ready to be scheduled")
    releasing = _releasing(job)
    has_all = not pending and not job.counts[TaskState.PIPELINED]
    if releasing and has_all and job.count(_SCHEDULED) + releasing >= job.min_member:
        return None
    missing = job.min_member - job.count(_READY)
    message = f"{missing}/{len(job.tasks)} tasks in gang unschedulable: {_fit_summary(job)}"
    return GroupCondition("Unschedulable", "NotEnoughResources", message)


def _fit_summary(job: Job) -> str:
    """Return how many tasks are in which state, and the minimum."""
    counts = {state.name.capitalize(): count for state, count in zip(TaskState, job.counts, strict=True) if count}
    counts["minAvailable"] = job.min_member
    parts = sorted(f"{count} {name}" for name, count in counts.items())
    return f"pod group is not ready, {', '.join(parts)}"
