"""Defaults of the kinds of networking and autoscaling, and of limit ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kube_testserver.rules.workload_defaults import fill

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kube_testserver.store import Object

__all__ = ["NETWORKING_DEFAULTS", "NETWORKING_STATUS"]

_TCP: Final = {"protocol": "TCP"}
_UTILIZATION: Final = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}


def _ports(owners: Iterable[Object] | None, values: Object = _TCP) -> None:
    for owner in owners or ():
        for port in owner.get("ports") or ():
            fill(port, values)


def _endpoints(endpoints: Object) -> None:
    _ports(endpoints.get("subsets"))


def _endpoint_slice(one: Object) -> None:
    _ports([one], {"name": "", **_TCP})
    for endpoint in one.get("endpoints") or ():
        fill(endpoint, {"conditions": {}})
    for name in ("endpoints", "ports"):  # Go writes both, empty ones as null
        one[name] = one.get(name) or None


def _ingress_class(one: Object) -> None:
    parameters = (one.get("spec") or {}).get("parameters")
    if parameters is not None:
        fill(parameters, {"scope": "Cluster"})


def _network_policy(policy: Object) -> None:
    spec = policy.setdefault("spec", {})
    _ports(spec.get("ingress"))
    _ports(spec.get("egress"))
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def _autoscaler(autoscaler: Object) -> None:
    spec = autoscaler.setdefault("spec", {})
    fill(spec, {"minReplicas": 1})
    if not spec.get("metrics"):
        spec["metrics"] = [_UTILIZATION]


def _limit_range(limits: Object) -> None:
    for item in (limits.get("spec") or {}).get("limits") or ():
        if item.get("type") == "Container":
            _merged(item, "default", item.get("max"))
            _merged(item, "defaultRequest", {**(item.get("min") or {}), **(item.get("default") or {})})


def _merged(item: Object, name: str, values: dict[str, Any] | None) -> None:
    merged = {**(values or {}), **(item.get(name) or {})}
    if merged:
        item[name] = merged


NETWORKING_DEFAULTS: Final[dict[str, Callable[[Object], None]]] = {
    "endpoints": _endpoints,
    "endpointslices.discovery.k8s.io": _endpoint_slice,
    "horizontalpodautoscalers.autoscaling": _autoscaler,
    "ingressclasses.networking.k8s.io": _ingress_class,
    "limitranges": _limit_range,
    "networkpolicies.networking.k8s.io": _network_policy,
}
NETWORKING_STATUS: Final[dict[str, Object]] = {
    "horizontalpodautoscalers.autoscaling": {"desiredReplicas": 0, "currentMetrics": None},
    "ingresses.networking.k8s.io": {"loadBalancer": {}},
}
"""By collection: the status of a new object."""
