"""What the policies and actions of Volcano ask about jobs and tasks. Source: Volcano `api/job_info.go`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler.batch.tasks import ALLOCATED, TaskState

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyscheduler.batch.tasks import Job, Task

__all__ = ["READY", "is_pending", "minimum_by_role_applies", "priority_of", "roles"]

READY: Final = ALLOCATED | {TaskState.SUCCEEDED}
"""States of the tasks that count as ready."""


def is_pending(job: Job) -> bool:
    """Return whether the job is not enqueued yet."""
    return job.phase in {"", "Pending"}


def priority_of(task: Task) -> int:
    """Return the pod's priority; a pod without one counts as 1."""
    return 1 if task.priority is None else task.priority


def minimum_by_role_applies(job: Job) -> bool:
    """Return whether the minimums by role count: they do unless they add up to more than the job's minimum."""
    return bool(job.min_task_member) and job.min_member >= sum(job.min_task_member.values())


def roles(job: Job, states: Collection[TaskState], pending: Collection[str] = ()) -> dict[str, int]:
    """Return by role the number of tasks in the states, and of pending tasks with these uids."""
    counts: dict[str, int] = {}
    for task in job.tasks.values():
        if task.state in states or (task.state == TaskState.PENDING and task.uid in pending):
            counts[task.role] = counts.get(task.role, 0) + 1
    return counts
