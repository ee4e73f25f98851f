"""The words of eviction events, by system.

Sources: KAI-Scheduler `api/unschedule_info.go`; Volcano `scheduler/cache/cache.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.batch.tasks import Job, Task

__all__ = ["evict_note", "pod_note"]

#: How many pods an event names.
_NAMED: Final = 3
_CONSOLIDATED: Final = "preempted and rescheduled due to bin packing (resource consolidation) procedure"


def evict_note(preset: str, job: Job, tasks: Sequence[Task], *, action: str, by: Job | None) -> str:
    """Return the note of the event `Evict` on a group, with the action, the job that gets the room and the number."""
    facts = f"action={action}" + ("" if by is None else f" by={by.key}") + f" pods={len(tasks)}"
    return f"{_kai(job, tasks, action, by) if preset == 'kai' else pod_note(action)} ({facts})"


def pod_note(action: str) -> str:
    """Return the note of Volcano's event `Evict` on a pod."""
    return f"Pod is evicted, because of {action}"


def _kai(job: Job, tasks: Sequence[Task], action: str, by: Job | None) -> str:
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
