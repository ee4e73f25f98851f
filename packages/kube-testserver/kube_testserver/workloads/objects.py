"""Helpers for workload kinds such as Job: read fields of objects, and build pods."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kube_objects.quantity import parse_quantity
from kube_testserver.conditions import has_condition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kube_testserver.workloads.contract import Object

__all__ = [
    "as_int",
    "is_active",
    "is_ready",
    "merged",
    "name_of",
    "phase_of",
    "pod_of",
    "requests_of",
    "scaled",
    "summed",
    "template_hash",
    "uid_of",
]

_SAFE: Final = "bcdfghjklmnpqrstvwxz2456789"
_NANOS: Final = 1_000_000_000


def name_of(obj: Object) -> str:
    """Return the name of an object."""
    name: str = obj["metadata"]["name"]
    return name


def uid_of(obj: Object) -> str:
    """Return the uid of an object."""
    uid: str = obj["metadata"]["uid"]
    return uid


def as_int(value: Any, default: int) -> int:
    """Return a number, or the default if a manifest has something else in its place."""
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def phase_of(pod: Object) -> str:
    """Return the phase of a pod."""
    phase: str = (pod.get("status") or {}).get("phase") or "Pending"
    return phase


def is_active(obj: Object) -> bool:
    """Return True unless the object is being deleted or is a pod that ended."""
    return "deletionTimestamp" not in obj["metadata"] and phase_of(obj) not in {"Succeeded", "Failed"}


def is_ready(pod: Object) -> bool:
    """Return True if a pod is active and has the condition Ready."""
    return is_active(pod) and has_condition(pod.get("status") or {}, "Ready")


def merged(*parts: Mapping[str, Any] | None) -> Object:
    """Return one mapping; later parts win."""
    return {key: value for part in parts for key, value in (part or {}).items()}


def pod_of(
    template: Object,
    *,
    name: str = "",
    base: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
) -> Object:
    """Return a pod of a template with a name, or the beginning `base` of one; `labels`, `annotations`, `spec` win."""
    given = template.get("metadata") or {}
    metadata: Object = {"name": name} if name else {"generateName": base}
    for field, more in (("labels", labels), ("annotations", annotations)):
        if together := merged(given.get(field), more):
            metadata[field] = together
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": merged(copy.deepcopy(template.get("spec") or {}), spec),
    }


def template_hash(template: Object) -> str:
    """Return a short name for a template, with the letters that Kubernetes uses in names."""
    number, text = 2166136261, ""
    for byte in msgspec.json.encode(template, order="sorted"):
        number = (number ^ byte) * 16777619 & 0xFFFFFFFF
    while number:
        number, digit = divmod(number, len(_SAFE))
        text += _SAFE[digit]
    return text


def requests_of(template: Object, *fields: str) -> dict[str, int]:
    """Return what the containers of a pod request by resource, in billionths of a unit; bad amounts count as none.

    `fields` of the resources are read, of which the later win; by default limits and requests.
    """
    containers = (template.get("spec") or {}).get("containers") or ()
    amounts: dict[str, int] = {}
    for container in containers:
        resources = container.get("resources") or {}
        for name, amount in merged(*(resources.get(field) for field in fields or ("limits", "requests"))).items():
            try:
                amounts[name] = amounts.get(name, 0) + parse_quantity(amount)
            except ValueError:
                continue
    return amounts


def summed(parts: Iterable[Mapping[str, int]]) -> dict[str, str]:
    """Return the sum of requests, as quantities."""
    total: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, 0) + amount
    return {name: _quantity(amount) for name, amount in total.items()}


def scaled(amounts: Mapping[str, int], times: int) -> dict[str, int]:
    """Return requests times a number of pods."""
    return {name: amount * times for name, amount in amounts.items()}


def _quantity(nanos: int) -> str:
    return str(nanos // _NANOS) if nanos % _NANOS == 0 else f"{nanos // 1_000_000}m"
