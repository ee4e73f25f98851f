"""Helpers for a scheduling round: convert a pod's requests to an array, get a pod's state, and find a job's queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler.framework.resource import CPU, EPHEMERAL_STORAGE, MEMORY
from pyscheduler_batch.model.axis import PODS
from pyscheduler_batch.model.tasks import TaskState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler.api import Pod
    from pyscheduler.framework.resource import Resource
    from pyscheduler_batch.model.axis import Amounts, ResourceAxis
    from pyscheduler_batch.model.queue_table import QueueTable
    from pyscheduler_batch.model.tasks import Job

__all__ = ["NOT_A_LEAF", "NO_QUEUE", "PodAmounts", "find_queue", "state_on_node"]

#: Reasons for which a job is in no queue.
NO_QUEUE: Final = "QueueDoesNotExist"
NOT_A_LEAF: Final = "QueueIsNotALeaf"


class PodAmounts:
    """The requests of pods as amounts of an axis."""

    def __init__(self, axis: ResourceAxis) -> None:
        self._axis = axis
        self._known: dict[tuple[object, ...], Amounts] = {}

    def of(self, resource: Resource, more: Mapping[str, float] | None = None) -> Amounts:
        """Return float64[R], read-only and shared between equal requests; one pod. `more`: what counts besides."""
        scalars = tuple(resource.scalars.items())
        beside = tuple(more.items()) if more else ()
        key = (resource.milli_cpu, resource.memory, resource.ephemeral_storage, scalars, beside)
        found = self._known.get(key)
        if found is None:
            values: dict[str, float] = {CPU: resource.milli_cpu, MEMORY: resource.memory, PODS: 1, **resource.scalars}
            values[EPHEMERAL_STORAGE] = resource.ephemeral_storage
            found = self._known[key] = self._axis.amounts(values) + (self._axis.amounts(more) if more else 0.0)
            found.flags.writeable = False
        return found


def state_on_node(pod: Pod) -> TaskState:
    """Return the state of a pod that has a node and stays there."""
    return TaskState.RUNNING if pod.status.phase == "Running" else TaskState.BOUND


def find_queue(job: Job, queues: QueueTable, problems: Mapping[str, str], *, keeps_row: bool) -> None:
    """Set the queue of a job, or why it can be in none. `keeps_row`: a job in a queue with children has its row."""
    job.queue_row = queues.index.get(job.queue, -1)
    if job.queue_row < 0:
        job.queue_error = problems.get(job.queue, NO_QUEUE)
    elif not queues.is_leaf[job.queue_row]:
        job.queue_error = NOT_A_LEAF
        if not keeps_row:
            job.queue_row = -1
