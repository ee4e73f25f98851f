"""Find out why a job cannot be scheduled in its queue; return a reason code and a message that says what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler_batch.model.queue_spec import ROOT_QUEUE

if TYPE_CHECKING:
    from pyscheduler_batch.model.queue_table import QueueTable
    from pyscheduler_batch.model.tasks import Job

__all__ = [
    "BINDING_BACKOFF",
    "HELD",
    "SCHEDULING_BACKOFF",
    "WAITING_FOR_QUOTA",
    "needs_root",
    "no_queue",
    "queue_problem",
    "queue_text",
]

WAITING_FOR_QUOTA: Final = "WaitingForQuota"
"""The reason of a job for which the quotas of its namespace have no room; a message follows it in `JobSpec.error`."""

SCHEDULING_BACKOFF: Final = "SchedulingBackoff"
"""The reason of a job that its node pool has tried in vain and does not try again; a message follows it, too."""

BINDING_BACKOFF: Final = "BindingBackoff"
"""The reason of a job of which a binding failed, or that was evicted for it; a message follows it."""

HELD: Final = frozenset({WAITING_FOR_QUOTA, SCHEDULING_BACKOFF, BINDING_BACKOFF})
"""The reasons of jobs that are as they must be, and have to wait."""

_TEXTS: Final = {
    "QueueDoesNotExist": "{queue} does not exist; create it, or change the queue of the {owner}",
    "QueueIsNotALeaf": "{queue} has child queues; put the {owner} into a queue without children",
    "ParentQueueDoesNotExist": "{queue} is below {missing}, which does not exist; create it, or change the parent",
    "QueueCycle": "{queue} is in or below a cycle of queues; change the parent of one of them",
    "InvalidMinMember": "the minimum of the pod group is not a usable number; correct spec.minMember",
    "InvalidSubGroups": "the sub-groups of the pod group make no tree of at most 64 levels; correct spec.subGroups",
    "PodGroupRequired": "the pod is in no pod group; create one and name it on the pod",
    "DuplicateQueue": "{queue} is defined by more than one object; delete or rename all but one",
}


def queue_problem(job: Job, queues: QueueTable, *, label: str = "") -> tuple[str, str] | None:
    """Return the reason and the message if the job or its queue is not as it must be, else None.

    `label`: that by which pods without a group name their queue.
    """
    problem = job.queue_error or queues.problems.get(job.queue, "")
    if not problem:
        return None
    reason, _, said = problem.partition(": ")
    if said:
        return reason, said
    is_pod = sum(job.counts) == 1 and job.uid in job.uids()  # a group has a uid of its own
    if not job.queue and reason == "QueueDoesNotExist":
        return reason, no_queue(label) if is_pod else "the pod group names no queue; set spec.queue"
    owner = "pod" if is_pod else "pod group"
    return reason, queue_text(reason, job.queue, owner, missing=queues.missing_parents.get(job.queue, ""))


def queue_text(reason: str, queue: str, owner: str = "pod group", *, missing: str = "") -> str:
    """Return what is wrong with a queue and how to mend it; `missing` is the queue above that does not exist."""
    if missing == ROOT_QUEUE:
        return f'queue "{queue}" {needs_root()}'
    above = f'the queue "{missing}"' if missing else "a queue"
    text = _TEXTS.get(reason, "{queue} cannot be used")
    return text.format(queue=f'queue "{queue}"', owner=owner, missing=above)


def needs_root() -> str:
    """Return what is wrong with a queue below the root if nobody has created that one."""
    return f'needs the queue "{ROOT_QUEUE}", which does not exist; create it'


def no_queue(label: str) -> str:
    """Return what is wrong with a pod without a group that lacks the label of its queue."""
    text = "the pod is in no pod group and names no queue"
    return f"{text}; set its label {label}" if label else text
