"""Make the ResourceClaim through which a pod gets devices for its extended resources.

On a node whose `allocatable` lacks such a resource, the pod gets devices of a device class. The claim is in memory
until PreBind writes it to the API server.

Differs from kube-scheduler: if `allocatable` has all the extended resources, pyscheduler makes no claim.
Source: kube-scheduler 1.36, `dynamicresources/extendeddynamicresources.go`.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

import attrs
import msgspec

from pyscheduler.api import (
    ContainerExtendedResourceRequest,
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ObjectMeta,
    OwnerReference,
    ResourceClaim,
    ResourceClaimSpec,
    is_sidecar,
    pod_requests,
    quantity_value,
)
from pyscheduler.framework.extended_resources import can_be_backed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyscheduler.api import Container, Pod
    from pyscheduler.framework import NodeInfo
    from pyscheduler.framework.extended_resources import ExtendedResources
    from pyscheduler.plugins.dynamic_resources.choice import PodClaim
    from pyscheduler.plugins.dynamic_resources.ledger import Promise

__all__ = ["ANNOTATION", "ExtendedClaim", "Variant", "make_requests", "owner_of", "status_patch"]

ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"
"""Marks the claims that are made for extended resources."""

#: No claim can have this name, so that it is mistaken for none.
_IN_MEMORY: Final = "<extended-resources>"


@attrs.frozen(eq=False)
class Variant:
    """The claim as some nodes need it, and which request of it serves which container."""

    claim: ResourceClaim
    mappings: tuple[ContainerExtendedResourceRequest, ...]


@attrs.define(eq=False)
class ExtendedClaim:
    """The claim in one cycle of its pod. What-ifs share it."""

    pod: Pod
    #: How much the pod asks for of each resource that a class may stand for.
    amounts: Mapping[str, int]
    #: The names of the classes, by resource.
    classes: Mapping[str, str]
    #: What an earlier attempt has left behind, which has to go first.
    left_over: ResourceClaim | None = None
    #: By resources that are to come as devices.
    variants: dict[tuple[str, ...], Variant] = attrs.Factory(dict)
    uid: str = attrs.Factory(lambda: str(uuid.uuid4()))
    #: What was chosen at Reserve, and promised to it.
    chosen: Variant | None = None
    promise: Promise | None = None
    #: The claim as it was written, once it was.
    written: PodClaim | None = None

    @classmethod
    def of(cls, pod: Pod, resources: ExtendedResources, left_over: ResourceClaim | None) -> ExtendedClaim | None:
        """Return the claim of a pod; None where no class stands for anything that the pod asks for."""
        amounts = pod_requests(pod, use_status=False)
        wanted = resources.wanted(amounts)
        if not wanted:
            return None
        classes = {name: found.name for name in wanted if (found := resources.class_of(name)) is not None}
        counted = {name: amounts[name] for name in sorted(amounts) if amounts[name] and can_be_backed(name)}
        return cls(pod, counted, classes, left_over)

    def is_out_of_reach(self, node: NodeInfo) -> bool:
        """Return True if a resource is neither offered by the node nor stands for devices."""
        offered = node.allocatable.scalars
        return any(name not in offered and name not in self.classes for name in self.amounts)

    def on(self, node: NodeInfo) -> Variant | None:
        """Return the claim as it is on a node; None where the node offers all resources itself."""
        offered = node.allocatable.scalars
        resources = tuple(name for name in self.classes if not offered.get(name))
        if not resources:
            return None
        variant = self.variants.get(resources)
        if variant is None:
            variant = self.variants[resources] = self._make({name: self.classes[name] for name in resources})
        return variant

    def _make(self, classes: Mapping[str, str]) -> Variant:
        requests, mappings = make_requests(self.pod, classes)
        pod = self.pod
        owner = OwnerReference(api_version="v1", kind="Pod", name=pod.name, uid=pod.uid, controller=True)
        claim = ResourceClaim(
            metadata=ObjectMeta(
                name=_IN_MEMORY,
                generate_name=f"{pod.name}-extended-resources-",
                namespace=pod.namespace,
                uid=self.uid,
                annotations={ANNOTATION: "true"},
                owner_references=(owner,),
            ),
            spec=ResourceClaimSpec(devices=DeviceClaim(requests=requests)),
        )
        return Variant(claim, mappings)


def owner_of(claim: ResourceClaim) -> str:
    """Return the uid of the pod for whose extended resources the claim was made; "" for other claims."""
    if claim.annotations.get(ANNOTATION) != "true":
        return ""
    return next((owner.uid for owner in claim.metadata.owner_references if owner.controller), "")


# --- what is asked for ------------------------------------------------------------------------------


def make_requests(
    pod: Pod, classes: Mapping[str, str]
) -> tuple[tuple[DeviceRequest, ...], tuple[ContainerExtendedResourceRequest, ...]]:
    """Return the requests for devices, sorted by name, and which of them serve which container.

    `classes` are names of device classes by resource.
    """
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    first = len(pod.spec.init_containers)
    ending = [place for place, each in enumerate(containers) if place < first and not is_sidecar(each)]
    requests: list[DeviceRequest] = []
    mappings: list[ContainerExtendedResourceRequest] = []
    for resource in sorted(classes):
        asked = _OfResource(containers, resource, classes[resource])
        mappings += asked.add_lasting(place for place in range(len(containers)) if place not in ending)
        mappings += asked.add_ending(ending)
        requests += asked.requests()
    return tuple(sorted(requests, key=lambda request: request.name)), tuple(mappings)


class _OfResource:
    """The requests of all containers for one resource."""

    def __init__(self, containers: Sequence[Container], resource: str, class_name: str) -> None:
        self._containers = containers
        self._resource = resource
        self._class_name = class_name
        #: By place of a container that runs as long as the pod, what it asks for.
        self._lasting: dict[int, DeviceRequest] = {}
        #: The largest request of an init container that ends.
        self._ending: DeviceRequest | None = None

    def requests(self) -> list[DeviceRequest]:
        return [*([self._ending] if self._ending is not None else []), *self._lasting.values()]

    def add_lasting(self, places: Iterable[int]) -> list[ContainerExtendedResourceRequest]:
        """Add containers that run beside each other: each has devices of its own."""
        mappings = []
        for place in places:
            amount = self._amount(place)
            if amount:
                request = self._lasting[place] = self._request(place, amount)
                mappings.append(self._mapping(place, request.name))
        return mappings

    def add_ending(self, places: Sequence[int]) -> list[ContainerExtendedResourceRequest]:
        """Add init containers that end before the next begins.

        They use the devices of containers that begin after them, and share what is asked for beyond that.
        """
        needed: dict[int, DeviceRequest] = {}
        used: list[tuple[int, str]] = []
        for place in places:
            amount = self._amount(place)
            for later, request in self._lasting.items():
                if amount <= 0:
                    break
                if later >= place:
                    used.append((place, request.name))
                    amount -= _count(request)
            if amount > 0:
                request = needed[place] = self._request(place, amount)
                used.append((place, request.name))
                if self._ending is None or _count(self._ending) < amount:
                    self._ending = request
        own = {request.name for request in needed.values()}
        largest = self._ending.name if self._ending is not None else ""
        return [self._mapping(place, largest if name in own else name) for place, name in used]

    def _amount(self, place: int) -> int:
        raw = self._containers[place].resources.requests.get(self._resource)
        return 0 if raw is None else quantity_value(raw)

    def _request(self, place: int, count: int) -> DeviceRequest:
        names = sorted(self._containers[place].resources.requests)
        return DeviceRequest(
            name=f"container-{place}-request-{names.index(self._resource)}",
            exactly=ExactDeviceRequest(device_class_name=self._class_name, allocation_mode="ExactCount", count=count),
        )

    def _mapping(self, place: int, request: str) -> ContainerExtendedResourceRequest:
        return ContainerExtendedResourceRequest(
            container_name=self._containers[place].name, resource_name=self._resource, request_name=request
        )


def _count(request: DeviceRequest) -> int:
    return request.exactly.count if request.exactly is not None else 0


def status_patch(variant: Variant, claim_name: str) -> dict[str, object]:
    """Return the patch of a pod that says which claim serves its extended resources."""
    mappings = [msgspec.to_builtins(each) for each in variant.mappings]
    made = {"requestMappings": mappings, "resourceClaimName": claim_name}
    return {"status": {"extendedResourceClaimStatus": made}}
