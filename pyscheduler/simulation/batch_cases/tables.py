"""Tables of a session from plain specs, without API objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from pyscheduler.batch.axis import PODS, ResourceAxis
from pyscheduler.batch.node_table import NodeTable
from pyscheduler.batch.queue_table import QueueTable, paths_of
from pyscheduler.batch.tasks import Job, Task, TaskState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyscheduler.batch.axis import Amounts

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
    specs = {queue["name"]: queue for queue in queues}
    parents = {name: (spec.get("parent") or "root") if name != "root" else "" for name, spec in specs.items()}
    problems: dict[str, str] = {}
    ordered: list[str] = []
    for name in specs:
        path: list[str] = []
        while is_tree and name not in ordered and name:
            if name in path:
                problems[name] = "it is its own ancestor"
                break
            if name not in specs:
                problems[path[-1]] = f"its parent {name!r} does not exist"
                break
            path.append(name)
            name = parents[name]
        ordered += reversed(path) if is_tree else [name]
    index = {name: row for row, name in enumerate(ordered)}
    above = [index.get(parents[name], -1) if is_tree else -1 for name in ordered]
    # A parent that follows its child closes a cycle.
    parent = np.array([up if up < row else -1 for row, up in enumerate(above)], dtype=np.int64)
    rows = [specs[name] for name in ordered]
    size = (len(rows), len(axis))

    def column(key: str) -> Amounts:
        return np.array([axis.amounts(spec.get(key) or {}, missing=np.nan) for spec in rows]).reshape(size)

    def numbers(key: str, default: float) -> Amounts:
        return np.array([float(spec.get(key, default)) for spec in rows])

    return QueueTable(
        names=ordered,
        index=index,
        parent=parent,
        quota=column("deserved"),
        limit=column("capability"),
        guarantee=column("guarantee"),
        over_quota_weight=np.ones(size),
        weight=numbers("weight", 1),
        priority=numbers("priority", 0),
        created=numbers("created", 0),
        reclaimable=np.array([bool(spec.get("reclaimable", True)) for spec in rows], dtype=np.bool_),
        state=[spec.get("state") or "Open" for spec in rows],
        preempt_min_runtime=np.full(len(rows), np.nan),
        reclaim_min_runtime=np.full(len(rows), np.nan),
        hierarchy=[(spec.get("hierarchy", ""), spec.get("hierarchyWeights", "")) for spec in rows],
        allocated=np.zeros(size),
        non_preemptible=np.zeros(size),
        paths=paths_of(parent),
        is_leaf=np.array([row not in parent for row in range(len(rows))], dtype=np.bool_),
        problems=problems,
    )


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
