"""Run hand-written test cases, each for one plugin of Volcano or kube-batch, such as `proportion`.

In the test cases, cpu is in cores and memory in GiB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pyscheduler_batch.contract import Claim, Tasks
from pyscheduler_batch.model.axis import CPU, MEMORY, PODS
from pyscheduler_batch.model.tasks import TaskState
from pyscheduler_lab.simulation.batch_cases.runs import Run, open_session
from pyscheduler_lab.simulation.batch_cases.tables import NAMESPACE, Spec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["run_queue_case"]

_SCALES: Final = {CPU: 1000.0, MEMORY: 1024.0**3}
_UNLIMITED: Final = 1e300
_PLENTY: Final = 1e6


def run_queue_case(case: Spec) -> Spec:
    """Run one case of an algorithm `volcano-...` or `kube-batch-...`; return `{"id", "actual"}`."""
    kind = case["algorithm"]
    if kind in {"volcano-proportion", "kube-batch-proportion", "volcano-capacity"}:
        actual = _queue_policy(case)
    else:
        actual = _RUNNERS[kind](case)
    return {"id": case["id"], "actual": actual}


def _scaled(amounts: Mapping[str, float] | None) -> dict[str, float]:
    return {name: amount * _SCALES.get(name, 1.0) for name, amount in (amounts or {}).items()}


def _pod(name: str, group: str, requests: Mapping[str, float], state: str, created: float = 0.0) -> Spec:
    node = {"node": "n"} if state in {"Running", "Releasing"} else {}
    requests = {**_scaled(requests), PODS: 0}
    return {"name": name, "group": group, "requests": requests, "state": state, "created": created, **node}


def _group(name: str, queue: str, **fields: Any) -> Spec:  # fields of the spec
    return {"name": name, "queue": queue, "minMember": 1, "phase": "Running", **fields}


def _case(policy: str, total: Mapping[str, float] | None, **objects: Any) -> Spec:  # lists of specs
    plugin = {"name": policy, **objects.pop("plugin", {})}
    return {
        "configuration": {"actions": objects.pop("actions", []), "tiers": [[plugin]]},
        "nodes": [{"name": "n", "allocatable": _scaled(total)}],
        "queues": [{"name": "q"}],
        "podGroups": [],
        "pods": [],
        **objects,
    }


def _minus(left: Mapping[str, float], right: Mapping[str, float]) -> dict[str, float]:
    rest = {name: amount - right.get(name, 0.0) for name, amount in left.items()}
    return {name: amount for name, amount in rest.items() if amount > 0}


# Proportion and capacity.


def _queue_policy(case: Spec) -> Spec:
    """Answer a case about shares, limits, order or victims of queues."""
    run = _open_queues(case)
    policy = next(iter(run.policies.values()))
    check = case["check"]
    names = [queue["name"] for queue in case["queues"]]
    if check in {"deserved", "realCapability"}:
        limited = any(queue.get(key) for queue in case["queues"] for key in ("capability", "guarantee"))
        actual = {}
        if check == "deserved":
            actual["deserved"] = _by_queue(run, case, policy.deserved, names)
        if hasattr(policy, "real_capability") and limited:
            actual["realCapability"] = _by_queue(run, case, policy.real_capability, names)
        return actual
    if check == "queueOrder":
        return _order(run, policy, names)
    if check == "allocatable":
        return _allocatable(run, case, policy, names)
    return _reclaim_victims(run, case, policy)


def _open_queues(case: Spec) -> Run:
    """Open a session with one job per queue that has the amounts of the case."""
    preset, _, policy = case["algorithm"].rpartition("-")
    is_tree = any(queue.get("parent") for queue in case["queues"])
    queues = [
        {
            **queue,
            **{key: _scaled(queue[key]) for key in ("deserved", "capability", "guarantee") if queue.get(key)},
            "created": at,
        }
        for at, queue in enumerate(case["queues"])
    ]
    inner = {queue.get("parent") for queue in case["queues"]} | {"root"} if is_tree else set()
    allocated, requested = case.get("allocated", {}), case.get("requested", {})
    candidates, tasks = case.get("candidates", []), case.get("tasks", [])
    groups, pods = [], []
    for queue in case["queues"]:
        name = queue["name"]
        if name in inner:
            continue
        groups.append(_group(name, name, minMember=0))
        held = allocated.get(name, {})
        rest = held
        for at, each in enumerate(candidates):
            if each["queue"] == name:
                # The first candidate is the newest, so it is the first to be evicted.
                pods.append(_pod(each["name"], name, each["request"], "Running", created=-float(at)))
                rest = _minus(rest, each["request"])
        pods.append(_pod(f"{name}-running", name, rest, "Running", created=-1e6))
        pods.append(_pod(f"{name}-pending", name, _minus(requested.get(name, {}), held), "Pending"))
        pods += [_pod(each["name"], name, each["request"], "Pending") for each in tasks if each["queue"] == name]
    if "reclaimer" in case:
        pods.append(_pod("reclaimer", case["reclaimer"]["queue"], case["reclaimer"]["request"], "Pending"))
    plugin = {"enableHierarchy": True} if is_tree else {}
    # Without a total the cluster is no limit.
    total = case.get("total") or dict.fromkeys((CPU, MEMORY), _PLENTY)
    spec = _case(policy, total, queues=queues, podGroups=groups, pods=pods, plugin=plugin)
    return open_session(preset, spec)


def _by_queue(run: Run, case: Spec, column: np.ndarray, names: Iterable[str]) -> Spec:
    """Return the amounts of queues in the units and resources of the case."""
    axis = run.tables.axis
    known = set(case.get("total") or {}) or {
        resource for queue in case["queues"] for key in ("capability", "guarantee") for resource in queue.get(key, {})
    }
    found: Spec = {}
    for name in names:
        amounts = axis.mapping(column[run.tables.queues.index[name]])
        found[name] = {
            resource: "unlimited" if amounts[resource] > _UNLIMITED else amounts[resource] / _SCALES.get(resource, 1.0)
            for resource in sorted(known)
        }
    return found


def _order(run: Run, policy: Any, names: Iterable[str]) -> Spec:
    rows = {name: run.tables.queues.index[name] for name in names}
    less = run.session.orders.queue_less
    order = sorted(rows, key=lambda name: sum(less(other, rows[name]) for other in rows.values()))
    found: Spec = {"share": {name: policy.share(row) for name, row in rows.items()}, "order": order}
    if hasattr(policy, "overused"):
        found["overused"] = [name for name, row in rows.items() if policy.overused(row)]
    return found


def _allocatable(run: Run, case: Spec, policy: Any, names: Iterable[str]) -> Spec:
    answers = {}
    for each in case["tasks"]:
        job = run.tables.jobs[f"{NAMESPACE}/{each['queue']}"]
        answers[each["name"]] = policy.allocatable(job, [job.tasks[each["name"]]]) is None
    limits = _by_queue(run, case, policy.real_capability, [name for name in names if name != "root"])
    return {"realCapability": limits, "allocatable": answers}


def _reclaim_victims(run: Run, case: Spec, policy: Any) -> Spec:
    jobs = run.tables.jobs
    tasks = [jobs[f"{NAMESPACE}/{each['queue']}"].tasks[each["name"]] for each in case["candidates"]]
    reclaimer = case.get("reclaimer")
    found: Spec = {}
    claiming = next(job for job in jobs.values() if job is not tasks[0].job)
    claim = Claim(claiming, next(iter(claiming.tasks.values())))
    if reclaimer is not None:
        job = jobs[f"{NAMESPACE}/{reclaimer['queue']}"]
        claim = Claim(job, job.tasks["reclaimer"])
        found["preemptive"] = policy.may_reclaim(job.queue_row, claim)
    mask = policy.reclaimable(claim, Tasks.of(tasks))
    found["victims"] = [task.uid for task, is_victim in zip(tasks, mask.tolist(), strict=True) if is_victim]
    return found


# The other policies.


def _drf(case: Spec) -> Spec:
    groups, pods = [], []
    candidates = case.get("candidates", [])
    for name, amounts in case["jobs"].items():
        groups.append(_group(name, "q"))
        rest = amounts
        for each in candidates:
            if each["job"] == name:
                pods.append(_pod(each["name"], name, each["request"], "Running"))
                rest = _minus(rest, each["request"])
        pods.append(_pod(f"{name}-rest", name, rest, "Running"))
    preemptor = case.get("preemptor")
    if preemptor is not None:
        pods.append(_pod("preemptor", preemptor["job"], preemptor["request"], "Pending"))
    run = open_session("volcano", _case("drf", case["total"], podGroups=groups, pods=pods))
    policy, jobs = run.policies["drf"], run.tables.jobs
    if preemptor is None:
        shares = {name: policy.share(jobs[f"{NAMESPACE}/{name}"]) for name in case["jobs"]}
        return {"share": shares, "order": sorted(shares, key=lambda name: policy.job_key(jobs[f"{NAMESPACE}/{name}"]))}
    job = jobs[f"{NAMESPACE}/{preemptor['job']}"]
    tasks = [jobs[f"{NAMESPACE}/{each['job']}"].tasks[each["name"]] for each in candidates]
    mask = policy.preemptable(Claim(job, job.tasks["preemptor"]), Tasks.of(tasks))
    victims = [task.uid for task, is_victim in zip(tasks, mask.tolist(), strict=True) if is_victim]
    statement = run.session.statement()
    statement.allocate(job.tasks["preemptor"], 0)
    return {"preemptorShare": policy.share(job), "victims": victims}


def _binpack(case: Spec) -> Spec:
    nodes = [{"name": each["name"], "allocatable": _scaled(each["allocatable"])} for each in case["nodes"]]
    pods = [_pod("task", "g", case["task"], "Pending")]
    pods += [
        {**_pod(f"on-{each['name']}", "g", each["used"], "Running"), "node": each["name"]} for each in case["nodes"]
    ]
    plugin = {"arguments": case["arguments"]}
    spec = _case("binpack", {}, nodes=nodes, podGroups=[_group("g", "q")], pods=pods, plugin=plugin)
    run = open_session("volcano", spec)
    task = run.tables.jobs[f"{NAMESPACE}/g"].tasks["task"]
    scores = run.session.places.scores(task, np.arange(len(nodes)))
    return {"score": dict(zip(run.tables.nodes.names, scores.tolist(), strict=True))}


def _overcommit(case: Spec) -> Spec:
    groups = [_group("used", "q"), _group("enqueued", "q", phase="Inqueue", minResources=_scaled(case["inqueue"]))]
    groups += [
        _group(each["name"], "q", phase="Pending", minResources=_scaled(each["minResources"]), created=at)
        for at, each in enumerate(case["jobs"])
    ]
    plugin = {"arguments": {"overcommit-factor": case["factor"]}}
    pods = [_pod("pod", "used", case["used"], "Running")]
    spec = _case("overcommit", case["total"], podGroups=groups, pods=pods, plugin=plugin, actions=["enqueue"])
    run = open_session("volcano", spec)
    run.act()
    phases = {each["name"]: run.tables.jobs[f"{NAMESPACE}/{each['name']}"].phase for each in case["jobs"]}
    return {
        "permitted": [name for name, phase in phases.items() if phase == "Inqueue"],
        "rejected": [name for name, phase in phases.items() if phase != "Inqueue"],
    }


def _gang(case: Spec) -> Spec:
    pods = [
        _pod(f"{state}-{at}", "g", {CPU: 1.0}, state) for state, count in case["tasks"].items() for at in range(count)
    ]
    groups = [_group("g", "q", minMember=case["minAvailable"])]
    run = open_session("volcano", _case("gang", {CPU: 1e6}, podGroups=groups, pods=pods))
    policy, job = run.policies["gang"], run.tables.jobs[f"{NAMESPACE}/g"]
    refusal = policy.job_valid(job)
    waiting = job.counts[TaskState.PIPELINED]
    ready = policy.ready_count(job)
    found: Spec = {"valid": refusal is None, "validTaskNum": ready + waiting + job.counts[TaskState.PENDING]}
    if refusal is not None:
        return {**found, "reason": refusal.reason}
    return {
        **found,
        "ready": policy.job_ready(job),
        "pipelined": policy.job_pipelined(job) > 0,
        "starving": policy.job_starving(job),
        "readyTaskNum": ready,
        "waitingTaskNum": waiting,
    }


_RUNNERS: Final[Mapping[str, Callable[[Spec], Spec]]] = {
    "volcano-drf": _drf,
    "volcano-binpack": _binpack,
    "volcano-overcommit": _overcommit,
    "volcano-gang": _gang,
}
