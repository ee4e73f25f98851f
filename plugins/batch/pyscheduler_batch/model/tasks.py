"""The jobs and tasks of a scheduling round.

A job is a pod group with its pods, or a pod without a group; a task is a pod of a job.
"""

from __future__ import annotations

from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import attrs

from pyscheduler.podgroup import created_at

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from pyscheduler.api import Pod
    from pyscheduler_batch.model.axis import Amounts

__all__ = [
    "ACTIVE",
    "ALIVE",
    "ALLOCATED",
    "NOTHING",
    "NO_NODE",
    "Job",
    "SubGroup",
    "Task",
    "TaskState",
    "is_critical",
    "make_task",
    "state_of_waiting",
]

NO_NODE: Final = -1
_CRITICAL: Final = frozenset({"system-cluster-critical", "system-node-critical"})


class TaskState(IntEnum):
    """The state of a task within a session. Allocated, Pipelined and (by an eviction) Releasing exist in thought."""

    PENDING = 0
    GATED = 1
    #: Placed on free resources, not yet sent to binding.
    ALLOCATED = 2
    #: Placed on resources that are still being released; a promise.
    PIPELINED = 3
    #: Sent to binding.
    BINDING = 4
    BOUND = 5
    RUNNING = 6
    #: Being deleted, or evicted in this session; still holds its node.
    RELEASING = 7
    SUCCEEDED = 8
    FAILED = 9
    UNKNOWN = 10


ALLOCATED: Final = frozenset({TaskState.ALLOCATED, TaskState.BINDING, TaskState.BOUND, TaskState.RUNNING})
#: What counts in the sums of queues.
ACTIVE: Final = ALLOCATED | {TaskState.PIPELINED}
ALIVE: Final = ACTIVE | {TaskState.PENDING, TaskState.GATED}


#: What many jobs have in common: no sub-groups, and no minima of roles.
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@attrs.define(eq=False, kw_only=True, weakref_slot=False)
class Task:
    """A pod of a job. Only a statement changes `state`, `node` and `leaving`."""

    uid: str
    job: Job
    #: float64[R] of the session's axis; read-only. `pods` is 1.
    request: Amounts
    state: TaskState = TaskState.PENDING
    #: Row in the node table, or -1.
    node: int = NO_NODE
    #: Rows of the nodes that a moved task (evicted, then pipelined to another node) still holds.
    leaving: tuple[int, ...] = ()
    #: The pod's own priority; None if the pod has none.
    priority: int | None = None
    #: Seconds since 1970.
    created: float = 0.0
    #: Name of the leaf sub-group; "" for the job itself.
    sub_group: str = ""
    #: Volcano's `volcano.sh/task-spec`.
    role: str = ""
    #: Whether evictions for other jobs may take it, as the pod's own settings say.
    preemptable: bool = True
    #: False if the pod's preemptionPolicy is Never.
    may_preempt: bool = True
    #: A pod of kube-system, or of the priority class system-cluster-critical or system-node-critical.
    critical: bool = False
    pod: Pod | None = None
    #: `namespace/name` of a task without a pod. Those of pods need no memory.
    _key: str = ""

    @property
    def key(self) -> str:
        """Return `namespace/name`."""
        return self._key or (self.pod.key if self.pod is not None else self.uid)

    def __repr__(self) -> str:
        return f"Task({self.key}, {self.state.name})"


@attrs.define(eq=False, kw_only=True)
class SubGroup:
    """A node of a job's tree of sub-groups. Only leaves hold tasks."""

    name: str
    parent: str = ""
    min_member: int = 1
    #: How many children must be satisfied; None means all.
    min_sub_group: int | None = None
    #: KAI's `topologyConstraint`, Volcano's `networkTopology`, as in the object.
    topology: Mapping[str, object] = NOTHING
    #: Whether the labels of tasks make sub-groups of it, `NAME/VALUES`, which need `min_member` tasks each (Volcano).
    is_policy: bool = False


def is_critical(pod: Pod) -> bool:
    """Return whether the cluster needs the pod to work; nobody evicts it. Source: Volcano, plugin conformance."""
    return pod.namespace == "kube-system" or (pod.spec.priority_class_name or "") in _CRITICAL


def make_task(job: Job, pod: Pod, request: Amounts, place: tuple[TaskState, int], **facts: Any) -> Task:
    """Return the task of a pod. `place`: state and row of the node; `facts`: what the dialect reads of the pod."""
    state, node = place
    spec = pod.spec
    return Task(
        uid=pod.metadata.uid,
        job=job,
        request=request,
        state=state,
        node=node,
        priority=spec.priority,
        created=created_at(pod),
        may_preempt=spec.preemption_policy != "Never",
        critical=is_critical(pod),
        pod=pod,
        **facts,
    )


def state_of_waiting(pod: Pod) -> TaskState:
    """Return the state of a pod without a node."""
    return TaskState.GATED if pod.spec.scheduling_gates else TaskState.PENDING


