"""A second opinion on a cluster: list the API and count again, with nothing of the scheduler's own arithmetic.

It imports neither the scheduler nor the cache nor the quantities of `api`, where a mistake would hide itself. It
reports a node that is promised more than it has, a pod that its node did not take in, a pod that was bound more than
once, and a pending pod for which some node still has room.
"""

from __future__ import annotations

import json
import re
import urllib.request
from collections import defaultdict
from fractions import Fraction
from typing import Any, Final

import attrs

__all__ = ["Report", "audit"]

_SUFFIXES: Final = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12),
    "P": Fraction(10**15), "E": Fraction(10**18), "Pi": Fraction(2**50), "Ei": Fraction(2**60),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40),
}  # fmt: skip


#: Phases of pods that hold nothing any more, and how a kubelet's message about one that it did not take in begins.
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_REJECTED: Final = "Pod was rejected: "
#: In a pod's message, the numbers of nodes, what stands before them, and what PostFilter plugins said after them.
_COUNTS: Final = re.compile(
    r"^0/\d+ nodes are available: |\b\d+ (?=[A-Za-z])|\. (?:no new claims to deallocate|preemption: ).*$|\.$"
)


@attrs.define
class Report:
    """What was found. `problems` is empty when all is well."""

    nodes: int = 0
    bound: int = 0
    pending: int = 0
    #: Bound pods that their nodes did not take in (``OutOfcpu`` and the like), and those that have ended otherwise.
    rejected: int = 0
    ended: int = 0
    #: Sums over all nodes by resource: what there is, and what the bound pods ask for.
    capacity: dict[str, Fraction] = attrs.Factory(lambda: defaultdict(Fraction))
    used: dict[str, Fraction] = attrs.Factory(lambda: defaultdict(Fraction))
    #: Why pods are pending, and how many for that reason: their messages without the numbers of nodes.
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
    for pod in pods:
        where = pod["spec"].get("nodeName")
        if not where:
            pending.append(pod)
        elif pod["status"].get("phase") in _ENDED:
            _note_end(pod, report)  # it has nothing of its node any more
        elif where in free:
            _take(free[where], pod, report)
        else:
            report.problems.append(f"pod {_key(pod)} is bound to {where}, which does not exist")
    report.bound = len(pods) - len(pending)
    report.pending = len(pending)
    for name, left in free.items():
        report.problems.extend(
            f"node {name} is overcommitted: {resource} by {-amount}" for resource, amount in left.items() if amount < 0
        )
    _check_events(server, pods, report)
    # Equal pods get equal answers, and a trace has many of them.
    hopeless: set[tuple[object, ...]] = set()
    for pod in pending:
        _check_pending(pod, nodes, free, report, hopeless)
    return report


def _note_end(pod: dict[str, Any], report: Report) -> None:
    """Count a pod that has ended; one that its node did not take in is a scheduler's mistake."""
    message = pod["status"].get("message") or ""
    if not message.startswith(_REJECTED):
        report.ended += 1
        return
    report.rejected += 1
    where, why = pod["spec"]["nodeName"], message.removeprefix(_REJECTED)
    report.problems.append(f"pod {_key(pod)} was not taken in by {where}: {pod['status'].get('reason')}: {why}")


def _take(free: dict[str, Fraction], pod: dict[str, Any], report: Report) -> None:
    for name, amount in _requests(pod).items():
        free[name] = free.get(name, Fraction(0)) - amount
        report.used[name] += amount


def _check_pending(
    pod: dict[str, Any],
    nodes: list[dict[str, Any]],
    free: dict[str, dict[str, Fraction]],
    report: Report,
    hopeless: set[tuple[object, ...]],
) -> None:
    """Note why the pod waits, and whether some node has room for it all the same."""
    condition = next((c for c in pod["status"].get("conditions", ()) if c["type"] == "PodScheduled"), None)
    report.reasons[_COUNTS.sub("", condition["message"]) if condition else "not tried"] += 1
    if condition is None:
        report.problems.append(f"pod {_key(pod)} is pending and nobody says why")
    requests = _requests(pod)
    kind = (*sorted(requests.items()), *sorted(pod["spec"].get("nodeSelector", {}).items()))
    if kind in hopeless:
        return
    hopeless.add(kind)
    for node in nodes:
        left = free[node["metadata"]["name"]]
        if all(left.get(name, 0) >= amount for name, amount in requests.items()) and _admits(node, pod):
            report.problems.append(f"pod {_key(pod)} is pending but fits node {node['metadata']['name']}")
            return


def _admits(node: dict[str, Any], pod: dict[str, Any]) -> bool:
    """Tell whether node and pod match otherwise; what is not understood here counts as "may not match"."""
    spec = pod["spec"]
    if node["spec"].get("unschedulable") or node["spec"].get("taints") or spec.get("affinity"):
        return False
    labels = node["metadata"].get("labels", {})
    return all(labels.get(key) == value for key, value in spec.get("nodeSelector", {}).items())


def _check_events(server: str, pods: list[dict[str, Any]], report: Report) -> None:
    """Check that every bound pod was announced once, for the node it is on."""
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
