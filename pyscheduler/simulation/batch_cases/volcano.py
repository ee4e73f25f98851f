"""Run recorded sessions of the Volcano scheduler with the sessions of the preset `volcano`."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from pyscheduler.batch.axis import PODS, ResourceAxis
from pyscheduler.batch.node_table import NodeTable
from pyscheduler.batch.queue_table import QueueTable, paths_of
from pyscheduler.batch.session import EnabledPolicy
from pyscheduler.batch.tasks import Job, Task, TaskState
from pyscheduler.simulation.batch_cases.resource_placer import ResourcePlacer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyscheduler.batch.axis import Amounts

__all__ = ["RecordedEffects", "Tables", "build_tables", "run_case"]

_NAMESPACE: Final = "ns"
_STATES: Final = {
    "Pending": TaskState.PENDING,
    "Running": TaskState.RUNNING,
    "Bound": TaskState.BOUND,
    "Terminating": TaskState.RELEASING,
    "Succeeded": TaskState.SUCCEEDED,
    "Failed": TaskState.FAILED,
}
_HOLDS_NODE: Final = frozenset({TaskState.RUNNING, TaskState.BOUND, TaskState.RELEASING})
_UNLIMITED: Final = 1e300

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
        job = jobs[f"{_NAMESPACE}/{pod['group']}"]
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
    key = f"{_NAMESPACE}/{group['name']}"
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
        key=f"{_NAMESPACE}/{pod['name']}",
        job=job,
        request=axis.amounts({**pod.get("requests", {}), PODS: 1}),
        state=state,
        node=nodes.index[pod["node"]] if state in _HOLDS_NODE else -1,
        priority=pod.get("priority"),
        created=pod.get("created", 0.0),
        role=pod.get("role", ""),
        preemptable=preemptable is None or str(preemptable).lower() in {"true", "1", "t"},
        may_preempt=pod.get("preemptionPolicy") != "Never",
    )


def load(path: str) -> Any:
    """Return the object at `module:Name`."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def run_case(case: Spec) -> Spec:
    """Run one recorded session; return `{"id", "actual"}` in the form of the recording's `expected`."""
    preset = import_module("pyscheduler_batch.volcano.preset")
    configuration = case["configuration"]
    plugins = [[*tier] for tier in configuration["tiers"]]
    tiers = [
        [
            EnabledPolicy(
                load(preset.POLICIES[plugin["name"]])(plugin.get("arguments")),
                {key: value for key, value in plugin.items() if key.startswith("enable")},
            )
            for plugin in tier
        ]
        for tier in plugins
    ]
    flat = {plugin["name"]: plugin for tier in plugins for plugin in tier}
    is_tree = bool(flat.get("capacity", {}).get("enableHierarchy"))
    tables = build_tables(case["nodes"], case["queues"], case["podGroups"], case["pods"], is_tree=is_tree)
    weights = load("pyscheduler_batch.volcano.nodeorder:score_weights")(
        flat.get("nodeorder", {}).get("arguments") or {}
    )
    present = [task for job in tables.jobs.values() for task in job.tasks.values() if task.node >= 0]
    effects = RecordedEffects()
    session = load(preset.SESSION)(
        axis=tables.axis,
        nodes=tables.nodes,
        queues=tables.queues,
        jobs=tables.jobs,
        tiers=tiers,
        placer=ResourcePlacer(tables.axis, tables.nodes, present, weights),
        effects=effects,
        now=1_000_000.0,
        has_enqueue="enqueue" in configuration["actions"],
    )
    session.open()
    policies = {entry.policy.name: entry.policy for tier in tiers for entry in tier}
    report = _Report(session, effects, policies, tables)
    actual = report.at_opening(case)
    actions = [load(preset.ACTIONS[name])() for name in configuration["actions"]]
    asyncio.run(_act(session, actions))
    report.at_close(actual)
    return {"id": case["id"], "actual": actual}


async def _act(session: Any, actions: Iterable[Any]) -> None:
    for action in actions:
        await action.run(session)