@attrs.define(eq=False, kw_only=True, weakref_slot=False)
class Job:
    """A pod group with its tasks.

    Most jobs only wait. So the tasks of a job whose pods are alike are made when somebody asks for them.
    """

    uid: str
    #: `namespace/name`.
    key: str
    #: Name of the leaf queue.
    queue: str
    #: Row in the queue table, or -1 if the job cannot be scheduled in a queue; `queue_error` then says why.
    queue_row: int = -1
    queue_error: str = ""
    #: Value of the priority class.
    priority: float = 0
    created: float = 0.0
    min_member: int = 1
    min_sub_group: int | None = None
    sub_groups: Mapping[str, SubGroup] = NOTHING
    min_task_member: Mapping[str, int] = NOTHING
    #: float64[R], or None if the group declares none.
    min_resources: Amounts | None = None
    #: The same by name, with resources that the axis lacks, such as `requests.cpu`; units as in `amounts_of`.
    min_amounts: Mapping[str, float] = NOTHING
    preemptible: bool = True
    #: When the job last went from nothing to bound; None if never, and in other presets than KAI's.
    #: Seconds since 1970, as all times here.
    last_start: float | None = None
    stale_since: float | None = None
    #: By uid of a task that was placed and is not bound in the API, because its binding failed: when it failed last.
    lost: Mapping[str, float] = attrs.field(default=NOTHING, init=False)
    #: By name of a sub-group, "" for the job, the smallest minimum that it had since it started: see `sub_groups`.
    reached: Mapping[str, int] = NOTHING
    #: Whether the job lost nodes of the minimum that it had, without an eviction: it comes first in its queue.
    is_broken: bool = False
    #: Seconds; negative means never; None means the default of the preset.
    staleness_grace: float | None = None
    preemption_delay: float = 0.0
    #: Seconds after its creation at which the job must not wait any longer (Volcano's sla); None if it sets none.
    waiting_time: float | None = None
    #: When a pass last evicted tasks of the job to make room; None if never.
    last_eviction: float | None = None
    phase: str = ""
    #: KAI's `topologyConstraint`, Volcano's `networkTopology`, as in the object.
    topology: Mapping[str, object] = NOTHING
    #: float64[R], read-only: what each task requests, if all tasks request the same, and no pod names a sub-group, a
    #: role or a protection of its own. None: tasks differ, or were added one by one.
    alike: Amounts | None = None
    #: Number of tasks by state.
    counts: list[int] = attrs.field(factory=lambda: [0] * len(TaskState))
    #: How many times the state of a task changed; for caches.
    changes: int = 0
    #: Jobs of one waiting pod with the same number differ in age and name only; None for a job unlike all others.
    look_alike: int | None = None
    _tasks: dict[str, Task] | None = attrs.field(default=None, init=False)
    #: The pods of which the tasks are made, and the state and node of each; no places if all wait.
    _pods: Sequence[Pod] = attrs.field(default=(), init=False)
    _places: Sequence[tuple[TaskState, int]] = attrs.field(default=(), init=False)

    @property
    def tasks(self) -> Mapping[str, Task]:
        """Return the tasks by uid, in the order of arrival."""
        return self._made() if self._tasks is None else self._tasks

    def _made(self) -> dict[str, Task]:
        made = self._tasks = {}
        if self.alike is not None:
            for pod, place in self._members():
                task = make_task(self, pod, self.alike, place)
                made[task.uid] = task
            self._pods = self._places = ()
        return made

    def _members(self) -> Iterator[tuple[Pod, tuple[TaskState, int]]]:
        """Return the pods whose tasks are not made yet, with their states and nodes."""
        if self._places:
            return zip(self._pods, self._places, strict=True)
        return ((pod, (state_of_waiting(pod), NO_NODE)) for pod in self._pods)

    def add(self, task: Task) -> None:
        """Add a task in its present state."""
        (self._made() if self._tasks is None else self._tasks)[task.uid] = task
        self.counts[task.state] += 1

    def add_alike(self, request: Amounts, pods: Sequence[Pod], places: Sequence[tuple[TaskState, int]]) -> None:
        """Add the pods of a job without tasks, all alike. `places`: the state and node of each; none if all wait."""
        self.alike, self._pods, self._places = request, pods, places
        if not places:
            gated = sum(1 for pod in pods if pod.spec.scheduling_gates)
            self.counts[TaskState.GATED] += gated
            self.counts[TaskState.PENDING] += len(pods) - gated
        for state, _ in places:
            self.counts[state] += 1

    def uids(self) -> Iterable[str]:
        """Return the uids of the tasks, in the order of arrival."""
        return [pod.metadata.uid for pod in self._pods] if self._tasks is None else self._tasks

    def pods(self, states: Container[TaskState]) -> Sequence[Pod]:
        """Return the pods of the tasks in these states, in the order of arrival."""
        if self._tasks is None:
            if not self._places and not self.counts[TaskState.GATED]:
                return self._pods if TaskState.PENDING in states else ()
            return [pod for pod, place in self._members() if place[0] in states]
        return [task.pod for task in self._tasks.values() if task.pod is not None and task.state in states]

    def count(self, states: Iterable[TaskState]) -> int:
        """Return the number of tasks in one of the states."""
        counts, total = self.counts, 0
        for state in states:
            total += counts[state]
        return total

    def __repr__(self) -> str:
        return f"Job({self.key})"
