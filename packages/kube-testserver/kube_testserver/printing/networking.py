"""The rows of networking, autoscaling and webhook configurations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kube_testserver.printing.columns import AGE, NAME, NONE, UNKNOWN, Column, Printer, field, number, printer
from kube_testserver.resources.scale import selector_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kube_testserver.store import Object

__all__ = ["NETWORKING_PRINTERS"]

_SHOWN: Final = 3
_SHOWN_METRICS: Final = 2


def _first_few(texts: Sequence[str]) -> str:
    """Return the first three texts, and how many more there are."""
    more = f" + {len(texts) - _SHOWN} more..." if len(texts) > _SHOWN else ""
    return ",".join(texts[:_SHOWN]) + more


def _addresses(subsets: Sequence[Object]) -> str:
    shown: list[str] = []
    for subset in subsets:
        ips = [one.get("ip") or "" for one in subset.get("addresses") or ()]
        ports = [port.get("port", 0) for port in subset.get("ports") or ()]
        shown += [f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}" for port in ports for ip in ips] if ports else ips
    return _first_few(shown) or NONE


def _hosts(rules: Sequence[Object]) -> str:
    return _first_few([rule["host"] for rule in rules if rule.get("host")]) or "*"


def _balancers(points: Sequence[Object]) -> str:
    return ",".join(one.get("ip") or one.get("hostname") or "" for one in points)


def _parameters(ref: Object) -> str:
    group = f".{ref['apiGroup']}" if ref.get("apiGroup") else ""
    return f"{ref.get('kind', '')}{group}/{ref.get('name', '')}"


def _targets(autoscaler: Object, _now: float) -> str:
    """Return present and wanted value of each metric of a resource; other metrics are only named."""
    present = {
        one["resource"].get("name"): one["resource"].get("current") or {}
        for one in (autoscaler.get("status") or {}).get("currentMetrics") or ()
        if one.get("resource")
    }
    shown = [_target(metric, present) for metric in (autoscaler.get("spec") or {}).get("metrics") or ()]
    if not shown:
        return NONE
    more = f" + {len(shown) - _SHOWN_METRICS} more..." if len(shown) > _SHOWN_METRICS else ""
    return ", ".join(shown[:_SHOWN_METRICS]) + more


def _target(metric: Object, present: dict[Any, Object]) -> str:
    of_resource = metric.get("resource")
    if not of_resource:
        return f"{UNKNOWN}/{metric.get('type', '')}"
    name, target = of_resource.get("name"), of_resource.get("target") or {}
    measured = present.get(name, {})
    if "averageUtilization" not in target:
        return f"{name}: {measured.get('averageValue', UNKNOWN)}/{target.get('averageValue', UNKNOWN)}"
    now = f"{measured['averageUtilization']}%" if "averageUtilization" in measured else UNKNOWN
    return f"{name}: {now}/{target['averageUtilization']}%"


def _slice_ports(ports: Sequence[Object]) -> str:
    return _first_few([str(port["port"]) if port.get("port") is not None else "*" for port in ports])


def _slice_addresses(endpoints: Sequence[Object]) -> str:
    return _first_few([address for one in endpoints for address in one.get("addresses") or ()])


def _selector(policy: Object, _now: float) -> Any:
    return selector_text((policy.get("spec") or {}).get("podSelector")) or NONE


_WEBHOOKS: Final = printer(NAME, field("Webhooks", "webhooks", otherwise=0, type="integer", convert=len), AGE)
NETWORKING_PRINTERS: Final[dict[str, Printer]] = {
    "endpoints": printer(NAME, field("Endpoints", "subsets", otherwise=NONE, convert=_addresses), AGE),
    "endpointslices.discovery.k8s.io": printer(
        NAME,
        field("AddressType", "addressType"),
        field("Ports", "ports", otherwise="<unset>", convert=_slice_ports),
        field("Endpoints", "endpoints", otherwise="<unset>", convert=_slice_addresses),
        AGE,
    ),
    "horizontalpodautoscalers.autoscaling": printer(
        NAME,
        field("Reference", "spec.scaleTargetRef", convert=lambda ref: f"{ref.get('kind', '')}/{ref.get('name', '')}"),
        (Column("Targets"), _targets),
        field("MinPods", "spec.minReplicas", otherwise="<unset>", convert=str),
        (Column("MaxPods"), number("", "spec.maxReplicas")[1]),
        (Column("Replicas"), number("", "status.currentReplicas")[1]),
        AGE,
    ),
    "ingressclasses.networking.k8s.io": printer(
        NAME,
        field("Controller", "spec.controller"),
        field("Parameters", "spec.parameters", otherwise=NONE, convert=_parameters),
        AGE,
    ),
    "ingresses.networking.k8s.io": printer(
        NAME,
        field("Class", "spec.ingressClassName", otherwise=NONE),
        field("Hosts", "spec.rules", otherwise="*", convert=_hosts),
        field("Address", "status.loadBalancer.ingress", convert=_balancers),
        field("Ports", "spec.tls", otherwise="80", convert=lambda _: "80, 443"),
        AGE,
    ),
    "limitranges": printer(NAME, field("Created At", "metadata.creationTimestamp", type="date")),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
    "networkpolicies.networking.k8s.io": printer(NAME, (Column("Pod-Selector"), _selector), AGE),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
}
"""By collection: how these kinds are printed."""
