"""Turn a recorded session of Volcano into the log that an API server would have."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from pyscheduler_lab.audit import Options
from tests.batch.checker.log import VOLCANO, Log

__all__ = ["evicting_groups", "log_of_session", "options_of_session", "shares_decide", "write_session"]

Case = dict[str, Any]
_ON_A_NODE: Final = frozenset({"Running", "Terminating"})


def options_of_session(case: Case) -> Options:
    """Return the options under which the session ran: the plugin that divides the cluster among queues."""
    plugins = {plugin["name"] for tier in case["configuration"]["tiers"] for plugin in tier}
    formula = "capacity" if "capacity" in plugins else "proportion"
    return Options(schedulers=frozenset({"volcano"}), formula=formula, status_seconds=None)


def shares_decide(case: Case) -> bool:
    """Return True if shares decide about victims: no earlier tier names any, and no ancestor may permit a reclaim."""
    for tier in case["configuration"]["tiers"]:
        plugins = {plugin["name"]: plugin for plugin in tier if plugin.get("enableReclaimable", True)}
        found = plugins.get("proportion", plugins.get("capacity"))
        if found is not None:
            return not found.get("arguments", {}).get("ancestorReclaimLevel")
        if plugins.keys() & {"gang", "conformance"}:
            return False
    return False


def log_of_session(case: Case) -> Log:
    """Return the log of the situation before the session."""
    log = Log("volcano")
    for node in case["nodes"]:
        log.create("v1", "Node", node["name"], spec={}, status={"allocatable": _amounts(node["allocatable"])})
    for queue in case["queues"]:
        log.create(VOLCANO, "Queue", queue["name"], metadata=_metadata(queue), spec=_queue_spec(queue))
    for group in case["podGroups"]:
        spec = {key: group[key] for key in ("queue", "minMember", "minTaskMember") if key in group}
        if group.get("priority"):
            spec["priorityClassName"] = f"priority-{group['priority']}"
            if ("PriorityClass", spec["priorityClassName"]) not in log.objects:
                log.create("scheduling.k8s.io/v1", "PriorityClass", spec["priorityClassName"], value=group["priority"])
        log.create(VOLCANO, "PodGroup", group["name"], metadata=_metadata(group), spec=spec)
    for pod in case["pods"]:
        _create_pod(log, pod)
    return log


def _amounts(amounts: dict[str, float]) -> dict[str, str]:
    return {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in amounts.items()}


def _metadata(entry: Case) -> dict[str, Any]:
    created = datetime.fromtimestamp(entry.get("created", 0), UTC).isoformat()
    return {"uid": entry["name"], "creationTimestamp": created}


def _queue_spec(queue: Case) -> dict[str, Any]:
    spec: dict[str, Any] = {key: queue[key] for key in ("weight", "parent", "priority", "reclaimable") if key in queue}
    for key in ("capability", "deserved"):
        if key in queue:
            spec[key] = _amounts(queue[key])
    if "guarantee" in queue:
        spec["guarantee"] = {"resource": _amounts(queue["guarantee"])}
    return spec


def _create_pod(log: Log, pod: Case) -> None:
    annotations = {"scheduling.k8s.io/group-name": pod["group"]}
    if "role" in pod:
        annotations["volcano.sh/task-spec"] = pod["role"]
    if "preemptable" in pod:
        annotations["volcano.sh/preemptable"] = str(pod["preemptable"]).lower()
    metadata = _metadata(pod) | {"annotations": annotations}
    if pod["state"] == "Terminating":
        metadata["deletionTimestamp"] = datetime.fromtimestamp(log.now, UTC).isoformat()
    requests = {"requests": _amounts(pod["requests"])}
    spec: dict[str, Any] = {"schedulerName": "volcano", "containers": [{"resources": requests}]}
    if "priority" in pod:
        spec["priority"] = pod["priority"]
    if pod["state"] in _ON_A_NODE:
        spec["nodeName"] = pod["node"]
    phase = {"Terminating": "Running"}.get(pod["state"], pod["state"])
    log.create("v1", "Pod", pod["name"], metadata=metadata, spec=spec, status={"phase": phase})


def evicting_groups(case: Case) -> set[str]:
    """Return the groups with a pipelined pod: the evictions were made for them."""
    groups = {pod["name"]: pod["group"] for pod in case["pods"]}
    return {groups[name] for name, one in case["expected"]["pods"].items() if one["result"] == "pipelined"}


def write_session(case: Case, log: Log, action: str, by: str) -> None:
    """Write the bindings of the session, and then its evictions, all for one group."""
    results = case["expected"]["pods"]
    log.bind(*(name for name, one in results.items() if one["result"] == "bound"))
    log.evict(*(name for name, one in results.items() if one["result"] == "evicted"), action=action, by=by, gone=False)
