"""A value that changes if a preemptible job gets, loses or changes its nodes.

A failed search for victims is not repeated while this value and the other inputs of the search stay equal.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Final

import msgspec

from pyscheduler_batch.contract import ACTIVE, ALLOCATED
from pyscheduler_batch.gpu_sharing.device_shares import SHARE_ANNOTATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyscheduler_batch.contract import Job, Task

__all__ = ["PlacedJobs", "placed_facts"]

#: Jobs with more tasks are never equal to what they were.
_MOST_TASKS: Final = 16
#: With more changes, all jobs count as changed.
_MOST_CHANGES: Final = 256

_Facts = tuple[object, ...] | None


class PlacedJobs:
    """The preemptible jobs with placed tasks, as differences from an unknown state with a number.

    Nothing is read of jobs until somebody asks for the state.
    """

    def __init__(self) -> None:
        self._base = 0
        self._is_followed = False
        #: By uid; None for a job that is not placed.
        self._changed: dict[str, _Facts] = {}

    def note(self, uid: str, before: Job | None, after: Job | None) -> None:
        """Take notice that a job was built anew; None for one that is gone or may not be evicted."""
        if not self._is_followed or before is after:
            return
        facts = placed_facts(after)
        if uid not in self._changed and placed_facts(before) == facts:
            return
        self._changed[uid] = facts
        self._is_followed = len(self._changed) <= _MOST_CHANGES

    def state(self, moved: Iterable[Job]) -> tuple[int, Mapping[str, _Facts]]:
        """Return what is equal as long as the same jobs are placed. `moved`: jobs that this pass placed."""
        if not self._is_followed:
            self._is_followed = True
            self._base += 1
            self._changed.clear()
        return self._base, {**self._changed, **{job.uid: placed_facts(job) for job in moved}}


def placed_facts(job: Job | None) -> _Facts:
    """Return what decisions depend on; None for a job without placed tasks."""
    if job is None or not job.count(ACTIVE):
        return None
    if sum(job.counts) > _MOST_TASKS:
        return (object(),)
    tasks = [_task_facts(task) for task in sorted(job.tasks.values(), key=attrgetter("uid"))]
    return (
        job.queue_row,
        job.priority,
        job.created,
        job.min_member,
        job.min_sub_group,
        job.sub_groups,
        job.topology,
        job.is_broken,
        tasks,
    )


def _task_facts(task: Task) -> _Facts:
    """Return what decisions depend on. The states of a task that holds a node count as one."""
    state = "placed" if task.state in ALLOCATED else task.state
    facts = (task.uid, state, task.node, task.leaving, task.request.tobytes(), task.sub_group, task.created)
    if task.pod is None:
        return facts
    spec = msgspec.structs.replace(task.pod.spec, node_name="")
    share = [*map(task.pod.annotations.get, SHARE_ANNOTATIONS)]
    return (*facts, spec, share, task.pod.metadata.labels, task.pod.status.nominated_node_name)
