"""Check the result of a demo: list the API server's objects, and compute again what the pods of each node use.

The module uses no code of the scheduler, so that it does not repeat the scheduler's mistakes.
"""

from __future__ import annotations

import json
import re
import urllib.request
from collections import defaultdict
from fractions import Fraction
from typing import Any, Final

import attrs

from pyscheduler.cli.demo.device_audit import GPU, Devices, is_reservation, share_of

__all__ = ["GPU_PARTS", "Report", "audit"]

#: In the sums of a report: the amounts of all devices, in parts of a device.
GPU_PARTS: Final = "parts of devices"

_SUFFIXES: Final = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12),
    "P": Fraction(10**15), "E": Fraction(10**18), "Pi": Fraction(2**50), "Ei": Fraction(2**60),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40),
}  # fmt: skip


#: Phases of terminated pods, and how a kubelet's message about a rejected pod begins.
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_REJECTED: Final = "Pod was rejected: "
#: In a pod's message: the numbers of nodes, the text before them, and the text of PostFilter plugins after them.
_COUNTS: Final = re.compile(
    r"^0/\d+ nodes are available: |\b\d+ (?=[A-Za-z])|\. (?:no new claims to deallocate|preemption: ).*$|\.$"
)


@attrs.define
class Report:
    """The findings; `problems` is empty if the audit passes."""

    nodes: int = 0
    bound: int = 0
    pending: int = 0
    #: Bound pods that their node rejected (``OutOfcpu`` and the like), and bound pods that terminated otherwise.
    rejected: int = 0
    ended: int = 0
    #: Sums over all nodes by resource: allocatable amounts, and requests of the bound pods.
    capacity: dict[str, Fraction] = attrs.Factory(lambda: defaultdict(Fraction))
    used: dict[str, Fraction] = attrs.Factory(lambda: defaultdict(Fraction))
    #: Number of pending pods by message; the message is without the numbers of nodes.
    reasons: dict[str, int] = attrs.Factory(lambda: defaultdict(int))
    problems: list[str] = attrs.Factory(list)


def audit(server: str) -> Report:
    """List nodes, pods and events of `server` over plain HTTP and check them."""
    nodes = _items(server, "/api/v1/nodes")
    pods = _items(server, "/api/v1/pods")
    report = Report(nodes=len(nodes))
    free: dict[str, dict[str, Fraction]] = {}
    for node in nodes:
        allocatable = {name: _amount(text) for name, text in node["status"]["allocatable"].items()}
        free[node["metadata"]["name"]] = allocatable
        for name, amount in allocatable.items():
            report.capacity[name] += amount
    pending = []
    devices = Devices.of(nodes)
    for pod in pods:
        where = pod["spec"].get("nodeName")
        if not where:
            pending.append(pod)
        elif pod["status"].get("phase") in _ENDED:
            _note_end(pod, report)  # it uses none of the node's resources any more
        elif where in free:
            _take(free[where], pod, report)
            devices.take(where, pod)
        else:
            report.problems.append(f"pod {_key(pod)} is bound to {where}, which does not exist")
    _sum_devices(devices, pods, report)
    report.problems.extend(devices.problems())
    pods = [pod for pod in pods if not is_reservation(pod)]
    report.bound = len(pods) - len(pending)
    report.pending = len(pending)
    for name, left in free.items():
        report.problems.extend(
            f"node {name} is overcommitted: {resource} by {-amount}" for resource, amount in left.items() if amount < 0
        )
    _check_events(server, pods, report)
    # Equal pods have equal results, and a trace has many equal pods.
    hopeless: set[tuple[object, ...]] = set()
    for pod in pending:
        _check_pending(pod, nodes, free, devices, report, hopeless)
    return report


def _sum_devices(devices: Devices, pods: list[dict[str, Any]], report: Report) -> None:
    """Add the amounts of all devices, whole and shared ones, to the report."""
    if not devices.capacity:
        return
    size = max(devices.capacity.values())
    own = [pod for pod in pods if pod["spec"].get("nodeName") and not is_reservation(pod)]
    whole = sum((_requests(pod).get(GPU, Fraction(0)) for pod in own), start=Fraction(0))
    report.capacity[GPU_PARTS] = report.capacity[GPU] * size
    report.used[GPU_PARTS] = whole * size + devices.shared