@attrs.frozen
class _Report:
    """Writes what the recordings hold."""

    session: Any
    effects: RecordedEffects
    policies: Mapping[str, Any]
    tables: Tables

    def at_opening(self, case: Spec) -> Spec:
        """Return the part of the report that is taken before any action."""
        actual: Spec = {"podGroups": {}, "pods": {}}
        for job in self.tables.jobs.values():
            actual["podGroups"][_name(job)] = self._group_at_opening(job)
        policy = self._queue_policy()
        if policy is not None:
            actual["queues"] = {
                name: self._queue_at_opening(policy, row)
                for row, name in enumerate(self.tables.queues.names)
                if getattr(policy, "is_tree", False) or policy.sums.has_jobs[row]
            }
        drf = self.policies.get("drf")
        if drf is not None and drf.tree is not None:
            actual["hierarchyTree"] = self._tree(drf)
        if case["family"] == "binpack":
            actual["nodeScores"] = self._scores()
        return actual

    def _queue_policy(self) -> Any:
        return self.policies.get("proportion") or self.policies.get("capacity")

    def _group_at_opening(self, job: Job) -> Spec:
        refusal = self.session.job_valid(job)
        found: Spec = {"valid": refusal is None, "starving": self.session.job_starving(job)}
        if refusal is not None:
            found["reason"] = refusal.reason
        if "drf" in self.policies:
            found["drfShareBefore"] = self.policies["drf"].share(job)
        return found

    def _queue_at_opening(self, policy: Any, row: int) -> Spec:
        sums = policy.sums
        is_built = getattr(policy, "is_sound", True)
        nothing = np.zeros(len(self.tables.axis))
        found: Spec = {
            "deserved": self._amounts(policy.deserved[row]),
            "realCapability": self._amounts(policy.real_capability[row]),
            "request": self._amounts(sums.request[row] if is_built else nothing),
            "allocatedBefore": self._amounts(policy.allocated[row] if is_built else nothing),
            "inqueueBefore": self._amounts(sums.inqueue[row] if is_built else nothing),
            "elasticBefore": self._amounts(sums.elastic[row] if is_built else nothing),
            "shareBefore": policy.share(row),
        }
        if policy.name == "proportion":
            found["overusedBefore"] = policy.overused(row)
        return found

    def _amounts(self, amounts: Amounts) -> Spec:
        """Return the amounts by name: cpu and memory always, others if they are not 0."""
        names = self.tables.axis.names
        return {
            name: "unlimited" if amount > _UNLIMITED else amount
            for name, amount in zip(names, amounts.tolist(), strict=True)
            if amount or name in {"cpu", "memory"}
        }

    def _tree(self, drf: Any) -> Spec:
        tree, state = drf.tree, drf.state()
        names = list(tree.paths)
        for row, job in enumerate(self.session.books.jobs):
            names.append(f"{tree.paths[tree.parent[tree.first_job + row]]}/{job.uid}")
        rows = zip(names, state.share.tolist(), tree.weight.tolist(), state.saturated.tolist(), strict=True)
        return {name: [share, weight, saturated] for name, share, weight, saturated in rows}

    def _scores(self) -> Spec:
        nodes = self.tables.nodes
        rows = np.arange(len(nodes))
        return {
            task.uid: dict(zip(nodes.names, self.session.scores(task, rows).tolist(), strict=True))
            for job in self.tables.jobs.values()
            for task in job.tasks.values()
            if task.state == TaskState.PENDING
        }

    def at_close(self, actual: Spec) -> None:
        """Add what came of the actions."""
        status = import_module("pyscheduler_batch.volcano.status")
        policy = self._queue_policy()
        for name, found in actual.get("queues", {}).items():
            row = self.tables.queues.index[name]
            is_built = getattr(policy, "is_sound", True)
            found["allocatedAfter"] = self._amounts(policy.allocated[row]) if is_built else {"cpu": 0, "memory": 0}
            found["shareAfter"] = policy.share(row)
        for job in self.tables.jobs.values():
            found = actual["podGroups"][_name(job)]
            results = self._results(job, actual["pods"])
            for result in ("bound", "pipelined", "evicted"):
                found[f"{result}Count"] = results.count(result)
            condition = status.gang_condition(job, self.session) if "gang" in self.policies else None
            is_unschedulable = condition is not None and condition.type == "Unschedulable"
            found["phase"] = status.group_phase(job, is_unschedulable=is_unschedulable)
            found["conditions"] = {}
            if condition is not None:
                found["conditions"][condition.type] = condition.reason if is_unschedulable else True
            if "drf" in self.policies:
                found["drfShareAfter"] = self.policies["drf"].share(job)

    def _results(self, job: Job, pods: Spec) -> list[str]:
        results: list[str] = []
        evicted = set(self.effects.evicted)
        for task in job.tasks.values():
            if task.uid in self.effects.bound:
                result = "bound"
            elif task.uid in evicted:
                result = "evicted"
            elif task.state == TaskState.PIPELINED:
                result = "pipelined"
            elif task.state == TaskState.ALLOCATED:
                result = "allocatedNotBound"
            else:
                continue
            results.append(result)
            pods[task.uid] = {"result": result}
            if result != "evicted":
                pods[task.uid]["node"] = self.tables.nodes.names[task.node]
        return results


def _name(job: Job) -> str:
    return job.uid.partition("/")[2]
