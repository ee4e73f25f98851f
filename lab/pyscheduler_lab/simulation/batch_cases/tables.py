"""Convert dicts that describe nodes, queues and jobs into the arrays and objects that a scheduling round reads."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from pyscheduler_batch.model.axis import PODS, ResourceAxis
from pyscheduler_batch.model.build import build_queues
from pyscheduler_batch.model.node_table import NodeTable
from pyscheduler_batch.model.queue_spec import QueueSpec, QueueState
from pyscheduler_batch.model.tasks import Job, Task, TaskState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyscheduler_batch.model.queue_table import QueueTable

__all__ = ["NAMESPACE", "RecordedEffects", "Spec", "Tables", "build_tables"]

NAMESPACE: Final = "ns"
_STATES: Final = {
    "Pending": TaskState.PENDING,
    "Allocated": TaskState.ALLOCATED,
    "Pipelined": TaskState.PIPELINED,
    "Running": TaskState.RUNNING,
    "Bound": TaskState.BOUND,
    "Terminating": TaskState.RELEASING,
    "Releasing": TaskState.RELEASING,
    "Succeeded": TaskState.SUCCEEDED,
    "Failed": TaskState.FAILED,
}
_HOLDS_NODE: Final = frozenset({TaskState.RUNNING, TaskState.BOUND, TaskState.RELEASING})

Spec = dict[str, Any]


@attrs.define(eq=False)
class RecordedEffects:
    """Keeps the decisions of a session; nothing fails."""

    bound: dict[str, int] = attrs.Factory(dict)
    nominated: dict[str, int] = attrs.Factory(dict)
    evicted: list[str] = attrs.Factory(list)

    def bind(self, task: Task, node: int) -> bool:
        """Keep a binding."""
        self.bound[task.uid] = node
        return True

    def nominate(self, task: Task, node: int) -> None:
        """Keep a promise."""
        self.nominated[task.uid] = node

    def evict(self, task: Task, *, action: str, by: Job | None) -> bool:  # noqa: ARG002 - the recordings name neither
        """Keep an eviction."""
        self.evicted.append(task.uid)
        return True


@attrs.frozen
class Tables:
    """The tables of a session."""

    axis: ResourceAxis
    nodes: NodeTable
    queues: QueueTable
    jobs: Mapping[str, Job]


def build_tables(
    nodes: Sequence[Spec], queues: Sequence[Spec], groups: Sequence[Spec], pods: Sequence[Spec], *, is_tree: bool
) -> Tables:
    """Return the tables of plain specs: dicts with the fields that the recordings' notice describes."""
    amounts = [node["allocatable"] for node in nodes] + [pod.get("requests", {}) for pod in pods]
    amounts += [queue.get(key) or {} for queue in queues for key in ("deserved", "capability", "guarantee")]
    amounts += [group.get("minResources") or {} for group in groups]
    axis = ResourceAxis.of(name for each in amounts for name in each)
    names = [node["name"] for node in nodes]
    offered = np.array([axis.amounts(node["allocatable"]) for node in nodes]).reshape(len(nodes), len(axis))
    table = NodeTable.of(names, offered)
    queue_table = _queue_table(queues, axis, is_tree=is_tree)
    jobs: dict[str, Job] = {}
    for group in groups:
        job = _job(group, queue_table, axis)
        jobs[job.uid] = job
    for pod in pods:
        job = jobs[f"{NAMESPACE}/{pod['group']}"]
        task = _task(pod, job, table, axis)
        job.add(task)
        if task.node >= 0:
            table.idle[task.node] -= task.request
            if task.state == TaskState.RELEASING:
                table.releasing[task.node] += task.request
            elif job.queue_row >= 0:
                queue_table.add(job.queue_row, task.request, non_preemptible=False)
    return Tables(axis, table, queue_table, jobs)


def _queue_table(queues: Sequence[Spec], axis: ResourceAxis, *, is_tree: bool) -> QueueTable:
    """Return the table of queues, parents first; without a tree all queues stand side by side."""
    specs = [
        QueueSpec(
            name=queue["name"],
            uid=queue["name"],
            dialect="volcano",
            parent=(queue.get("parent") or "root") if queue["name"] != "root" else "",
            created=queue.get("created", 0),
            priority=queue.get("priority", 0),
            weight=queue.get("weight", 1),
            quota=queue.get("deserved") or {},
            limit=queue.get("capability") or {},
            guarantee=queue.get("guarantee") or {},
            reclaimable=bool(queue.get("reclaimable", True)),
            state=QueueState(queue.get("state") or "Open"),
            hierarchy=queue.get("hierarchy", ""),
            hierarchy_weights=queue.get("hierarchyWeights", ""),
        )
        for queue in queues
    ]
    return build_queues(axis, specs, is_tree=is_tree, keep_broken=True, unset_limit=math.nan)[0]


def _job(group: Spec, queues: QueueTable, axis: ResourceAxis) -> Job:
    key = f"{NAMESPACE}/{group['name']}"
    least = group.get("minResources")
    return Job(
        uid=key,
        key=key,
        queue=group["queue"],
        queue_row=queues.index.get(group["queue"], -1),
        priority=group.get("priority", 0),
        created=group.get("created", 0.0),
        min_member=group["minMember"],
        min_task_member=group.get("minTaskMember") or {},
        min_resources=None if least is None else axis.amounts(least),
        phase=group.get("phase", ""),
    )


def _task(pod: Spec, job: Job, nodes: NodeTable, axis: ResourceAxis) -> Task:
    state = _STATES[pod["state"]]
    preemptable = pod.get("preemptable")
    return Task(
        uid=pod["name"],
        key=f"{NAMESPACE}/{pod['name']}",
        job=job,
        request=axis.amounts({PODS: 1, **pod.get("requests", {})}),
        state=state,
        node=nodes.index[pod["node"]] if state in _HOLDS_NODE else -1,
        priority=pod.get("priority"),
        created=pod.get("created", 0.0),
        role=pod.get("role", ""),
        preemptable=preemptable is None or str(preemptable).lower() in {"true", "1", "t"},
        may_preempt=pod.get("preemptionPolicy") != "Never",
    )
