"""The amounts of a ResourceQuota that one object uses, and the check whether a pod is in the quota's scopes.

An object counts as one under the name `count/PLURAL.GROUP`. A pod also uses its requests and limits.

Source: Kubernetes 1.36, `pkg/quota/v1/evaluator/core`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_objects import is_extended_resource
from kube_objects.codec import decode
from kube_objects.pods import Pod
from kube_objects.quantity import NANO, parse_quantity
from kube_objects.resources import is_pod_level_resource, pod_limits, pod_requests, qos_class
from kube_testserver.rules.quotas.amounts import ONE, ZERO, Amount, Amounts, read
from kube_testserver.store import encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kube_objects.meta import RawQuantity
    from kube_testserver.resources.table import Resource
    from kube_testserver.store import Object

__all__ = ["IGNORED", "Scope", "count_name", "counts_changes", "in_scopes", "matching", "missing", "usage"]

PODS: Final = "pods"
SERVICES: Final = "services"
VOLUME_CLAIMS: Final = "persistentvolumeclaims"
DEVICE_CLAIMS: Final = "resourceclaims.resource.k8s.io"
IGNORED: Final = frozenset({"bindings", "events"})
"""Collections whose objects no quota counts."""

#: Amounts that each container has to name if a quota limits them.
_NAMED: Final = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})
_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
_OF_PODS: Final = frozenset(
    {PODS, "count/pods", *(f"{prefix}{name}" for prefix in ("", "requests.", "limits.") for name in _COMPUTE)}
)
_PLAIN_COUNTS: Final = frozenset({"configmaps", "resourcequotas", "replicationcontrollers", "secrets"})
_OF_SERVICES: Final = frozenset({"count/services", "services", "services.nodeports", "services.loadbalancers"})
_OF_CLAIMS: Final = (VOLUME_CLAIMS, "requests.storage")
_HUGE: Final = "hugepages-"
_REQUESTS: Final = "requests."
_DEVICE_CLASS: Final = "deviceclass.resource.kubernetes.io/"
_SPECIAL: Final = (_HUGE, f"{_REQUESTS}{_HUGE}", f"{_REQUESTS}{_DEVICE_CLASS}")
_BY_STORAGE_CLASS: Final = ".storageclass.storage.k8s.io/"
_BY_DEVICE_CLASS: Final = ".deviceclass.resource.k8s.io/devices"
#: What a request for all devices of a class counts for: the most that a claim can get.
_MOST_DEVICES: Final = 32
_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"

Scope = tuple[str, str, tuple[str, ...]]
"""Name, operator and values of a condition on pods."""


def count_name(resource: Resource) -> str:
    """Return the name under which quotas count the objects of a resource."""
    return f"count/{resource.collection}"


def matching(resource: Resource, names: Iterable[str]) -> list[str]:
    """Return those of the names for which objects of the resource count, in order."""
    return sorted(name for name in names if _matches(resource, name))


def _matches(resource: Resource, name: str) -> bool:
    kind = resource.collection
    if name == count_name(resource):
        return kind not in IGNORED
    if kind == PODS:
        is_foreign = name.startswith(_REQUESTS) and "/" in name and "kubernetes.io/" not in name
        return name in _OF_PODS or is_foreign or name.startswith(_SPECIAL)
    if kind == SERVICES:
        return name in _OF_SERVICES
    if kind == VOLUME_CLAIMS:
        return name in _OF_CLAIMS or name.endswith(tuple(f"{_BY_STORAGE_CLASS}{one}" for one in _OF_CLAIMS))
    if kind == DEVICE_CLAIMS:
        return name.endswith(_BY_DEVICE_CLASS)
    return kind in _PLAIN_COUNTS and name == kind


def counts_changes(resource: Resource, old: Object, new: Object, subresource: str) -> bool:
    """Return whether a change of an object may need more of a quota."""
    if resource.collection == PODS:
        return subresource == "resize" or (not subresource and _is_terminating(old) != _is_terminating(new))
    return not subresource and resource.collection in (SERVICES, VOLUME_CLAIMS, DEVICE_CLAIMS)


def usage(resource: Resource, obj: Object) -> Amounts:
    """Return what an object uses of all quotas."""
    used = {count_name(resource): ONE}
    kind = resource.collection
    if kind == PODS:
        if (obj.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            used |= _pod_usage(obj)
    elif kind == SERVICES:
        used |= _service_usage(obj.get("spec") or {})
    elif kind == VOLUME_CLAIMS:
        used |= _volume_claim_usage(obj)
    elif kind == DEVICE_CLAIMS:
        for name, number in _devices(obj.get("spec") or {}):
            used[name] = used.get(name, ZERO) + Amount(number * NANO)
    elif kind in _PLAIN_COUNTS:
        used[kind] = ONE
    return used


def missing(names: Iterable[str], pod: Object) -> str:
    """Return which of the limited amounts some containers of a pod do not name; empty if there are none."""
    spec = pod.get("spec") or {}
    of_pod = spec.get("resources") or {}
    if any(map(is_pod_level_resource, (*(of_pod.get("requests") or ()), *(of_pod.get("limits") or ())))):
        return ""
    silent: dict[str, set[str]] = {}
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = container.get("resources") or {}
        named = _names(resources.get("requests") or {}, resources.get("limits") or {})
        for name in _NAMED.intersection(names).difference(named):
            silent.setdefault(name, set()).add(container.get("name") or "")
    return "; ".join(f"{name} for: {','.join(sorted(silent[name]))}" for name in sorted(silent))


def in_scopes(resource: Resource, obj: Object, scopes: Iterable[Scope]) -> bool:
    """Return whether an object is in all scopes; only pods can be in any."""
    wanted = tuple(scopes)
    if not wanted:
        return True
    if resource.collection != PODS:
        return False
    pod = decode(Pod, encode(obj))
    return all(_is_in(pod, scope) for scope in wanted)


def _is_in(pod: Pod, scope: Scope) -> bool:
    name, operator, values = scope
    match name:
        case "Terminating" | "NotTerminating":
            return _has_deadline(pod.spec.active_deadline_seconds) == (name == "Terminating")
        case "BestEffort" | "NotBestEffort":
            return (qos_class(pod) == "BestEffort") == (name == "BestEffort")
        case "CrossNamespacePodAffinity":
            return any(_reaches_out(pod))
        case "PriorityClass":
            found = pod.spec.priority_class_name
            if operator in ("In", "NotIn"):
                return (found in values) == (operator == "In")
            return bool(found) == (operator != "DoesNotExist")
    return False


def _reaches_out(pod: Pod) -> Iterator[bool]:
    affinity = pod.spec.affinity
    for part in () if affinity is None else (affinity.pod_affinity, affinity.pod_anti_affinity):
        if part is not None:
            weighted = part.preferred_during_scheduling_ignored_during_execution
            for term in (
                *part.required_during_scheduling_ignored_during_execution,
                *(one.pod_affinity_term for one in weighted),
            ):
                yield bool(term.namespaces) or term.namespace_selector is not None


def _is_terminating(pod: Object) -> bool:
    return _has_deadline((pod.get("spec") or {}).get("activeDeadlineSeconds"))


def _has_deadline(seconds: int | None) -> bool:
    return seconds is not None and seconds >= 0


def _pod_usage(obj: Object) -> Amounts:
    pod = decode(Pod, encode(obj))
    binary = {name for name, raw in _written(obj.get("spec") or {}) if read(raw).is_binary}
    requests, limits = (
        {name: Amount(number * NANO // (1000 if name == "cpu" else 1), name in binary) for name, number in part.items()}
        for part in (pod_requests(pod), pod_limits(pod))
    )
    return {PODS: ONE} | _names(requests, limits)


def _written(spec: Object) -> Iterator[tuple[str, RawQuantity]]:
    """Yield the amounts of a pod as its manifest has them."""
    for owner in (spec, *(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = owner.get("resources") or {}
        for section in ("requests", "limits"):
            yield from (resources.get(section) or {}).items()


def _names(requests: Mapping[str, Amount], limits: Mapping[str, Amount]) -> Amounts:
    """Return requests and limits by the names that quotas have for them."""
    named: Amounts = {}
    for name, amount in requests.items():
        if name in _COMPUTE or name.startswith(_HUGE):
            named[name] = amount
        elif not is_extended_resource(name) and not name.startswith(_DEVICE_CLASS):
            continue
        named[f"{_REQUESTS}{name}"] = amount
    return named | {f"limits.{name}": amount for name, amount in limits.items() if name in _COMPUTE}


def _service_usage(spec: Object) -> Amounts:
    ports, kind = spec.get("ports") or (), spec.get("type")
    node_ports = len(ports) if kind in ("NodePort", "LoadBalancer") else 0
    if kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
        node_ports = sum(bool(port.get("nodePort")) for port in ports)
    balancers = ONE if kind == "LoadBalancer" else ZERO
    return {SERVICES: ONE, "services.nodeports": Amount(node_ports * NANO), "services.loadbalancers": balancers}


def _volume_claim_usage(claim: Object) -> Amounts:
    spec = claim.get("spec") or {}
    used = {VOLUME_CLAIMS: ONE}
    raw = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if raw is not None:
        amount = _whole(read(raw))
        allocated = ((claim.get("status") or {}).get("allocatedResources") or {}).get("storage")
        if allocated is not None and parse_quantity(allocated) > amount.nanos:
            amount = _whole(read(allocated))
        used["requests.storage"] = amount
    # The annotation is older than the field, and wins.
    name = (claim["metadata"].get("annotations") or {}).get(_CLASS_ANNOTATION) or spec.get("storageClassName")
    return used | ({f"{name}{_BY_STORAGE_CLASS}{key}": amount for key, amount in used.items()} if name else {})


def _whole(amount: Amount) -> Amount:
    return Amount(-(-amount.nanos // NANO) * NANO, amount.is_binary)


def _devices(spec: Object) -> Iterator[tuple[str, int]]:
    """Yield, for each request of a claim, the names of device classes and the most devices that it may get."""
    for request in (spec.get("devices") or {}).get("requests") or ():
        most: dict[str, int] = {}
        exact = request.get("exactly")
        for one in request.get("firstAvailable") or ((exact,) if exact else ()):
            count = _MOST_DEVICES if one.get("allocationMode") == "All" else one.get("count") or 0
            name = f"{one.get('deviceClassName') or ''}{_BY_DEVICE_CLASS}"
            most[name] = max(most.get(name, 0), count)
        yield from most.items()
