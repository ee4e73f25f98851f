"""KAI's texts for the events that announce evictions.

Source: KAI-Scheduler `api/unschedule_info.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler_batch.contract import Job, Task

__all__ = ["evict_note"]

#: How many pods an event names.
_NAMED: Final = 3
_CONSOLIDATED: Final = "preempted and rescheduled due to bin packing (resource consolidation) procedure"


def evict_note(job: Job, tasks: Sequence[Task], action: str, by: Job | None) -> str:
    """Return why these tasks of a job are evicted; `by`: the job that gets the room."""
    names = ", ".join(task.key for task in tasks[:_NAMED])
    if len(tasks) > _NAMED:
        names += f" and {len(tasks) - _NAMED} more"
    if by is None:
        minimum = f"the minimum required number of pods ({job.min_member})"
        return f"Workload doesn't meet {minimum}, evicting remaining pod{'s' * (len(tasks) > 1)}: {names}"
    subject = f"Pod {names} was" if len(tasks) == 1 else f"Pods {names} were"
    if action == "consolidation":
        return f"{subject} {_CONSOLIDATED}"
    return f"{subject} preempted by {'higher priority ' if action == 'preempt' else ''}workload {by.key}"
