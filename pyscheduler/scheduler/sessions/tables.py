"""Read the cluster into the tables of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from pyscheduler.batch.axis import CPU, MEMORY, PODS, ResourceAxis
from pyscheduler.batch.build import QueueProblems, build_job, build_queues
from pyscheduler.batch.node_table import NodeTable
from pyscheduler.batch.tasks import ACTIVE, NO_NODE, Job, Task, TaskState
from pyscheduler.framework.resource import EPHEMERAL_STORAGE
from pyscheduler.podgroup import created_at

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pyscheduler.api import Pod
    from pyscheduler.batch.axis import Amounts
    from pyscheduler.batch.plugin import BatchPlugin
    from pyscheduler.batch.queue_table import QueueTable
    from pyscheduler.cache.snapshot import Snapshot
    from pyscheduler.framework.node_info import NodeInfo
    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.framework.resource import Resource

__all__ = ["NOT_A_LEAF", "NO_QUEUE", "Tables", "read_tables", "resource_amounts"]

#: Reasons for which a job is in no queue.
NO_QUEUE: Final = "QueueDoesNotExist"
NOT_A_LEAF: Final = "QueueIsNotALeaf"


@attrs.define(eq=False, kw_only=True)
class Tables:
    """The tables of a session, and the pods behind them."""

    axis: ResourceAxis
    nodes: NodeTable
    queues: QueueTable
    problems: QueueProblems
    jobs: dict[str, Job]
    #: By uid of a task.
    infos: dict[str, PodInfo]
    #: Pods that are releasing, of whatever profile, with their nodes.
    releasing: list[tuple[PodInfo, str]]
    #: float64[R]: what pods that are no tasks hold of all nodes.
    foreign: Amounts
    #: By job key, its pods, for jobs that must not be considered.
    unknown: dict[str, list[Pod]]


def read_tables(
    snapshot: Snapshot,
    plugin: BatchPlugin,
    profile_name: str,
    pending: Iterable[PodInfo],
    evicting: Collection[str],
) -> Tables:
    """Return the tables of the snapshot; `evicting`: uids of pods whose eviction is under way, but not seen yet."""
    names = list(snapshot.names)
    infos = [snapshot.nodes[row] for row in range(len(names))]
    pending = [*pending]
    specs = [*plugin.queues()]
    axis = ResourceAxis.of(_scalar_names(infos, pending) | {name for spec in specs for name in spec.quota})
    allocatable = np.array([resource_amounts(axis, info.allocatable, info.allocatable.allowed_pods) for info in infos])
    nodes = NodeTable.of(names, allocatable.reshape(len(names), len(axis)))
    queues, problems = build_queues(axis, specs)
    tables = Tables(
        axis=axis,
        nodes=nodes,
        queues=queues,
        problems=problems,
        jobs={},
        infos={},
        releasing=[],
        foreign=axis.zeros(),
        unknown={},
    )
    found: dict[str, list[tuple[PodInfo, TaskState, int]]] = {}
    for row, node in enumerate(infos):
        used = axis.zeros()
        for info in node.pods:
            amounts = resource_amounts(axis, info.requests, 1)
            used += amounts
            pod = info.pod
            is_releasing = pod.is_terminating or pod.uid in evicting
            if is_releasing:
                nodes.releasing[row] += amounts
                tables.releasing.append((info, node.name))
            if pod.scheduler_name != profile_name:
                tables.foreign += amounts
                continue
            state = TaskState.RELEASING if is_releasing else _bound_state(pod)
            found.setdefault(plugin.job_key(pod), []).append((info, state, row))
        nodes.idle[row] -= used
    for info in pending:
        state = TaskState.GATED if info.pod.spec.scheduling_gates else TaskState.PENDING
        found.setdefault(plugin.job_key(info.pod), []).append((info, state, NO_NODE))
    for key, members in found.items():
        _add_job(tables, plugin, key, members)
    return tables


def _add_job(tables: Tables, plugin: BatchPlugin, key: str, members: list[tuple[PodInfo, TaskState, int]]) -> None:
    pods = [info.pod for info, _, _ in members]
    spec = plugin.job_spec(key, pods)
    if spec is None:
        tables.unknown[key] = pods
        return
    axis, queues = tables.axis, tables.queues
    priority = plugin.job_priority(spec, pods)
    preemptible = plugin.is_preemptible(spec, priority)
    job = build_job(axis, spec, priority=priority, preemptible=preemptible)
    job.queue_row = queues.index.get(spec.queue, -1)
    if job.queue_row < 0:
        job.queue_error = tables.problems.reasons.get(spec.queue, NO_QUEUE)
    elif not queues.is_leaf[job.queue_row]:
        job.queue_row, job.queue_error = -1, NOT_A_LEAF
    for pod, state in plugin.ended(key):
        facts = plugin.task_facts(spec, pod)
        job.add(Task(uid=pod.uid, key=pod.key, job=job, request=axis.zeros(), state=state, role=facts.role, pod=pod))
    for info, state, row in members:
        pod, facts = info.pod, plugin.task_facts(spec, info.pod)
        task = Task(
            uid=pod.uid,
            key=pod.key,
            job=job,
            request=resource_amounts(axis, info.requests, 1),
            state=state,
            node=row,
            priority=pod.spec.priority,
            created=created_at(pod),
            sub_group=facts.sub_group,
            role=facts.role,
            pod=pod,
        )
        job.add(task)
        tables.infos[pod.uid] = info
        if state in ACTIVE and job.queue_row >= 0:
            queues.add(job.queue_row, task.request, non_preemptible=not preemptible)
    tables.jobs[job.uid] = job


def _bound_state(pod: Pod) -> TaskState:
    return TaskState.RUNNING if pod.status.phase == "Running" else TaskState.BOUND


def _scalar_names(infos: Iterable[NodeInfo], pending: Iterable[PodInfo]) -> set[str]:
    names = {name for info in infos for name in info.allocatable.scalars}
    for info in pending:
        names.update(info.requests.scalars)
        if info.requests.ephemeral_storage:
            names.add(EPHEMERAL_STORAGE)
    return names


def resource_amounts(axis: ResourceAxis, resource: Resource, pods: int) -> Amounts:
    """Return float64[R]: what a pod requests or a node offers; `pods` is the number of pods."""
    values: dict[str, float] = {CPU: resource.milli_cpu, MEMORY: resource.memory, PODS: pods}
    if resource.ephemeral_storage:
        values[EPHEMERAL_STORAGE] = resource.ephemeral_storage
    values.update(resource.scalars)
    return axis.amounts(values)
