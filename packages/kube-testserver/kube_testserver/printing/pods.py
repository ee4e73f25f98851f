"""A pod's row in `kubectl get`: the number of ready containers, and a word for the state, such as `Terminating`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kube_objects.errors import DecodeError
from kube_objects.times import parse_time
from kube_testserver.conditions import has_condition
from kube_testserver.printing.columns import AGE, NONE, UNKNOWN, Column, human_duration

if TYPE_CHECKING:
    from kube_testserver.store import Object

__all__ = ["POD_COLUMNS", "pod_cells"]

POD_COLUMNS: Final = (
    Column("Name", format="name", description="Name of the pod, unique within its namespace."),
    Column("Ready", description="Containers that are ready, of all."),
    Column("Status", description="The state of the pod in one word."),
    Column("Restarts", description="How often containers were restarted, and when last."),
    Column("Age", description="Time since the pod was created."),
    Column("IP", description="Address of the pod.", priority=1),
    Column("Node", description="Node the pod is bound to.", priority=1),
    Column("Nominated Node", description="Node on which room is being made for the pod.", priority=1),
    Column("Readiness Gates", description="Readiness gates that are met, of all.", priority=1),
)


def pod_cells(pod: Object, now: float) -> list[Any]:
    """Return the cells of a pod; `now` is in seconds since the epoch."""
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    statuses = status.get("containerStatuses") or []
    of_init = status.get("initContainerStatuses") or []
    sidecars = {one.get("name") for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"}
    word, initializing, ready = _initializing(spec, status, sidecars)
    counted = of_init
    if not initializing or has_condition(status, "Initialized"):
        word = _of_containers(status, statuses, word)
        ready += sum(1 for one in statuses if one.get("ready") and "running" in (one.get("state") or {}))
        counted = [*(one for one in of_init if one.get("name") in sidecars), *statuses]
    if "deletionTimestamp" in metadata:
        if status.get("reason") == "NodeLost":
            word = "Unknown"
        elif status.get("phase") not in ("Succeeded", "Failed"):
            word = "Terminating"
    return [
        metadata["name"],
        f"{ready}/{len(spec.get('containers') or ()) + len(sidecars)}",
        word,
        _restarts(counted, now),
        AGE[1](pod, now),
        status.get("podIP") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _readiness_gates(spec, status),
    ]


def _initializing(spec: Object, status: Object, sidecars: set[Any]) -> tuple[str, bool, int]:
    """Return the pod's own word, whether its init containers still speak for it, and how many sidecars are ready."""
    word = status.get("reason") or status.get("phase") or ""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            word = "SchedulingGated"
    total, ready = len(spec.get("initContainers") or ()), 0
    for index, one in enumerate(status.get("initContainerStatuses") or ()):
        state = one.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting")
        if ended is not None and ended.get("exitCode") == 0:
            continue
        if one.get("name") in sidecars and one.get("started"):
            ready += bool(one.get("ready"))
            continue
        if ended is not None:
            return f"Init:{_end_reason(ended)}", True, ready
        if waiting is not None and waiting.get("reason") not in (None, "", "PodInitializing"):
            return f"Init:{waiting['reason']}", True, ready
        return f"Init:{index}/{total}", True, ready
    return word, False, ready


def _of_containers(status: Object, statuses: list[Object], word: str) -> str:
    running, mistake = False, ""
    for one in reversed(statuses):
        state = one.get("state") or {}
        if (state.get("waiting") or {}).get("reason"):
            word = state["waiting"]["reason"]
        elif state.get("terminated") is not None:
            word = _end_reason(state["terminated"])
            if state["terminated"].get("exitCode"):
                mistake = word
        elif one.get("ready") and "running" in state:
            running = True
    if word != "Completed":
        return word
    if running and has_condition(status, "Ready"):
        return "Running"
    return mistake or ("NotReady" if running else word)


def _end_reason(ended: Object) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _restarts(statuses: list[Object], now: float) -> str:
    count = sum(one.get("restartCount") or 0 for one in statuses)
    ends = [((one.get("lastState") or {}).get("terminated") or {}).get("finishedAt") for one in statuses]
    try:
        last = max((parse_time(end) for end in ends if end), default=None)
    except DecodeError:
        return f"{count} ({UNKNOWN} ago)"
    return f"{count} ({human_duration(now - last)} ago)" if count and last is not None else str(count)


def _readiness_gates(spec: Object, status: Object) -> str:
    gates = spec.get("readinessGates") or ()
    if not gates:
        return NONE
    met = {one.get("type") for one in status.get("conditions") or () if one.get("status") == "True"}
    return f"{sum(1 for gate in gates if gate.get('conditionType') in met)}/{len(gates)}"
