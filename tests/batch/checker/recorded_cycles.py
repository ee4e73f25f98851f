"""Turn a recorded cycle of KAI into the log that an API server would have, with KAI's own decisions as writes."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import UTC, datetime
from typing import Any, Final

from pyscheduler_lab.audit import History, Options
from tests.batch.checker.log import GPU, KAI_GROUPS, KAI_QUEUES, Log

__all__ = ["RESOURCES", "counts_twice", "evictors", "log_of_cycle", "options_of_cycle", "write_cycle"]

Case = dict[str, Any]
RESOURCES: Final = (("gpu", GPU, 1.0), ("cpuMillis", "cpu", 1.0), ("memoryBytes", "memory", 1e6))
_ACTIVE: Final = frozenset({"Bound", "Running", "Releasing"})


def options_of_cycle(case: Case) -> Options:
    """Return the options under which the cycle ran."""
    names = {key: name for key, name, _ in RESOURCES}
    args = case["args"]
    return Options(
        schedulers=frozenset({"batch"}),
        in_flight_seconds=1e6,
        status_seconds=None,
        saturation_multiplier=args.get("saturationMultiplier", 1.0),
        k_value=args.get("kValue", 1.0),
        reclaim_resolve_method=args.get("reclaimResolveMethod", "lca"),
        usage={
            queue: {names[key]: amount for key, amount in usage.items()}
            for queue, usage in case.get("historicalUsage", {}).items()
        },
    )


def log_of_cycle(case: Case) -> Log:
    """Return the log of the situation before the cycle."""
    log = Log()
    for node in case["nodes"]:
        allocatable = {"cpu": f"{node['cpuMillis']}m", "memory": str(node["memoryBytes"]), GPU: str(node["gpu"])}
        log.create("v1", "Node", node["name"], spec={}, status={"allocatable": allocatable})
    for queue in case["queues"]:
        log.create(KAI_QUEUES, "Queue", queue["name"], metadata=_created(log, queue), spec=_queue_spec(queue))
    for job in case["jobs"]:
        name = f"priority-{job['priority']}"
        if ("PriorityClass", name) not in log.objects:
            log.create("scheduling.k8s.io/v1", "PriorityClass", name, value=job["priority"])
        metadata = _created(log, job)
        if "lastStartSecondsAgo" in job:
            started = _stamp(log.now - job["lastStartSecondsAgo"])
            metadata["annotations"] = {"kai.scheduler/last-start-timestamp": started}
        if "staleSinceSecondsAgo" in job:
            broken = _stamp(log.now - job["staleSinceSecondsAgo"])
            metadata.setdefault("annotations", {})["kai.scheduler/stale-podgroup-timestamp"] = broken
        log.create(KAI_GROUPS, "PodGroup", job["name"], metadata=metadata, spec=_group_spec(job))
        for task in job["tasks"]:
            _create_pod(log, job, task)
    return log


def _stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()


def _created(log: Log, entry: Case) -> dict[str, Any]:
    return {"uid": entry["name"], "creationTimestamp": _stamp(log.now - entry["createdSecondsAgo"])}


def _queue_spec(queue: Case) -> dict[str, Any]:
    resources = {}
    for key, name, unit in RESOURCES:
        own = dict(queue[key])
        for field in ("quota", "limit"):
            own[field] = own[field] / unit if own[field] >= 0 else -1
        resources["gpu" if name == GPU else name] = own
    spec: dict[str, Any] = {"resources": resources, "priority": queue.get("priority", 100)}
    if "parent" in queue:
        spec["parentQueue"] = queue["parent"]
    for field in ("preemptMinRuntime", "reclaimMinRuntime"):
        if f"{field}Seconds" in queue:
            spec[field] = f"{queue[f'{field}Seconds']}s"
    return spec


def _group_spec(job: Case) -> dict[str, Any]:
    spec = {key: job[key] for key in ("queue", "preemptibility", "minMember", "minSubGroup", "subGroups") if key in job}
    spec["priorityClassName"] = f"priority-{job['priority']}"
    if "stalenessGraceSeconds" in job:
        spec["stalenessGracePeriod"] = f"{job['stalenessGraceSeconds']}s"
    return spec


def _create_pod(log: Log, job: Case, task: Case, uid: str = "") -> None:
    metadata = _created(log, task) | {"annotations": {"pod-group-name": job["name"]}}
    metadata["uid"] = uid or task["name"]
    if "subGroup" in task:
        metadata["labels"] = {"kai.scheduler/subgroup-name": task["subGroup"]}
    if task["state"] == "Releasing":
        metadata["deletionTimestamp"] = _stamp(log.now)
    requests = {"cpu": f"{task['cpuMillis']}m", "memory": str(task["memoryBytes"]), GPU: str(task["gpu"])}
    spec: dict[str, Any] = {"schedulerName": "batch", "containers": [{"resources": {"requests": requests}}]}
    if task["state"] in _ACTIVE:
        spec["nodeName"] = task["node"]
    if task["state"] == "Gated":
        spec["schedulingGates"] = [{"name": "wait"}]
    phase = task["state"] if task["state"] in {"Succeeded", "Failed"} else "Pending"
    log.create("v1", "Pod", task["name"], metadata=metadata, spec=spec, status={"phase": phase})


def write_cycle(case: Case, log: Log, order: list[str]) -> History:
    """Write the decisions of the cycle: bindings, then for each evicting job its promises and evictions.

    `order`: the evicting jobs. The recording does not say in which order they came.
    """
    before = {task["name"]: task for job in case["jobs"] for task in job["tasks"]}
    job_of = {task["name"]: job["name"] for job in case["jobs"] for task in job["tasks"]}
    after = case["expected"]["tasks"]
    evictions: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for task, entries in sorted(case["expected"].get("evictions", {}).items()):
        for entry in entries:
            evictions[entry.get("by", "")].append((task, entry["action"]))
    for task in case["expected"].get("bindOrder", [t for t in after if after[t]["state"] == "allocated"]):
        log.bind(task, node=after.get(task, {}).get("node", "n1"))
    promised: dict[str, list[str]] = defaultdict(list)
    for task, result in after.items():
        if result.get("state") == "pipelined" and before[task]["state"] == "Pending":
            promised[job_of[task]].append(task)
    for job in sorted(promised.keys() - set(order)):
        log.nominate(*promised[job])
    for by in [*order, ""]:
        for task, action in evictions[by]:
            moved = after.get(task, {}).get("state") == "pipelined"
            log.evict(task, action=action, by=by, moved=moved, gone=False)
        log.nominate(*promised[by] if by in order else ())
    log.wait(1.0)
    _fulfil(case, log)
    log.wait(10.0)
    return log.history()


def _fulfil(case: Case, log: Log) -> None:
    """Let the terminating pods go, create moved pods again, and bind what was promised."""
    after = case["expected"]["tasks"]
    for (kind, name), obj in list(log.objects.items()):
        if kind == "Pod" and obj["metadata"].get("deletionTimestamp"):
            log.delete("Pod", name)
    for job in case["jobs"]:
        if "staleSinceSecondsAgo" in job:
            continue  # the next cycle would not place the rest of a broken gang
        for task in job["tasks"]:
            result = after.get(task["name"], {})
            if result.get("state") != "pipelined":
                continue
            if ("Pod", task["name"]) not in log.objects:
                _create_pod(log, job, task | {"state": "Pending"}, uid=f"{task['name']}-again")
            log.bind(task["name"], node=result.get("node", "n1"))


def counts_twice(case: Case) -> bool:
    """Return True if KAI evicted one pod twice for one job, and so believes that more is free than there is."""
    names = [[entry.get("by") for entry in each] for each in case["expected"].get("evictions", {}).values()]
    return any(len(each) != len(set(each)) for each in names)


def evictors(case: Case) -> Counter[str]:
    """Return the evicting jobs of a cycle, with the number of their victims."""
    entries = (entry for each in case["expected"].get("evictions", {}).values() for entry in each)
    return Counter(entry["by"] for entry in entries if "by" in entry)
