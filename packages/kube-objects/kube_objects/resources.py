"""The requests of a pod: amounts of resources, and host ports.

The formula is part of the Kubernetes API:

- The requests of containers and of sidecars (init containers that keep running) are added up.
- The requests of any other init container and of the sidecars before it are added up, too. For each resource, the
  largest sum counts.
- Pod-level requests of CPU, memory or huge pages replace the result.
- The pod's overhead is added.

Differs from kube-scheduler: pod-level requests count even if the gate PodLevelResources is off.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kube_objects.quantity import milli_of, parse_quantity, quantity_milli, quantity_value, value_of

if TYPE_CHECKING:
    from kube_objects.containers import Container, ContainerStatus
    from kube_objects.meta import ResourceList
    from kube_objects.pods import Pod

DEFAULT_MILLI_CPU: Final = 100
"""Milli-CPU that a container without a CPU request counts for in scores."""
DEFAULT_MEMORY: Final = 200 * 1024 * 1024
"""Bytes that a container without a memory request counts for in scores."""

_CPU: Final = "cpu"
_MEMORY: Final = "memory"
_DEFAULTS: Final[Mapping[str, int]] = {
    _CPU: parse_quantity(f"{DEFAULT_MILLI_CPU}m"),
    _MEMORY: parse_quantity(DEFAULT_MEMORY),
}
_NO_DEFAULTS: Final[Mapping[str, int]] = {}
_NO_STATUSES: Final[Mapping[str, ContainerStatus]] = {}


def pod_requests(
    pod: Pod,
    *,
    use_status: bool = True,
    pod_level: bool = True,
    fill_missing: bool = False,
) -> dict[str, int]:
    """Return what `pod` requests, by resource name: ``cpu`` in thousandths of a core, the rest in whole units.

    `use_status` takes a resize into account (feature gate ``InPlacePodVerticalScaling``), `pod_level` the requests
    of the pod as a whole (``PodLevelResources``). `fill_missing` counts `DEFAULT_MILLI_CPU` and `DEFAULT_MEMORY` for
    each container that is silent about them. Raise `QuantityError` for a malformed amount.
    """
    spec = pod.spec
    containers = spec.containers
    if (
        len(containers) == 1
        and not (spec.init_containers or spec.overhead)
        and (not fill_missing or _DEFAULTS.keys() <= containers[0].resources.requests.keys())
        and spec.resources is None
        and not (use_status and pod.status.container_statuses)
    ):
        return {
            name: quantity_milli(raw) if name == _CPU else quantity_value(raw)
            for name, raw in containers[0].resources.requests.items()
        }
    return _rounded(
        _total(pod, _DEFAULTS if fill_missing else _NO_DEFAULTS, use_status=use_status, pod_level=pod_level)
    )


def pod_limits(pod: Pod) -> dict[str, int]:
    """Return what `pod` may use at most, in the units of `pod_requests`; what is not limited is left out.

    Overhead comes on top of limits that are there. A resize that is under way is not taken into account.
    Raise `QuantityError` for a malformed amount.
    """
    total = _containers_total(pod, _NO_DEFAULTS, use_status=False, infeasible=False, limits=True)
    resources = pod.spec.resources
    if resources is not None:
        total.update({name: nanos for name, nanos in _nanos(resources.limits).items() if is_pod_level_resource(name)})
    _add(total, {name: nanos for name, nanos in _nanos(pod.spec.overhead).items() if total.get(name)})
    return _rounded(total)


def container_requests(pod: Pod, container: Container) -> dict[str, int]:
    """Return what one of the pod's containers requests, in the units of `pod_requests`, with a resize under way.

    What the API server fills in (a limit without a request) is in `container` already.
    """
    resizes = is_sidecar(container) or container not in pod.spec.init_containers
    statuses = _reported(pod) if resizes else _NO_STATUSES
    return _rounded(_container(container, statuses, _NO_DEFAULTS, infeasible=is_resize_infeasible(pod), limits=False))


def amounts_of(amounts: ResourceList) -> dict[str, int]:
    """Return the amounts of a `ResourceList` as integers, in the units of `pod_requests`.

    Raise `QuantityError` for a malformed amount.
    """
    return _rounded(_nanos(amounts))


def qos_class(pod: Pod) -> str:
    """Return `Guaranteed`, `Burstable` or `BestEffort`: from the status, else as the API server computes it."""
    if pod.status.qos_class:
        return pod.status.qos_class
    spec = pod.spec
    of_pod = spec.resources
    if of_pod is not None and (of_pod.requests or of_pod.limits):
        parts = [of_pod]
    else:
        parts = [container.resources for container in (*spec.init_containers, *spec.containers)]
    pairs = [
        (parse_quantity(part.requests.get(name, 0)), parse_quantity(part.limits.get(name, 0)))
        for part in parts
        for name in (_CPU, _MEMORY)
    ]
    if not any(request or limit for request, limit in pairs):
        return "BestEffort"
    return "Guaranteed" if all(limit > 0 and request == limit for request, limit in pairs) else "Burstable"


def non_zero_requests(pod: Pod, *, use_status: bool = True, pod_level: bool = True) -> tuple[int, int]:
    """Return milli-CPU and bytes that `pod` counts for on its node in scores, where nobody counts for nothing.

    Silent containers count for the defaults; with pod-level requests only for what the pod requests nowhere.
    """
    if not (pod_level and has_pod_level_requests(pod)):
        amounts = pod_requests(pod, use_status=use_status, pod_level=False, fill_missing=True)
        return amounts.get(_CPU, 0), amounts.get(_MEMORY, 0)
    plain = _total(pod, _NO_DEFAULTS, use_status=use_status, pod_level=True)
    defaults = {name: nanos for name, nanos in _DEFAULTS.items() if name not in plain}
    total = _total(pod, defaults, use_status=use_status, pod_level=True) if defaults else plain
    return milli_of(total.get(_CPU, 0)), value_of(total.get(_MEMORY, 0))


def has_pod_level_requests(pod: Pod) -> bool:
    """Return whether `pod` requests, as a whole, a resource that can be requested so."""
    resources = pod.spec.resources
    return resources is not None and any(map(is_pod_level_resource, resources.requests))


def is_pod_level_resource(name: str) -> bool:
    """Return whether a resource can be requested for a pod as a whole: CPU, memory and huge pages."""
    return name in {_CPU, _MEMORY} or name.startswith("hugepages-")


def is_sidecar(container: Container) -> bool:
    """Return whether an init container keeps running beside the containers."""
    return container.restart_policy == "Always"


def is_resize_infeasible(pod: Pod) -> bool:
    """Return whether the node has called a pending resize of `pod` infeasible."""
    for condition in pod.status.conditions:
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


def host_ports(pod: Pod) -> tuple[tuple[str, str, int], ...]:
    """Return (address, protocol, port) of each port of the host that `pod` takes, sidecars first.

    Address and protocol are filled in: ``0.0.0.0`` for all addresses, ``TCP``.
    """
    sidecars = [container for container in pod.spec.init_containers if is_sidecar(container)]
    return tuple(
        (port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)  # noqa: S104 - compared, never bound
        for container in (*sidecars, *pod.spec.containers)
        for port in container.ports
        if port.host_port > 0
    )


def _total(pod: Pod, defaults: Mapping[str, int], *, use_status: bool, pod_level: bool) -> dict[str, int]:
    """Return the pod's requests in nanos."""
    infeasible = use_status and is_resize_infeasible(pod)
    total = _containers_total(pod, defaults, use_status=use_status, infeasible=infeasible)
    resources = pod.spec.resources
    if pod_level and resources is not None:
        wanted = _nanos(resources.requests)
        in_force = pod.status.resources
        effective = wanted
        if use_status and in_force is not None:
            actual = _largest(_nanos(in_force.requests), _nanos(pod.status.allocated_resources))
            effective = actual if infeasible else _largest(wanted, actual)
        for name in wanted:
            if is_pod_level_resource(name):
                total[name] = effective.get(name, 0)
    if pod.spec.overhead:
        _add(total, _nanos(pod.spec.overhead))
    return total


