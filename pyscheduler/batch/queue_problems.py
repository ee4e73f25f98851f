"""What is wrong with the queue of a job: a stable reason, and a sentence that says what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyscheduler.batch.queue_table import QueueTable
    from pyscheduler.batch.tasks import Job

__all__ = ["queue_problem"]

_TEXTS: Final = {
    "QueueDoesNotExist": "{queue} does not exist; create it, or change the queue of the pod group",
    "QueueIsNotALeaf": "{queue} has child queues; put the pod group into a queue without children",
    "ParentQueueDoesNotExist": "{queue} is below a queue that does not exist; create it, or change the parent",
    "QueueCycle": "{queue} is in or below a cycle of queues; change the parent of one of them",
    "DuplicateQueue": "{queue} is defined by more than one object; delete or rename all but one",
}


def queue_problem(job: Job, queues: QueueTable) -> tuple[str, str] | None:
    """Return the reason and the message if the job cannot be scheduled because of its queue, else None."""
    reason = job.queue_error or queues.problems.get(job.queue, "")
    if not reason:
        return None
    name = f'queue "{job.queue}"'
    if not job.queue:
        return reason, "the pod group names no queue; set its queue"
    return reason, _TEXTS.get(reason, "{queue} cannot be used").format(queue=name)
