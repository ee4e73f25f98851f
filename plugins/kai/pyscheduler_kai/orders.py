"""KAI's plugins: `priority` and `elastic` order jobs; `kubeflow`, `ray` and `taskorder` order the pods of a job.

Source: KAI-Scheduler, the plugins of the same names.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar, Final, cast

import numpy as np

from pyscheduler.podgroup import created_at
from pyscheduler_batch.contract import NO_NODE, Job, JobOrder, Policy, Task, TaskOrder, TaskState, plays
from pyscheduler_batch.model.tasks import make_task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyscheduler.api import Pod
    from pyscheduler_kai.gang import Gang

__all__ = ["Elastic", "Keys", "Kubeflow", "Priority", "Ray", "TaskPriority"]

_JOB_ROLE: Final = "training.kubeflow.org/job-role"
_NODE_TYPE: Final = "ray.io/node-type"
_TASK_PRIORITY: Final = "kai.scheduler/task-priority"
_LABELS: Final = frozenset({_JOB_ROLE, _NODE_TYPE, _TASK_PRIORITY})


def _label(task: Task, name: str) -> str | None:
    return None if task.pod is None else task.pod.metadata.labels.get(name)


class Priority(Policy):
    """Order jobs by priority, the highest first."""

    name: ClassVar[str] = "priority"

    def job_key(self, job: Job) -> tuple[float]:
        """Return the key of a job."""
        return (-job.priority,)


class Elastic(Policy):
    """Order jobs below their minimum first, then those at their minimum, then those above it."""

    name: ClassVar[str] = "elastic"

    def gang_key(self, gang: Gang) -> tuple[float]:
        """Return the key of a job, or of a part of it."""
        return (gang.elastic_state(),)


class Kubeflow(Policy):
    """Order masters and launchers of Kubeflow jobs first."""

    name: ClassVar[str] = "kubeflow"

    def task_key(self, task: Task) -> tuple[float]:
        """Return the key of a task."""
        return (0.0 if _label(task, _JOB_ROLE) in {"master", "launcher"} else 1.0,)


class Ray(Policy):
    """Order heads of Ray clusters first."""

    name: ClassVar[str] = "ray"

    def task_key(self, task: Task) -> tuple[float]:
        """Return the key of a task."""
        return (0.0 if _label(task, _NODE_TYPE) == "head" else 1.0,)


class TaskPriority(Policy):
    """Order tasks by the number in their label `kai.scheduler/task-priority`, the largest first."""

    name: ClassVar[str] = "taskorder"

    def task_key(self, task: Task) -> tuple[float, float]:
        """Return the key of a task; a label that is no number counts as the smallest number."""
        value = _label(task, _TASK_PRIORITY)
        if value is None:
            return (2.0, 0.0)
        try:
            return (0.0, -int(value))
        except ValueError:
            return (1.0, 0.0)


#: The orders whose keys follow from the job and its tasks alone, and so hold as long as these do not change.
_STABLE: Final = frozenset({Priority, Elastic, Kubeflow, Ray, TaskPriority})


_UID: Final = attrgetter("metadata.uid")
_WAITS: Final = (TaskState.PENDING, NO_NODE)
_PLAIN: Final = Task(uid="", job=Job(uid="", key="", queue=""), request=np.zeros(0))


class Keys:
    """The keys of jobs and tasks by all policies that order them; then age decides, then the UID."""

    def __init__(self, policies: Iterable[Policy]) -> None:
        orders = [policy for policy in policies if any(plays(policy, role) for role in (Elastic, JobOrder, TaskOrder))]
        #: Whether a key holds until the job or its tasks change.
        self.is_stable = all(type(policy) in _STABLE for policy in orders)
        self._task_orders = [cast("TaskOrder", policy) for policy in orders if plays(policy, TaskOrder)]
        #: The key of most tasks: those without the labels that the orders read.
        self._plain_key = self._orders_key(_PLAIN) if self.is_stable else None
        self._job_keys: list[Callable[[Gang], tuple[float | str, ...]]] = [
            policy.gang_key if isinstance(policy, Elastic) else _whole_job(cast("JobOrder", policy))
            for policy in orders
            if isinstance(policy, Elastic) or plays(policy, JobOrder)
        ]

    def of_task(self, task: Task) -> tuple[float | str, ...]:
        """Return the key of a task among the tasks of its job."""
        key = self._plain_key
        if key is None or not (task.pod is None or _LABELS.isdisjoint(task.pod.metadata.labels)):
            key = self._orders_key(task)
        return (*key, task.created, task.uid)

    def first_pod(self, pods: Sequence[Pod]) -> Pod:
        """Return the pod whose task has the smallest key, if keys are stable: then they follow from the pods."""
        metadata = [pod.metadata for pod in pods]
        if any(each.labels and not _LABELS.isdisjoint(each.labels) for each in metadata):
            return min(pods, key=lambda pod: self.of_task(make_task(_PLAIN.job, pod, _PLAIN.request, _WAITS)))
        if len({each.creation_timestamp for each in metadata}) == 1:
            return min(pods, key=_UID)
        return min(pods, key=lambda pod: (created_at(pod), pod.uid))

    def _orders_key(self, task: Task) -> tuple[float | str, ...]:
        key: tuple[float | str, ...] = ()
        for policy in self._task_orders:
            key += policy.task_key(task)
        return key

    def of_gang(self, gang: Gang) -> tuple[float | str, ...]:
        """Return the key of a job among the jobs of its queue; a gang that lost members comes first."""
        key: tuple[float | str, ...] = (0.0 if gang.job.is_broken else 1.0,)
        for part in self._job_keys:
            key += part(gang)
        return (*key, gang.job.created, gang.job.uid)


def _whole_job(policy: JobOrder) -> Callable[[Gang], tuple[float | str, ...]]:
    return lambda gang: policy.job_key(gang.job)
