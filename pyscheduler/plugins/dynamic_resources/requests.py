"""Check the device requests in ResourceClaims, and convert the requests to the form that the allocator uses.

Source: kube-scheduler 1.36, `dynamic-resource-allocation/structured/internal/incubating`.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from pyscheduler.api import QuantityError
from pyscheduler.plugins.dynamic_resources.capacity import Amount
from pyscheduler.plugins.dynamic_resources.errors import AllocationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyscheduler.api import (
        DeviceClass,
        DeviceConstraint,
        DeviceRequest,
        DeviceSelector,
        DeviceSubRequest,
        DeviceToleration,
        ExactDeviceRequest,
        ResourceClaim,
    )
    from pyscheduler.plugins.dynamic_resources.features import Features

__all__ = ["MOST_DEVICES", "ClaimDemand", "ClassLookup", "Request", "read_claims"]

MOST_DEVICES: Final = 32
"""The most devices that one claim can be given."""

_EXACT_COUNT: Final = "ExactCount"
_ALL: Final = "All"

ClassLookup: TypeAlias = "Callable[[str], DeviceClass | None]"
"""Returns the device class of a name, None where there is none."""


@attrs.frozen(eq=False)
class Request:
    """A demand for devices of one class; `parent` is the request that it is an alternative of, or ""."""

    #: Among all requests of all claims.
    index: int
    claim_index: int
    name: str
    parent: str
    device_class: DeviceClass
    all_devices: bool
    #: How many devices; means nothing where all are asked for.
    count: int
    #: Expressions, each with what an error about it begins with.
    selectors: tuple[tuple[str, str], ...]
    tolerations: tuple[DeviceToleration, ...]
    #: How much of which capacity is asked for, None where nothing is said.
    amounts: Mapping[str, Amount] | None
    #: Which constraints of the claim concern it.
    constraints: tuple[int, ...]
    admin_access: bool = False

    @property
    def full_name(self) -> str:
        """The name as results have it."""
        return f"{self.parent}/{self.name}" if self.parent else self.name


@attrs.frozen(eq=False)
class ClaimDemand:
    """A claim with its requests, each of them with its alternatives."""

    claim: ResourceClaim
    requests: tuple[tuple[Request, ...], ...]


def read_claims(claims: Sequence[ResourceClaim], classes: ClassLookup, features: Features) -> tuple[ClaimDemand, ...]:
    """Return what `claims` ask for; raise `AllocationError` for what cannot be satisfied anywhere."""
    demands: list[ClaimDemand] = []
    numbers = itertools.count()
    for claim_index, claim in enumerate(claims):
        reader = _Reader(claim, claim_index, classes, features, numbers)
        demands.append(ClaimDemand(claim, tuple(map(reader.read, claim.spec.devices.requests))))
        for number, constraint in enumerate(claim.spec.devices.constraints):
            if constraint.match_attribute is None and constraint.distinct_attribute is None:
                raise AllocationError(
                    f"claim {claim.key}, constraint #{number}: empty constraint (unsupported constraint type?)"
                )
    return tuple(demands)


@attrs.frozen(eq=False)
class _Reader:
    claim: ResourceClaim
    claim_index: int
    classes: ClassLookup
    features: Features
    numbers: Iterator[int]

    def read(self, request: DeviceRequest) -> tuple[Request, ...]:
        """Return a request, or its alternatives."""
        if request.first_available:
            return tuple(self._read(each.name, request.name, each) for each in request.first_available)
        if request.exactly is None:
            where = f"claim {self.claim.key}, request {request.name}"
            raise AllocationError(f"{where}: empty request (unsupported request type?)")
        exactly = request.exactly
        return (attrs.evolve(self._read(request.name, "", exactly), admin_access=bool(exactly.admin_access)),)

    def _read(self, name: str, parent: str, asked: ExactDeviceRequest | DeviceSubRequest) -> Request:
        where = f"claim {self.claim.key}, request {name}"
        own = tuple(_selectors(asked.selectors, f"claim {self.claim.key}", f"{where}, "))
        device_class = self._class(asked.device_class_name, where)
        of_class = f"class {device_class.name}"
        if asked.allocation_mode not in {"", _EXACT_COUNT, _ALL}:
            raise AllocationError(f"{where}: unsupported count mode {asked.allocation_mode}")
        amounts = None
        if asked.capacity is not None and not self.features.consumable_capacity:
            what = f"{'subrequest' if parent else 'request'} {name}"
            raise AllocationError(
                f"claim {self.claim.key}, {what}: has capacity requests, but the DRAConsumableCapacity feature is "
                "disabled"
            )
        if asked.capacity is not None and asked.capacity.requests:
            try:
                amounts = {capacity: Amount.of(raw) for capacity, raw in asked.capacity.requests.items()}
            except QuantityError as error:
                raise AllocationError(f"{where}: {error}") from error
        names = (parent, f"{parent}/{name}") if parent else (name,)
        return Request(
            index=next(self.numbers),
            claim_index=self.claim_index,
            name=name,
            parent=parent,
            device_class=device_class,
            all_devices=asked.allocation_mode == _ALL,
            # What the API server fills in, for objects that did not come from one.
            count=asked.count or (0 if asked.allocation_mode else 1),
            selectors=(*_selectors(device_class.spec.selectors, of_class, f"{of_class}, "), *own),
            tolerations=asked.tolerations,
            amounts=amounts,
            constraints=_concerned(self.claim.spec.devices.constraints, names),
        )

    def _class(self, name: str, where: str) -> DeviceClass:
        if not name:
            raise AllocationError(f"{where}: missing device class name (unsupported request type?)")
        device_class = self.classes(name)
        if device_class is None:
            raise AllocationError(
                f'{where}: could not retrieve device class {name}: deviceclass.resource.k8s.io "{name}" not found'
            )
        return device_class


def _selectors(selectors: Sequence[DeviceSelector], owner: str, where: str) -> Iterator[tuple[str, str]]:
    for number, selector in enumerate(selectors):
        if selector.cel is None:
            raise AllocationError(f"{where}selector #{number}: CEL expression empty (unsupported selector type?)")
        yield f"{owner}: selector #{number}: ", selector.cel.expression


def _concerned(constraints: Sequence[DeviceConstraint], names: tuple[str, ...]) -> tuple[int, ...]:
    """Return which constraints concern a request, named by itself or by the request it is an alternative of."""
    return tuple(
        number
        for number, constraint in enumerate(constraints)
        if not constraint.requests or any(name in constraint.requests for name in names)
    )
