"""The kubelet's check of a pod bound to its node: a pod that does not fit fails, for example as ``OutOfcpu``.

Differs from the kubelet: a pod's operating system is not compared with the node's.
Source of reasons and messages: the kubelet, ``pkg/kubelet/lifecycle/predicate.go``.
"""

from __future__ import annotations

import functools
import math
import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from kube_objects.affinity import NodeSelector
from kube_objects.node_selectors import compile_node_selector
from kube_objects.taints import NO_EXECUTE, Taint, Toleration, find_untolerated

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kube_testserver.store import Object

__all__ = ["Demand", "NodeRoom", "Rejection", "demand_of"]

_NUMBER: Final = re.compile(r"([+-]?)(\d*\.?\d*)(?:[eE]([+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)")
_SUFFIXES: Final = {
    **{
        suffix: Fraction(10) ** power
        for suffix, power in zip("numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18), strict=True)
    },
    **{f"{suffix}i": Fraction(2) ** (10 * power) for power, suffix in enumerate("KMGTPE", start=1)},
}
#: Compared in this order, the others after them by name.
_FIRST: Final = ("cpu", "memory", "ephemeral-storage")
_POD_LEVEL: Final = frozenset({"cpu", "memory"})
_HUGE_PAGES: Final = "hugepages-"
_ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - how a port on all addresses is written, not one that is opened
_NO_MATCH: Final = "node(s) didn't match Pod's node affinity/selector"
_NO_PORTS: Final = "node(s) didn't have free ports for the requested pod ports"
_NO_TOLERATION: Final = "node(s) had taints that the pod didn't tolerate"

Port = tuple[str, str, int]
"""Address, protocol and number of a port on the host."""


class Rejection(NamedTuple):
    """Why a pod was not taken in: `reason` in one word, and the kubelet's `message`."""

    reason: str
    message: str


class Demand(NamedTuple):
    """The share of a pod in its node: amounts by resource (thousandths of a CPU, else whole units), and host ports."""

    amounts: Mapping[str, int]
    ports: tuple[Port, ...]


class NodeRoom:
    """One node as its kubelet sees it: what there is, and what the pods it took in have of it."""

    __slots__ = ("_labels", "_name", "_pods", "_ports", "_taints", "_total", "_used")

    def __init__(self, node: Object) -> None:
        self._pods: dict[str, Demand] = {}
        self._used: dict[str, int] = {}
        self._ports: dict[Port, int] = {}
        self.update(node)

    def update(self, node: Object) -> None:
        """Take over what the node is now; pods that were taken in stay, even where they no longer fit."""
        self._name: str = node["metadata"]["name"]
        self._labels: Mapping[str, str] = node["metadata"].get("labels") or {}
        self._taints = msgspec.convert((node.get("spec") or {}).get("taints") or (), tuple[Taint, ...])
        allocatable = (node.get("status") or {}).get("allocatable") or {}
        self._total = {name: amount_of(text, name) for name, text in allocatable.items()}

    def admit(self, uid: str, pod: Object) -> Rejection | None:
        """Take a pod in, or say why not; one that was taken in before is in already."""
        if uid in self._pods:
            return None
        demand = demand_of(pod)
        why = self._refusal(pod, demand)
        if why is None:
            self.hold(uid, demand)
        return why

    def hold(self, uid: str, demand: Demand) -> None:
        """Count a pod without asking whether it fits: it runs already, or now asks for something else."""
        self.release(uid)
        self._pods[uid] = demand
        self._count(demand, 1)

    def release(self, uid: str) -> None:
        """Stop counting a pod; ignore one that this node did not admit."""
        demand = self._pods.pop(uid, None)
        if demand is not None:
            self._count(demand, -1)

    def _count(self, demand: Demand, sign: int) -> None:
        used, ports = self._used, self._ports
        for name, amount in demand.amounts.items():
            used[name] = used.get(name, 0) + sign * amount
        for port in demand.ports:
            ports[port] = ports.get(port, 0) + sign
            if not ports[port]:
                del ports[port]

    def _refusal(self, pod: Object, demand: Demand) -> Rejection | None:
        capacity = self._total.get("pods", 0)
        if len(self._pods) + 1 > capacity:
            return _out_of("pods", 1, len(self._pods), capacity)
        for name in _in_order(demand.amounts):
            wanted, used, capacity = demand.amounts[name], self._used.get(name, 0), self._total.get(name, 0)
            if name not in self._total and _is_extended(name):
                continue  # a resource of the cluster, or one that a driver gives: not this node's to count
            if wanted > 0 and wanted > capacity - used:
                return _out_of(name, wanted, used, capacity)
        spec = pod.get("spec") or {}
        if not self._matches(spec):
            return Rejection("NodeAffinity", f"Predicate NodeAffinity failed: {_NO_MATCH}")
        if any(self._is_taken(port) for port in demand.ports):
            return Rejection("NodePorts", f"Predicate NodePorts failed: {_NO_PORTS}")
        if self._taints and not self._tolerates(spec):
            return Rejection("TaintToleration", f"Predicate TaintToleration failed: {_NO_TOLERATION}")
        return None

    def _matches(self, spec: Object) -> bool:
        if any(self._labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
            return False
        affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
        required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
        if required is None:
            return True
        selector = msgspec.convert(required, NodeSelector)
        return compile_node_selector(selector).matches(self._labels, self._name)

    def _tolerates(self, spec: Object) -> bool:
        tolerations = msgspec.convert(spec.get("tolerations") or (), tuple[Toleration, ...])
        return find_untolerated(self._taints, tolerations, (NO_EXECUTE,)) is None

    def _is_taken(self, port: Port) -> bool:
        address, protocol, number = port
        if address == _ANY_ADDRESS:
            return any(taken[1:] == (protocol, number) for taken in self._ports)
        return port in self._ports or (_ANY_ADDRESS, protocol, number) in self._ports

    def check_invariants(self) -> None:
        """Raise `AssertionError` when the sums are not those of the pods."""
        used: dict[str, int] = {}
        for demand in self._pods.values():
            for name, amount in demand.amounts.items():
                used[name] = used.get(name, 0) + amount
        kept = {name: amount for name, amount in self._used.items() if amount}
        assert kept == {name: amount for name, amount in used.items() if amount}, f"{self._name}: the sums are off"
        held = {port for demand in self._pods.values() for port in demand.ports}
        assert held == set(self._ports), f"{self._name}: the ports are off"


def demand_of(pod: Object) -> Demand:
    """Return what a pod takes of a node.

    Its containers run side by side, its init containers one after the other before them; those that go on running
    (``restartPolicy: Always``) count beside all that comes later. What the pod asks for as a whole goes before.
    """
    spec = pod.get("spec") or {}
    running: dict[str, int] = {}
    beside: dict[str, int] = {}
    highest: dict[str, int] = {}
    for container in spec.get("containers") or ():
        _add(running, _requests(container))
    for container in spec.get("initContainers") or ():
        asked = _requests(container)
        if container.get("restartPolicy") == "Always":
            _add(running, asked)
            _add(beside, asked)
            _raise(highest, beside)
        else:
            together = dict(beside)
            _add(together, asked)
            _raise(highest, together)
    _raise(running, highest)
    of_pod = _requests(spec)
    running.update(
        (name, amount) for name, amount in of_pod.items() if name in _POD_LEVEL or name.startswith(_HUGE_PAGES)
    )
    _add(running, _amounts(spec.get("overhead") or {}))
    return Demand(running, tuple(_host_ports(spec)))


@functools.lru_cache(maxsize=1 << 14)
def amount_of(text: str | float, resource: str) -> int:
    """Return a quantity, rounded up: of CPU in thousandths, else in whole units; what is none counts as nothing."""
    match = _NUMBER.fullmatch(str(text))
    digits = match[2] if match is not None else ""
    if match is None or not digits.strip("."):
        return 0
    exponent = min(int(match[3] or 0), 30)
    value = Fraction(digits if digits[-1] != "." else digits[:-1]) * Fraction(10) ** max(exponent, -30)
    value *= _SUFFIXES.get(match[4] or "", 1)
    return math.ceil(value * (1000 if resource == "cpu" else 1)) * (-1 if match[1] == "-" else 1)


def _requests(owner: Object) -> dict[str, int]:
    resources = owner.get("resources")
    return _amounts(resources.get("requests") or {}) if resources else {}


def _amounts(quantities: Mapping[str, Any]) -> dict[str, int]:
    return {name: amount_of(text, name) for name, text in quantities.items()}


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise(total: dict[str, int], floor: Mapping[str, int]) -> None:
    for name, amount in floor.items():
        total[name] = max(total.get(name, 0), amount)


def _host_ports(spec: Object) -> Iterator[Port]:
    sidecars = (one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always")
    for container in (*(spec.get("containers") or ()), *sidecars):
        for port in container.get("ports") or ():
            if port.get("hostPort"):
                yield port.get("hostIP") or _ANY_ADDRESS, port.get("protocol") or "TCP", port["hostPort"]


def _in_order(amounts: Mapping[str, int]) -> Iterator[str]:
    yield from (name for name in _FIRST if name in amounts)
    yield from sorted(name for name in amounts if name not in _FIRST)


def _is_extended(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def _out_of(name: str, wanted: int, used: int, capacity: int) -> Rejection:
    numbers = f"requested: {wanted}, used: {used}, capacity: {capacity}"
    return Rejection(f"OutOf{name}", f"Node didn't have enough resource: {name}, {numbers}")