def _note_end(pod: dict[str, Any], report: Report) -> None:
    """Count a terminated pod; a pod that its node rejected is a mistake of the scheduler."""
    message = pod["status"].get("message") or ""
    if not message.startswith(_REJECTED):
        report.ended += 1
        return
    report.rejected += 1
    where, why = pod["spec"]["nodeName"], message.removeprefix(_REJECTED)
    report.problems.append(f"pod {_key(pod)} was rejected by {where}: {pod['status'].get('reason')}: {why}")


def _take(free: dict[str, Fraction], pod: dict[str, Any], report: Report) -> None:
    for name, amount in _requests(pod).items():
        free[name] = free.get(name, Fraction(0)) - amount
        report.used[name] += amount


def _check_pending(
    pod: dict[str, Any],
    nodes: list[dict[str, Any]],
    free: dict[str, dict[str, Fraction]],
    devices: Devices,
    report: Report,
    hopeless: set[tuple[object, ...]],
) -> None:
    """Record why the pod is pending, and whether it fits on a node nevertheless."""
    condition = next((c for c in pod["status"].get("conditions", ()) if c["type"] == "PodScheduled"), None)
    report.reasons[_COUNTS.sub("", condition["message"]) if condition else "not tried"] += 1
    if condition is None:
        report.problems.append(f"pod {_key(pod)} is pending and has no PodScheduled condition")
    requests = _requests(pod)
    kind = (share_of(pod), *sorted(requests.items()), *sorted(pod["spec"].get("nodeSelector", {}).items()))
    if kind in hopeless:
        return
    hopeless.add(kind)
    for node in nodes:
        where = node["metadata"]["name"]
        left = free[where]
        has_room = all(left.get(name, 0) >= amount for name, amount in requests.items())
        if has_room and _admits(node, pod) and devices.fits(where, pod, int(left.get(GPU, 0))):
            report.problems.append(f"pod {_key(pod)} is pending but fits node {where}")
            return


def _admits(node: dict[str, Any], pod: dict[str, Any]) -> bool:
    """Return whether the pod's constraints allow the node; a constraint unknown to this module counts as not met."""
    spec = pod["spec"]
    if node["spec"].get("unschedulable") or node["spec"].get("taints") or spec.get("affinity"):
        return False
    labels = node["metadata"].get("labels", {})
    return all(labels.get(key) == value for key, value in spec.get("nodeSelector", {}).items())


def _check_events(server: str, pods: list[dict[str, Any]], report: Report) -> None:
    """Check that every bound pod has exactly one Scheduled event, for its node."""
    announced: dict[str, list[str]] = defaultdict(list)
    for event in _items(server, "/apis/events.k8s.io/v1/events"):
        if event.get("reason") == "Scheduled":
            announced[event["regarding"]["uid"]].append(event["note"].rsplit(" ", 1)[-1])
    for pod in pods:
        told = announced.get(pod["metadata"]["uid"], [])
        if len(told) > 1:
            report.problems.append(f"pod {_key(pod)} was bound {len(told)} times: {', '.join(told)}")
        if told and told[0] != pod["spec"].get("nodeName"):
            report.problems.append(f"pod {_key(pod)} is not on {told[0]}, where it was announced")


def _requests(pod: dict[str, Any]) -> dict[str, Fraction]:
    total: dict[str, Fraction] = defaultdict(Fraction)
    total["pods"] = Fraction(1)
    for container in pod["spec"]["containers"]:
        for name, text in container.get("resources", {}).get("requests", {}).items():
            total[name] += _amount(text)
    return total


def _amount(text: str | float) -> Fraction:
    written = str(text)
    digits = written.rstrip("KMGTPEinumk")
    return Fraction(digits) * _SUFFIXES[written[len(digits) :]]


def _key(pod: dict[str, Any]) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _items(server: str, path: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    token = ""
    while True:
        url = f"{server}{path}?limit=1000" + (f"&continue={token}" if token else "")
        with urllib.request.urlopen(url) as answer:  # noqa: S310 - the demo's own server on loopback
            page = json.load(answer)
        items.extend(page["items"])
        token = page["metadata"].get("continue", "")
        if not token:
            return items