def _containers_total(
    pod: Pod, defaults: Mapping[str, int], *, use_status: bool, infeasible: bool, limits: bool = False
) -> dict[str, int]:
    statuses = _reported(pod) if use_status else _NO_STATUSES
    total: dict[str, int] = {}
    for container in pod.spec.containers:
        _add(total, _container(container, statuses, defaults, infeasible=infeasible, limits=limits))
    if not pod.spec.init_containers:
        return total
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in pod.spec.init_containers:
        if is_sidecar(container):
            amounts = _container(container, statuses, defaults, infeasible=infeasible, limits=limits)
            _add(total, amounts)
            _add(sidecars, amounts)
            peak = _largest(peak, sidecars)
        else:
            # An init container that ends is not resized, whatever its status says.
            amounts = dict(_container(container, _NO_STATUSES, defaults, infeasible=infeasible, limits=limits))
            _add(amounts, sidecars)
            peak = _largest(peak, amounts)
    return _largest(total, peak)


def _container(
    container: Container,
    statuses: Mapping[str, ContainerStatus],
    defaults: Mapping[str, int],
    *,
    infeasible: bool,
    limits: bool,
) -> dict[str, int]:
    amounts = _nanos(container.resources.limits if limits else container.resources.requests)
    status = statuses.get(container.name)
    if status is not None and status.resources is not None:
        actual = _largest(_nanos(status.resources.requests), _nanos(status.allocated_resources))
        amounts = actual if infeasible else _largest(amounts, actual)
    return {**defaults, **amounts} if defaults else amounts


def _reported(pod: Pod) -> Mapping[str, ContainerStatus]:
    status = pod.status
    return {
        container.name: container
        for container in (*status.container_statuses, *status.init_container_statuses)
        if container.resources is not None
    }


def _nanos(amounts: ResourceList) -> dict[str, int]:
    return {name: parse_quantity(raw) for name, raw in amounts.items()}


def _add(total: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name, nanos in amounts.items():
        total[name] = total.get(name, 0) + nanos


def _largest(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    largest = dict(one)
    for name, nanos in other.items():
        have = largest.get(name)
        if have is None or nanos > have:
            largest[name] = nanos
    return largest


def _rounded(total: Mapping[str, int]) -> dict[str, int]:
    return {name: milli_of(nanos) if name == _CPU else value_of(nanos) for name, nanos in total.items()}
