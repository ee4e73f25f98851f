"""The signature of a node: the properties of its devices that matter for the claims of a pod.

Nodes with equal signatures share one search for devices.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from pyscheduler.api import tolerates
from pyscheduler.plugins.dynamic_resources.capacity import consumed_amounts, fits
from pyscheduler.plugins.dynamic_resources.constraints import LIST_VALUE, lookup_attribute
from pyscheduler.plugins.dynamic_resources.selectors import DeviceSelectorError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from pyscheduler.plugins.dynamic_resources.allocated import AllocatedState, DeviceId
    from pyscheduler.plugins.dynamic_resources.capacity import Amount
    from pyscheduler.plugins.dynamic_resources.constraints import AttributeValue
    from pyscheduler.plugins.dynamic_resources.patience import Patience
    from pyscheduler.plugins.dynamic_resources.pools import Candidate, NodeOffer, Pool
    from pyscheduler.plugins.dynamic_resources.requests import ClaimDemand, Request
    from pyscheduler.plugins.dynamic_resources.selectors import DeviceSelectors
    from pyscheduler.plugins.dynamic_resources.slices import CounterKey, PoolDevice, PoolId

__all__ = ["BLOCKED", "FREE", "UNFIT", "UNIQUE", "Kind", "NodeSignature", "Reducer", "Verdict", "amounts_of"]

UNFIT: Final = 0
"""The device is not what is asked for."""
BLOCKED: Final = 1
"""It is, but cannot be had."""
FREE: Final = 2
"""It can be had, as far as it depends on nothing that is chosen in this search."""

UNIQUE: Final[AttributeValue] = ("unique", "")
"""The stand-in for a value that one device alone has: it equals nothing but itself, whatever it is."""

#: What a look at a device takes, in steps of `patience`.
_STEPS: Final = 5

Verdict: TypeAlias = int | str
"""`UNFIT`, `BLOCKED` or `FREE` for a device and a request, or the reason why that is unknown."""


@attrs.frozen(eq=False)
class Kind:
    """The facts that matter about a device."""

    number: int
    #: By request.
    verdicts: tuple[Verdict, ...]
    #: By claim and constraint; `UNIQUE` where no other device of the node has that value.
    values: tuple[tuple[AttributeValue | None, ...], ...]
    #: Among the pools of the offer that have counters; -1 where the device consumes none.
    pool: int
    consumes: tuple[tuple[CounterKey, int], ...]
    shareable: bool
    #: One of the devices of the kind, which have the same capacity, and the same taken of it, if they are shareable.
    device: PoolDevice
    #: Whether it is shared already, so that its counters are paid for; and what is taken of its capacity, in nanos.
    in_use: bool
    taken: Mapping[str, int]


@attrs.frozen(eq=False)
class NodeSignature:
    """A node's devices that may serve, in the order of preference, and the counters that their pools have left."""

    kinds: tuple[Kind, ...]
    #: Which candidates of the node's offer they are.
    places: tuple[int, ...]
    counters: tuple[Mapping[CounterKey, int], ...]

    @property
    def key(self) -> tuple[object, ...]:
        """A key that is equal for signatures with the same solution."""
        return (
            tuple(kind.number for kind in self.kinds),
            tuple(tuple(counters.items()) for counters in self.counters),
        )


