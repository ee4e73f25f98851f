"""The status that a kubelet writes for a pod that runs, has completed, or is rejected."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from kube_testserver.conditions import set_condition

if TYPE_CHECKING:
    from kube_testserver.controllers.node_admission import Rejection
    from kube_testserver.store import Object

__all__ = ["complete", "host_address", "reject", "run"]

_RUNNING_CONDITIONS: Final = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
#: Once the containers are done, these hold no longer; the pod was initialized all the same.
_LOST_CONDITIONS: Final = ("PodReadyToStartContainers", "Ready", "ContainersReady")


def host_address(node: Object | None) -> str:
    """Return the address of a node that pods report as theirs."""
    addresses = (((node or {}).get("status") or {}).get("addresses")) or ()
    return next((one.get("address") or "" for one in addresses if one.get("type") == "InternalIP"), "")


def run(pod: Object, now: str, *, host: str, address: str) -> None:
    """Make a pod Running and Ready on the node at `host`, with an `address` of its own."""
    spec, status = pod.get("spec") or {}, pod.setdefault("status", {})
    generation = pod["metadata"].get("generation")
    status["phase"] = "Running"
    status["startTime"] = now
    if generation:
        status["observedGeneration"] = generation
    gates = [gate.get("conditionType") for gate in spec.get("readinessGates") or ()]
    met = {one.get("type") for one in status.get("conditions") or () if one.get("status") == "True"}
    unmet = [gate for gate in gates if gate not in met]
    for kind in _RUNNING_CONDITIONS:
        condition = _condition(kind, "True", now, generation)
        if kind == "Ready" and unmet:
            why = "".join(f'corresponding condition of pod readiness gate "{gate}" does not exist.' for gate in unmet)
            condition |= {"status": "False", "reason": "ReadinessGatesNotReady", "message": why}
        set_condition(status, condition)
    if not any(one.get("type") == "PodScheduled" for one in status["conditions"]):  # bound from the beginning
        set_condition(status, _condition("PodScheduled", "True", now, generation))
    for name, ip in (("hostIP", host), ("podIP", host if spec.get("hostNetwork") else address)):
        if ip:
            status[name], status[f"{name}s"] = ip, [{"ip": ip}]
    uid = pod["metadata"].get("uid") or ""
    if spec.get("initContainers"):
        status["initContainerStatuses"] = [
            _running(one, uid, now) if one.get("restartPolicy") == "Always" else _done(_running(one, uid, now), now)
            for one in spec["initContainers"]
        ]
    status["containerStatuses"] = [_running(one, uid, now) for one in spec.get("containers") or ()]


def complete(pod: Object, now: str) -> None:
    """Make a running pod Succeeded: every container exited with 0."""
    status = pod.setdefault("status", {})
    generation = pod["metadata"].get("generation")
    status["phase"] = "Succeeded"
    for kind in _LOST_CONDITIONS:
        set_condition(status, {**_condition(kind, "False", now, generation), "reason": "PodCompleted"})
    set_condition(status, {**_condition("Initialized", "True", now, generation), "reason": "PodCompleted"})
    for name in ("initContainerStatuses", "containerStatuses"):
        if name in status:
            status[name] = [_done(one, now, ready=name != "containerStatuses") for one in status[name]]


def reject(pod: Object, rejection: Rejection) -> None:
    """Make a pod Failed that its node rejected; keep only the conditions of its status."""
    before = pod.get("status") or {}
    kept = {name: before[name] for name in ("conditions", "qosClass") if name in before}
    pod["status"] = {
        **kept,
        "phase": "Failed",
        "reason": rejection.reason,
        "message": f"Pod was rejected: {rejection.message}",
    }
    if pod["metadata"].get("generation"):
        pod["status"]["observedGeneration"] = pod["metadata"]["generation"]


def _condition(kind: str, status: str, now: str, generation: int | None) -> Object:
    condition: Object = {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": now}
    return {**condition, "observedGeneration": generation} if generation else condition


def _running(container: Object, uid: str, now: str) -> Object:
    image, name = container.get("image") or "", container.get("name") or ""
    return {
        "name": name,
        "state": {"running": {"startedAt": now}},
        "lastState": {},
        "ready": True,
        "restartCount": 0,
        "image": image,
        "imageID": f"sha256:{_digest(image)}",
        "containerID": f"embedded://{_digest(uid + '/' + name)}",
        "started": True,
    }


def _done(status: Object, now: str, *, ready: bool = True) -> Object:
    """Return the status of a container that ended well; one that has ended stays as it is."""
    state = status.get("state") or {}
    if "terminated" in state:
        return status
    ended = {
        "exitCode": 0,
        "reason": "Completed",
        "startedAt": (state.get("running") or {}).get("startedAt") or now,
        "finishedAt": now,
        "containerID": status.get("containerID") or "",
    }
    return {**status, "state": {"terminated": ended}, "ready": ready, "started": False}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
