"""The tables of a session of KAI from a case, without API objects: for tests of policies and actions alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pkgutil import resolve_name
from typing import Any, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from pyscheduler.api import ObjectMeta, Pod, PodSpec
from pyscheduler_batch.model.axis import CPU, GPU, MEMORY, PODS, Amounts, ResourceAxis
from pyscheduler_batch.model.node_table import NodeTable
from pyscheduler_batch.model.queue_table import QueueTable, paths_of
from pyscheduler_batch.model.session import EnabledPolicy, Session
from pyscheduler_batch.model.tasks import ACTIVE, Job, SubGroup, Task, TaskState
from pyscheduler_kai.preset import KAI
from pyscheduler_lab.simulation.batch_cases.preset_import import system_of

Json = dict[str, Any]

_NOW: Final = 1_000_000_000.0
_FIELDS: Final = {"gpu": GPU, "cpuMillis": CPU, "memoryBytes": MEMORY}
_PREEMPTIBLE_BELOW: Final = 100


@attrs.define(eq=False)
class LabelPlacer:
    """Accepts the nodes that carry the labels a pod selects; amounts are the session's business."""

    labels: Sequence[Mapping[str, str]]
    _masks: dict[tuple[tuple[str, str], ...], NDArray[np.bool_]] = attrs.Factory(dict)

    def feasible(self, task: Task) -> NDArray[np.bool_]:
        """Return bool[N]: the nodes with all labels of the pod's node selector."""
        selector = task.pod.spec.node_selector if task.pod is not None else {}
        key = tuple(sorted(selector.items()))
        mask = self._masks.get(key)
        if mask is None:
            mask = np.array([all(own.get(name) == value for name, value in key) for own in self.labels], dtype=np.bool_)
            self._masks[key] = mask
        return mask

    def suitable(self, task: Task) -> NDArray[np.bool_]:
        """Return bool[N]: the nodes with all labels."""
        return self.feasible(task)

    def curable(self, task: Task) -> NDArray[np.bool_]:
        """Return bool[N]: the nodes with all labels; evictions change no labels."""
        return self.feasible(task)

    def why_not(self, task: Task, *, beside_room: bool = False) -> str:
        """Return "": the recorded messages are KAI's."""
        return ""

    def may_run_together(self, tasks: Sequence[Task]) -> bool:
        """Return True: tasks do not keep each other out."""
        return True

    def feasible_now(self, task: Task, node: int) -> bool:
        """Return whether the node carries the labels."""
        return bool(self.feasible(task)[node])

    def scores(self, task: Task, rows: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """Return None: labels score nothing."""

    def raw_scores(self, plugin: str, task: Task, rows: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """Return None: there are no plugins."""

    def place(self, task: Task, node: int) -> None:
        """Ignore the placement: no filter here depends on other pods."""

    def remove(self, task: Task, node: int) -> None:
        """Ignore the removal."""


@attrs.define(eq=False)
class Log:
    """Effects that always succeed and are only written down."""

    bound: list[str] = attrs.Factory(list)
    evictions: dict[str, list[Json]] = attrs.Factory(dict)

    def bind(self, task: Task, node: int) -> bool:
        """Note the binding."""
        self.bound.append(task.uid)
        return True

    def nominate(self, task: Task, node: int) -> None:
        """Note nothing: a promise shows in the state of the task."""

    def evict(self, task: Task, *, action: str, by: Job | None) -> bool:
        """Note the eviction."""
        entry = {"action": action} if by is None else {"action": action, "by": by.uid}
        self.evictions.setdefault(task.uid, []).append(entry)
        return True


def _arguments(args: Json) -> dict[str, dict[str, str]]:
    """Return the arguments of actions and policies, by name."""
    result: dict[str, dict[str, str]] = defaultdict(dict)
    for field, owner, name in (
        ("saturationMultiplier", "proportion", "relcaimerSaturationMultiplier"),
        ("kValue", "proportion", "kValue"),
        ("consolidatingReclaim", "reclaim", "consolidatingReclaim"),
        ("maxConsolidationVictims", "consolidation", "maxConsolidationVictims"),
        ("reclaimResolveMethod", "minruntime", "reclaimResolveMethod"),
        ("gpuPlacement", "nodeplacement", "gpu"),
        ("cpuPlacement", "nodeplacement", "cpu"),
    ):
        if field in args:
            value = args[field]
            result[owner][name] = str(value).lower() if isinstance(value, bool) else str(value)
    return result


def build_session(case: Json, effects: Log) -> Session:
    """Return a session of the preset `kai` for the cluster of a case."""
    axis = ResourceAxis.of([GPU])
    nodes = _nodes(case.get("nodes") or (), axis)
    queues = _queues(case.get("queues") or (), axis, case.get("historicalUsage") or {})
    jobs = {spec["name"]: _job(spec, axis, nodes, queues) for spec in case.get("jobs") or ()}
    module = system_of("kai")
    arguments = _arguments(case.get("args") or {})
    tiers = [
        [EnabledPolicy(resolve_name(module.policies[name])(arguments.get(name))) for name in tier]
        for tier in [[name.split()[0] for name in KAI.tiers[0]]]
    ]
    labels = [spec.get("labels") or {} for spec in case.get("nodes") or ()]
    session = Session(
        axis=axis,
        nodes=nodes,
        queues=queues,
        jobs=jobs,
        tiers=tiers,
        placer=LabelPlacer(labels),
        effects=effects,
        now=_NOW,
    )
    _count_running(session)
    return session


def _nodes(specs: Sequence[Json], axis: ResourceAxis) -> NodeTable:
    allocatable = np.zeros((len(specs), len(axis)))
    for row, spec in enumerate(specs):
        for field, name in (*_FIELDS.items(), ("maxPods", PODS)):
            allocatable[row, axis.index[name]] = spec.get(field, 0)
    return NodeTable.of([spec["name"] for spec in specs], allocatable)


def _parents_first(specs: Sequence[Json]) -> list[Json]:
    """Return the queues with parents before children; without those whose parent is missing."""
    by_parent: dict[str, list[Json]] = defaultdict(list)
    for spec in specs:
        by_parent[spec.get("parent") or ""].append(spec)
    ordered: list[Json] = []
    level = by_parent[""]
    while level:
        ordered += level
        level = [child for spec in level for child in by_parent[spec["name"]]]
    return ordered


def _queues(specs: Sequence[Json], axis: ResourceAxis, usage: Mapping[str, Json]) -> QueueTable:
    ordered = _parents_first(specs)
    count = len(ordered)
    names = [spec["name"] for spec in ordered]
    index = {name: row for row, name in enumerate(names)}
    parent = np.array([index.get(spec.get("parent") or "", -1) for spec in ordered], dtype=np.int64)

    def amounts(part: str, missing: float) -> Amounts:
        result = np.full((count, len(axis)), missing)
        for row, spec in enumerate(ordered):
            for field, name in _FIELDS.items():
                value = spec.get(field, {}).get(part, 0)
                result[row, axis.index[name]] = np.inf if value == -1 and part != "overQuotaWeight" else value
        return result

    def seconds(field: str) -> NDArray[np.float64]:
        return np.array([spec.get(field, np.nan) for spec in ordered], dtype=np.float64)

    past = np.zeros((count, len(axis)))
    for name, of_queue in usage.items():
        for field, value in of_queue.items():
            if name in index and field in _FIELDS:
                past[index[name], axis.index[_FIELDS[field]]] = value
    return QueueTable(
        names=names,
        index=index,
        parent=parent,
        quota=amounts("quota", np.inf),
        limit=amounts("limit", np.inf),
        guarantee=np.zeros((count, len(axis))),
        over_quota_weight=amounts("overQuotaWeight", 0.0),
        weight=np.ones(count),
        priority=np.array([spec.get("priority", 100) for spec in ordered], dtype=np.float64),
        created=np.array([_NOW - spec.get("createdSecondsAgo", 0) for spec in ordered], dtype=np.float64),
        reclaimable=np.ones(count, dtype=np.bool_),
        state=[""] * count,
        preempt_min_runtime=seconds("preemptMinRuntimeSeconds"),
        reclaim_min_runtime=seconds("reclaimMinRuntimeSeconds"),
        hierarchy=[("", "")] * count,
        allocated=np.zeros((count, len(axis))),
        non_preemptible=np.zeros((count, len(axis))),
        usage=past if usage else None,
        paths=paths_of(parent),
        is_leaf=~np.isin(np.arange(count), parent),
    )


def _job(spec: Json, axis: ResourceAxis, nodes: NodeTable, queues: QueueTable) -> Job:
    priority = spec.get("priority", 50)
    kind = spec.get("preemptibility")
    start, stale = spec.get("lastStartSecondsAgo"), spec.get("staleSinceSecondsAgo")
    job = Job(
        uid=spec["name"],
        key=spec["name"],
        queue=spec["queue"],
        queue_row=queues.index.get(spec["queue"], -1),
        priority=priority,
        created=_NOW - spec.get("createdSecondsAgo", 0),
        min_member=spec.get("minMember", 1),
        min_sub_group=spec.get("minSubGroup"),
        sub_groups={
            group["name"]: SubGroup(
                name=group["name"],
                parent=group.get("parent") or "",
                min_member=group.get("minMember", 0),
                min_sub_group=group.get("minSubGroup"),
            )
            for group in spec.get("subGroups") or ()
        },
        preemptible=kind == "preemptible" if kind else priority < _PREEMPTIBLE_BELOW,
        last_start=None if start is None else _NOW - start,
        stale_since=None if stale is None else _NOW - stale,
        staleness_grace=spec.get("stalenessGraceSeconds"),
        preemption_delay=spec.get("preemptionDelaySeconds") or 0.0,
    )
    for each in spec.get("tasks") or ():
        job.add(_task(each, job, axis, nodes))
    return job


def _task(spec: Json, job: Job, axis: ResourceAxis, nodes: NodeTable) -> Task:
    amounts = {name: spec.get(field, 0) for field, name in _FIELDS.items()}
    selector = spec.get("nodeSelector")
    pod = Pod(metadata=ObjectMeta(name=spec["name"]), spec=PodSpec(node_selector=selector)) if selector else None
    return Task(
        uid=spec["name"],
        key=spec["name"],
        job=job,
        request=axis.amounts({**amounts, PODS: 1.0}),
        state=TaskState[spec.get("state", "Pending").upper()],
        node=nodes.index.get(spec.get("node") or "", -1),
        created=_NOW - spec.get("createdSecondsAgo", 0),
        sub_group=spec.get("subGroup") or "",
        pod=pod,
    )


def _count_running(session: Session) -> None:
    """Book what the tasks on nodes hold."""
    table = session.nodes
    for job in session.jobs.values():
        for task in job.tasks.values():
            if task.node < 0 or (task.state not in ACTIVE and task.state != TaskState.RELEASING):
                continue
            table.idle[task.node] -= task.request
            if task.state == TaskState.RELEASING:
                table.releasing[task.node] += task.request
            elif job.queue_row >= 0:
                session.queues.add(job.queue_row, task.request, non_preemptible=not job.preemptible)
