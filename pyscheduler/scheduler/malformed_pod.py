"""Read a pod that is on a node, although some amounts or selectors of the pod are malformed.

The pod uses its node, so the amounts that can be read must count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from msgspec import structs

from pyscheduler.api import PySchedulerError, QuantityError, SelectorError, parse_quantity
from pyscheduler.framework.pod_info import PodInfo

if TYPE_CHECKING:
    from pyscheduler.api import Container, ContainerStatus, Pod, ResourceList, ResourceRequirements

__all__ = ["readable_part"]

C = TypeVar("C", "Container", "ContainerStatus")


def readable_part(pod: Pod) -> PodInfo:
    """Return the facts about the readable part of `pod`; their `pod` is the whole object."""
    try:
        return PodInfo.of(pod)
    except PySchedulerError:
        amounts = _with_readable_amounts(pod)
    try:
        return PodInfo.of(amounts).with_pod(pod)
    except SelectorError:
        spec = structs.replace(amounts.spec, affinity=None)
        return PodInfo.of(structs.replace(amounts, spec=spec)).with_pod(pod)


def _with_readable_amounts(pod: Pod) -> Pod:
    spec, status = pod.spec, pod.status
    return structs.replace(
        pod,
        spec=structs.replace(
            spec,
            containers=tuple(map(_container, spec.containers)),
            init_containers=tuple(map(_container, spec.init_containers)),
            overhead=_amounts(spec.overhead),
            resources=_requirements(spec.resources),
        ),
        status=structs.replace(
            status,
            container_statuses=tuple(map(_status, status.container_statuses)),
            init_container_statuses=tuple(map(_status, status.init_container_statuses)),
            allocated_resources=_amounts(status.allocated_resources),
            resources=_requirements(status.resources),
        ),
    )


def _container(container: Container) -> Container:
    resources = _requirements(container.resources)
    assert resources is not None, "a container has requirements, be they empty"
    return structs.replace(container, resources=resources)


def _status(status: ContainerStatus) -> ContainerStatus:
    return structs.replace(
        status, resources=_requirements(status.resources), allocated_resources=_amounts(status.allocated_resources)
    )


def _requirements(requirements: ResourceRequirements | None) -> ResourceRequirements | None:
    if requirements is None:
        return None
    return structs.replace(requirements, requests=_amounts(requirements.requests), limits=_amounts(requirements.limits))


def _amounts(amounts: ResourceList) -> ResourceList:
    return {name: raw for name, raw in amounts.items() if _is_readable(raw)}


def _is_readable(raw: str | float) -> bool:
    try:
        parse_quantity(raw)
    except QuantityError:
        return False
    return True
