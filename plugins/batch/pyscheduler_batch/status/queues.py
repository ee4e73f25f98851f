"""Sum up the resources that the jobs of each queue hold and request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler_batch.model.tasks import TaskState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyscheduler.api import Pod
    from pyscheduler_batch.model.axis import Amounts, ResourceAxis
    from pyscheduler_batch.model.queue_spec import QueueSpec
    from pyscheduler_batch.model.tasks import Job

__all__ = ["JobSums", "QueueBook", "QueueSums", "sums_of"]

#: The states of tasks that may be on a node. A pass may have moved a task in thought.
_PLACED: Final = frozenset({TaskState.PIPELINED, TaskState.BOUND, TaskState.RUNNING, TaskState.RELEASING})
#: Of tasks that count only while they hold a node, and of those that never count.
_LEAVING: Final = frozenset({TaskState.RELEASING})
_ENDED: Final = frozenset({TaskState.SUCCEEDED, TaskState.FAILED})


@attrs.define
class QueueSums:
    """Amounts by resource: what bound pods hold, those of jobs that may not be evicted, and what all pods request."""

    allocated: dict[str, float] = attrs.Factory(dict)
    non_preemptible: dict[str, float] = attrs.Factory(dict)
    requested: dict[str, float] = attrs.Factory(dict)

    def add(self, other: QueueSums, sign: int = 1) -> None:
        """Add other sums, or with the sign -1 take them out."""
        for name in ("allocated", "non_preemptible", "requested"):
            mine: dict[str, float] = getattr(self, name)
            for resource, amount in getattr(other, name).items():
                mine[resource] = mine.get(resource, 0.0) + sign * amount
                if not mine[resource]:
                    del mine[resource]


@attrs.frozen
class JobSums:
    """The amounts that a job adds to its queue."""

    queue: str
    sums: QueueSums


def sums_of(job: Job, axis: ResourceAxis, holds_node: Callable[[Pod], bool]) -> JobSums:
    """Return what the tasks of a job hold and request. `holds_node`: bound in the API, and not being deleted."""
    if job.alike is not None:
        gone = sum(not holds_node(pod) for pod in job.pods(_LEAVING)) if job.count(_LEAVING) else 0
        requested = job.alike * (sum(job.counts) - job.count(_ENDED) - gone)
        allocated = job.alike * sum(map(holds_node, job.pods(_PLACED)))
    else:
        allocated, requested = axis.zeros(), axis.zeros()
        for task in job.tasks.values():
            holds = task.state in _PLACED and task.pod is not None and holds_node(task.pod)
            if holds:
                allocated += task.request
            if holds or not (task.state in _ENDED or task.state in _LEAVING):
                requested += task.request
    held = _mapping(axis, allocated)
    sums = QueueSums(held, {} if job.preemptible else held, _mapping(axis, requested))
    return JobSums(job.queue, sums)


def _mapping(axis: ResourceAxis, amounts: Amounts) -> dict[str, float]:
    return {name: amount for name, amount in axis.mapping(amounts).items() if amount}


class QueueBook:
    """The sums by queue, of the jobs of all profiles that use the same queues."""

    def __init__(self) -> None:
        self._jobs: dict[str, JobSums] = {}
        #: By name of the queue, what its own jobs add up to.
        self.own: dict[str, QueueSums] = {}

    def put(self, uid: str, job: JobSums | None) -> bool:
        """Replace what a job adds; None if the job is gone. Return whether a sum changed."""
        before = self._jobs.pop(uid, None)
        if job is not None:
            self._jobs[uid] = job
        if before == job:
            return False
        for each, sign in ((before, -1), (job, 1)):
            if each is not None:
                self.own.setdefault(each.queue, QueueSums()).add(each.sums, sign)
        return True

    def totals(self, specs: Iterable[QueueSpec]) -> dict[str, QueueSums]:
        """Return the sums by queue with those of all queues below; a cycle or a missing parent ends the way up."""
        parents = {spec.name: spec.parent for spec in specs}
        totals = {name: QueueSums() for name in parents}
        for name, sums in self.own.items():
            seen: set[str] = set()
            at = name
            while at in parents and at not in seen:
                seen.add(at)
                totals[at].add(sums)
                at = parents[at]
        return totals
