"""Jobs and tasks of a session: a job is a pod group with its pods, or a pod without a group; a task is a pod."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyscheduler.api import Pod
    from pyscheduler.batch.axis import Amounts

__all__ = ["ACTIVE", "ALIVE", "ALLOCATED", "NO_NODE", "Job", "SubGroup", "Task", "TaskState"]

NO_NODE: Final = -1


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


@attrs.define(eq=False, kw_only=True)
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
    topology: Mapping[str, object] = attrs.Factory(dict)


@attrs.define(eq=False, kw_only=True)
class Job:
    """A pod group with its tasks."""

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
    sub_groups: Mapping[str, SubGroup] = attrs.Factory(dict)
    min_task_member: Mapping[str, int] = attrs.Factory(dict)
    #: float64[R], or None if the group declares none.
    min_resources: Amounts | None = None
    preemptible: bool = True
    #: When the job last went from nothing to bound; None if never. Seconds since 1970, as all times here.
    last_start: float | None = None
    stale_since: float | None = None
    #: Whether the job had its minimum of nodes, and lost some of them without an eviction: it comes first in its queue.
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
    topology: Mapping[str, object] = attrs.Factory(dict)
    #: In the order of arrival; `add` puts a task in.
    tasks: dict[str, Task] = attrs.Factory(dict)
    #: Number of tasks by state.
    counts: list[int] = attrs.field(factory=lambda: [0] * len(TaskState))
    #: How many times the state of a task changed; for caches.
    changes: int = 0
    #: Jobs of one waiting pod with the same number differ in age and name only; None for a job unlike all others.
    look_alike: int | None = None

    def add(self, task: Task) -> None:
        """Add a task in its present state."""
        self.tasks[task.uid] = task
        self.counts[task.state] += 1

    def count(self, states: Iterable[TaskState]) -> int:
        """Return the number of tasks in one of the states."""
        return sum(self.counts[state] for state in states)

    def __repr__(self) -> str:
        return f"Job({self.key})"
