"""Small functions about jobs and pods that Volcano's plugins and actions share.

Source: Volcano `api/job_info.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler_batch.contract import ALLOCATED, TaskState

if TYPE_CHECKING:
    from pyscheduler_batch.contract import Job, Task

__all__ = ["READY", "is_pending", "priority_of"]

READY: Final = ALLOCATED | {TaskState.SUCCEEDED}
"""States of the tasks that count as ready."""


def is_pending(job: Job) -> bool:
    """Return whether the job is not enqueued yet."""
    return job.phase in {"", "Pending"}


def priority_of(task: Task) -> int:
    """Return the pod's priority; a pod without one counts as 1."""
    return 1 if task.priority is None else task.priority
