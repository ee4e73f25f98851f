"""What devices there are, pool by pool, and which of them a node can reach.

Of a pool only the newest generation counts. A pool is incomplete while slices of it are missing, and invalid where its
slices contradict each other; nothing is allocated from either. Pools come in the order of driver and name, slices in
that of their names, so that drivers can say which devices are to be taken first; pools with devices that need time to
get ready come last.

An `Inventory` is made from all slices once, and again when a slice changed; what it keeps per slice and per node is
worked out when first asked for.
Source: kube-scheduler 1.36, `dynamic-resource-allocation/structured/internal/incubating/pools_incubating.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import attrs

from pyscheduler.api import NodeSelector, QuantityError, compile_node_selector, parse_quantity
from pyscheduler.plugins.dynamic_resources.allocated import DeviceId
from pyscheduler.plugins.dynamic_resources.capacity import Capacity
from pyscheduler.plugins.dynamic_resources.errors import AllocationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyscheduler.api import CompiledNodeSelector, Device, DeviceTaint, Node, ResourceSlice
    from pyscheduler.plugins.dynamic_resources.selectors import DeviceFacts, DeviceSelectors

__all__ = ["Candidate", "CounterKey", "Inventory", "NodeOffer", "Pool", "PoolDevice", "PoolId"]

#: Effects of taints that keep claims away; others, ``None`` among them, do nothing.
_KEEPING_AWAY: Final = frozenset({"NoSchedule", "NoExecute"})

PoolId: TypeAlias = tuple[str, str]
"""Driver and name of a pool."""
CounterKey: TypeAlias = tuple[str, str]
"""Counter set and counter, within a pool."""


@attrs.frozen(eq=False)
class Place:
    """The nodes from which something can be reached: one, all, or those that a selector selects."""

    node_name: str
    all_nodes: bool
    selector: NodeSelector | None
    compiled: CompiledNodeSelector | None

    @classmethod
    def of(cls, node_name: str | None, all_nodes: bool | None, selector: NodeSelector | None) -> Place | None:
        """Return the place, None where nothing is said of it."""
        if not node_name and not all_nodes and selector is None:
            return None
        compiled = compile_node_selector(selector) if selector is not None else None
        return cls(node_name or "", bool(all_nodes), selector, compiled)

    def matches(self, node: Node) -> bool:
        """Tell whether a node is among them; raise `AllocationError` where the selector cannot be read."""
        if self.node_name:
            return node.name == self.node_name
        if self.all_nodes or self.compiled is None:
            return self.all_nodes
        if self.compiled.errors:
            raise AllocationError(f"failed to parse node selector: {'; '.join(self.compiled.errors)}")
        return self.compiled.matches(node.labels, node.name)


@attrs.define(eq=False)
class PoolDevice:
    """A device, with what the allocator reads of it."""

    id: DeviceId
    device: Device
    facts: DeviceFacts
    #: Where it can be reached from; None where that is not for the device to say, but for its slice.
    place: Place | None
    #: The place that goes into the result: the device's or the slice's.
    reach: Place | None
    #: Whether the slice leaves it to its devices to say where they can be reached from.
    says_where: bool
    shareable: bool
    capacity: Mapping[str, Capacity]
    consumes: tuple[tuple[CounterKey, int], ...]
    taints: tuple[DeviceTaint, ...]


@attrs.define(eq=False)
class Pool:
    """The devices of a pool that a node can reach, `devices`, and the others."""

    id: PoolId
    generation: int
    incomplete: bool = False
    #: Why nothing can be allocated from the pool, or "".
    problem: str = ""
    devices: tuple[PoolDevice, ...] = ()
    others: tuple[PoolDevice, ...] = ()
    counters: Mapping[CounterKey, int] = attrs.field(factory=dict)
    is_slow: bool = False

    @property
    def is_usable(self) -> bool:
        """Whether devices can be allocated from it."""
        return not self.incomplete and not self.problem


class Candidate(NamedTuple):
    """A device of a pool that a node can reach."""

    device: PoolDevice
    pool: Pool


@attrs.define(eq=False)
class NodeOffer:
    """The pools that a node can reach, and the devices of those that are usable, in the order of preference."""

    pools: tuple[Pool, ...]
    candidates: tuple[Candidate, ...]
    #: A pool that is not usable, if there is one.
    bad_pool: Pool | None
    #: The same for offers of devices that are equal but for their names, as long as each is for one claim at a time and
    #: takes from no counters; None for other offers.
    shape: int | None = None

    @classmethod
    def of(cls, pools: Iterable[Pool]) -> NodeOffer:
        """Return the offer of these pools, without its shape."""
        ordered = tuple(sorted(pools, key=lambda pool: (pool.is_slow, pool.id)))
        candidates = tuple(Candidate(device, pool) for pool in ordered if pool.is_usable for device in pool.devices)
        return cls(ordered, candidates, next((pool for pool in ordered if not pool.is_usable), None))


@attrs.define(eq=False)
class _Slice:
    """A slice that was read."""

    source: ResourceSlice
    pool: PoolId
    generation: int
    place: Place | None
    devices: tuple[PoolDevice, ...] = ()
    #: What is wrong with it, or "".
    problem: str = ""
    counters: tuple[tuple[str, Mapping[str, int]], ...] = ()


class Inventory:
    """All slices; `previous` lends what it worked out of those that have not changed."""

    def __init__(
        self, slices: Iterable[ResourceSlice], selectors: DeviceSelectors, previous: Inventory | None = None
    ) -> None:
        known = previous.slices_read if previous is not None else {}
        self.slices_read: dict[str, _Slice] = {}
        self._local: dict[str, list[_Slice]] = {}
        self._shared: list[_Slice] = []
        self._of_pool: dict[PoolId, list[_Slice]] = {}
        for source in slices:
            old = known.get(source.name)
            each = old if old is not None and old.source is source else _read_slice(source, selectors)
            self.slices_read[source.name] = each
            self._of_pool.setdefault(each.pool, []).append(each)
            if source.spec.node_name and not source.spec.shared_counters:
                self._local.setdefault(source.spec.node_name, []).append(each)
            else:
                self._shared.append(each)
        self._pools: dict[tuple[int, ...], Pool | None] = {}
        #: By the facts, which live as long as the slices read, and the taints of the devices.
        self._shapes: dict[tuple[tuple[int, tuple[DeviceTaint, ...]], ...], int] = {}
        self._offers: dict[str, tuple[Mapping[str, str], NodeOffer]] = {}

    def offer_to(self, node: Node) -> NodeOffer:
        """Return what `node` can reach; raise `AllocationError` where a slice does not say it in a readable way."""
        known = self._offers.get(node.name)
        labels = node.labels
        if known is not None and (known[0] is labels or known[0] == labels):
            return known[1]
        reached: dict[PoolId, list[_Slice]] = {}
        for each in (*self._local.get(node.name, ()), *self._shared):
            if _reaches(each, node):
                _add_newest(reached.setdefault(each.pool, []), each)
        offer = NodeOffer.of(pool for slices in reached.values() if (pool := self._pool(slices)) is not None)
        offer.shape = self._shape(offer)
        self._offers[node.name] = (labels, offer)
        return offer

    def _shape(self, offer: NodeOffer) -> int | None:
        devices = [device for device, _ in offer.candidates]
        if any(device.consumes or device.shareable or device.says_where for device in devices):
            return None
        key = tuple((id(device.facts), device.taints) for device in devices)
        return self._shapes.setdefault(key, len(self._shapes))

    def _pool(self, slices: list[_Slice]) -> Pool | None:
        """Return the pool of which a node reaches `slices`, None where they are outdated."""
        slices.sort(key=lambda each: each.source.name)
        key = tuple(map(id, slices))
        if key not in self._pools:
            self._pools[key] = self._make_pool(slices)
        return self._pools[key]

    def _make_pool(self, slices: list[_Slice]) -> Pool | None:
        first = slices[0]
        others: list[_Slice] = []
        count = first.source.spec.pool.resource_slice_count
        if len(slices) != count:
            in_pool = self._of_pool[first.pool]
            if any(each.generation > first.generation for each in in_pool):
                return None
            current = [each for each in in_pool if each.generation == first.generation]
            if len(current) != count:
                return Pool(first.pool, first.generation, incomplete=True)
            others = [each for each in current if not any(each is reached for reached in slices)]
        pool = Pool(first.pool, first.generation)
        pool.problem = _fill(pool, slices, others)
        return pool


def _reaches(each: _Slice, node: Node) -> bool:
    """Tell whether a slice matters to a node; counters always do."""
    spec = each.source.spec
    if spec.shared_counters:
        return True
    try:
        if each.place is not None:
            return each.place.matches(node)
        if not spec.per_device_node_selection:
            return False  # some other way to say it, which is not known here
    except AllocationError as error:
        raise AllocationError(
            f"gather pool information: failed to perform node selection for slice {each.source.name}: {error}"
        ) from error
    for device in each.devices:
        try:
            if device.place is not None and device.place.matches(node):
                return True
        except AllocationError as error:
            raise AllocationError(
                "gather pool information: failed to perform node selection for device "
                f"{device.id.device} in slice {each.source.name}: {error}"
            ) from error
    return False


def _add_newest(slices: list[_Slice], each: _Slice) -> None:
    """Keep the slices of the newest generation."""
    if slices and each.generation > slices[0].generation:
        slices.clear()
    if not slices or each.generation == slices[0].generation:
        slices.append(each)


def _fill(pool: Pool, slices: Sequence[_Slice], others: Sequence[_Slice]) -> str:
    """Put the devices of `slices` and `others` into a pool; return what is wrong with them, or ""."""
    for each in (*slices, *others):
        if each.problem:
            return f"slice {each.source.name}: {each.problem}"
    names: set[str] = set()
    offering = [each for each in slices if not each.source.spec.shared_counters]
    pool.devices = tuple(device for each in offering for device in each.devices)
    for device in pool.devices:
        if device.id.device in names:
            return f"duplicate device name {device.id.device}"
        names.add(device.id.device)
    sets: dict[str, Mapping[str, int]] = {}
    for each in slices:
        for name, counters in each.counters:
            if name in sets:
                return f"duplicate counter set name {name}"
            sets[name] = counters
    pool.others = tuple(device for each in others for device in each.devices)
    for device in (*pool.devices, *pool.others):
        for (counter_set, counter), _ in device.consumes:
            if counter_set not in sets:
                return f"counter set {counter_set} not found"
            if counter not in sets[counter_set]:
                return f"counter {counter} not found in counter set {counter_set}"
    pool.counters = {(name, counter): value for name, counters in sets.items() for counter, value in counters.items()}
    pool.is_slow = any(device.device.binding_conditions for device in pool.devices)
    return ""


def _read_slice(source: ResourceSlice, selectors: DeviceSelectors) -> _Slice:
    spec = source.spec
    place = Place.of(spec.node_name, spec.all_nodes, spec.node_selector)
    each = _Slice(source, (spec.driver, spec.pool.name), spec.pool.generation, place)
    try:
        each.devices = tuple(_read_device(each, device, selectors) for device in spec.devices)
        each.counters = tuple(
            (one.name, {name: parse_quantity(counter.value) for name, counter in one.counters.items()})
            for one in spec.shared_counters
        )
    except QuantityError as error:
        each.problem = str(error)
    return each


def _read_device(each: _Slice, device: Device, selectors: DeviceSelectors) -> PoolDevice:
    spec = each.source.spec
    own = Place.of(device.node_name, device.all_nodes, device.node_selector)
    says_where = bool(spec.per_device_node_selection)
    return PoolDevice(
        DeviceId(spec.driver, spec.pool.name, device.name),
        device,
        selectors.facts_of(spec.driver, device),
        own if says_where else None,
        own if says_where else each.place,
        says_where,
        bool(device.allow_multiple_allocations),
        {name: Capacity.of(capacity) for name, capacity in device.capacity.items()},
        tuple(
            ((one.counter_set, name), parse_quantity(counter.value))
            for one in device.consumes_counters
            for name, counter in one.counters.items()
        ),
        tuple(taint for taint in device.taints if taint.effect in _KEEPING_AWAY),
    )