class Reducer:
    """Makes signatures, for the claims of one pod and one state of what is allocated."""

    def __init__(self, demands: Sequence[ClaimDemand], allocated: AllocatedState, selectors: DeviceSelectors) -> None:
        self._requests = [request for demand in demands for ways in demand.requests for request in ways]
        self._attributes = [
            [each.match_attribute or each.distinct_attribute or "" for each in demand.claim.spec.devices.constraints]
            for demand in demands
        ]
        self._allocated = allocated
        self._selectors = selectors
        self._kinds: dict[object, Kind] = {}
        self._suits: dict[tuple[int, int], bool | str] = {}
        self._available: dict[tuple[PoolId, int], Mapping[CounterKey, int]] = {}
        self._sharing: set[DeviceId] | None = None
        #: Counts the steps of what is asked next.
        self.patience: Patience | None = None

    def go_by(self, allocated: AllocatedState) -> None:
        """Go by what is allocated now; kinds keep their numbers."""
        self._allocated = allocated
        self._available.clear()
        self._sharing = None

    def reduce(self, offer: NodeOffer) -> NodeSignature:
        """Return the signature of a node."""
        places: list[int] = []
        devices: list[PoolDevice] = []
        found: list[tuple[Verdict, ...]] = []
        for place, candidate in enumerate(offer.candidates):
            if self.patience is not None:
                self.patience.tick(_STEPS)
            verdicts = tuple(self._verdict(request, candidate) for request in self._requests)
            if any(verdicts):
                places.append(place)
                devices.append(candidate.device)
                found.append(verdicts)
        kinds = tuple(
            self._kind(device, verdicts, tuple(values), offer.takes_from[place])
            for place, device, verdicts, values in zip(places, devices, found, self._values(devices), strict=True)
        )
        return NodeSignature(kinds, tuple(places), tuple(self.left(pool) for pool in offer.counting))

    @property
    def question(self) -> Hashable:
        """The properties asked about each device, whichever pod asks."""
        return (
            tuple(
                (
                    tuple(expression for _, expression in request.selectors),
                    tuple(sorted((name, amount.nanos) for name, amount in (request.amounts or {}).items())),
                )
                for request in self._requests
            ),
            tuple(map(tuple, self._attributes)),
        )

    def answer(self, offer: NodeOffer) -> Hashable:
        """Return what matters about the devices of an offer that has a shape, but for what is taken."""
        devices = [device for device, _ in offer.candidates]
        return (
            tuple(
                (
                    tuple(self._suits_request(request, device) for request in self._requests),
                    device.taints,
                    device.consumes,
                )
                for device in devices
            ),
            offer.takes_from,
            tuple(map(tuple, self._values(devices))),
        )

    def _kind(
        self,
        device: PoolDevice,
        verdicts: tuple[Verdict, ...],
        values: tuple[tuple[AttributeValue | None, ...], ...],
        pool: int,
    ) -> Kind:
        share: object = None
        in_use = False
        taken: Mapping[str, int] = {}
        if device.shareable:
            taken = self._allocated.capacity.get(device.id, taken)
            in_use = self._is_shared(device.id)
            share = (id(device.facts), in_use, tuple(sorted(taken.items())))
        key = (verdicts, values, pool, device.consumes, share)
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = Kind(
                number=len(self._kinds),
                verdicts=verdicts,
                values=values,
                pool=pool,
                consumes=device.consumes,
                shareable=device.shareable,
                device=device,
                in_use=in_use,
                taken=taken,
            )
        return kind

    def _values(self, devices: Sequence[PoolDevice]) -> list[list[tuple[AttributeValue | None, ...]]]:
        """Return by device and claim the values that constraints compare, in a form that is the same on other nodes."""
        rows: list[list[tuple[AttributeValue | None, ...]]] = [[] for _ in devices]
        for attributes in self._attributes:
            columns = [
                _anonymous([lookup_attribute(device.device, device.id.driver, attribute) for device in devices])
                for attribute in attributes
            ]
            for row, of_claim in zip(rows, zip(*columns, strict=True) if columns else [()] * len(rows), strict=True):
                row.append(of_claim)
        return rows

    def _verdict(self, request: Request, candidate: Candidate) -> Verdict:
        device, pool = candidate
        allocated = self._allocated
        is_taken = not request.admin_access and device.id in allocated.devices
        if is_taken and not request.all_devices:
            return UNFIT
        suits = self._suits_request(request, device)
        if suits is not True:
            return suits or UNFIT
        if device.id in allocated.capacity:
            consumed = consumed_amounts(request.amounts, device.capacity) or {}
            if not fits(consumed, device.capacity, allocated.capacity[device.id]):
                return UNFIT
        if is_taken or device.is_barred or (device.consumes and not self._has_counters(device, pool)):
            return BLOCKED
        tolerations = request.tolerations
        is_kept_away = any(not any(tolerates(each, taint) for each in tolerations) for taint in device.taints)
        return BLOCKED if is_kept_away else FREE

    def _suits_request(self, request: Request, device: PoolDevice) -> bool | str:
        key = (request.index, id(device.facts))
        suits = self._suits.get(key)
        if suits is None:
            if self.patience is not None:
                self.patience.tick(_STEPS)
            suits = self._suits[key] = self._suit(request, device)
        return suits

    def _suit(self, request: Request, device: PoolDevice) -> bool | str:
        """Return whether a device that nobody uses suits the request, or why that is unknown."""
        for prefix, expression in request.selectors:
            try:
                if not self._selectors.matches(expression, device.facts, self._pause):
                    return False
            except DeviceSelectorError as error:
                return f"{prefix}{error}"
        consumed = consumed_amounts(request.amounts, device.capacity)
        return consumed is not None and fits(consumed, device.capacity, {})

    @property
    def _pause(self) -> Callable[[], None] | None:
        return None if self.patience is None else self.patience.pause

    def _has_counters(self, device: PoolDevice, pool: Pool) -> bool:
        if device.shareable and self._is_shared(device.id):
            return True
        left = self.left(pool)
        return min(left.values(), default=0) >= 0 and all(left[counter] >= value for counter, value in device.consumes)

    def left(self, pool: Pool) -> Mapping[CounterKey, int]:
        """Return what is left of the counters of a pool; below zero where more is allocated than there is.

        Differs from kube-scheduler: pools are told apart by driver and name, there by name alone.
        """
        key = (pool.id, pool.generation)
        known = self._available.get(key)
        if known is None:
            left = dict(pool.counters)
            for device in (*pool.devices, *pool.others):
                if device.consumes and (device.id in self._allocated.devices or self._is_shared(device.id)):
                    for counter, value in device.consumes:
                        left[counter] -= value
            known = self._available[key] = left
        return known

    def _is_shared(self, device: DeviceId) -> bool:
        """Return whether somebody has a share of a device.

        Differs from kube-scheduler: also where the share takes no capacity, as the device has none.
        """
        if self._sharing is None:
            self._sharing = {shared for shared, _ in self._allocated.shares} | self._allocated.capacity.keys()
        return device in self._sharing


def _anonymous(values: Sequence[AttributeValue | None]) -> list[AttributeValue | None]:
    """Replace values by their numbers, as they come up, and those that come up once by `UNIQUE`."""
    counts = Counter(values)
    numbers: dict[AttributeValue, AttributeValue] = {}
    return [
        value
        if value is None or value == LIST_VALUE
        else UNIQUE
        if counts[value] == 1
        else numbers.setdefault(value, ("number", len(numbers)))
        for value in values
    ]


def amounts_of(request: Request, kind: Kind) -> Mapping[str, Amount]:
    """Return how much a request takes of the capacity of a shareable device that may serve it."""
    return consumed_amounts(request.amounts, kind.device.capacity) or {}
