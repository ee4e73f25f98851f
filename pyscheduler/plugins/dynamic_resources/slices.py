"""ResourceSlices in the form that the allocator uses: quantities are numbers, selectors are compiled.

Source: kube-scheduler 1.36, `dynamic-resource-allocation/structured/internal/incubating`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from pyscheduler.api import NodeSelector, QuantityError, compile_node_selector, parse_quantity
from pyscheduler.plugins.dynamic_resources.allocated import DeviceId
from pyscheduler.plugins.dynamic_resources.capacity import Capacity
from pyscheduler.plugins.dynamic_resources.errors import AllocationError
from pyscheduler.plugins.dynamic_resources.features import Features

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyscheduler.api import CompiledNodeSelector, Device, DeviceTaint, Node, ResourceSlice
    from pyscheduler.plugins.dynamic_resources.selectors import DeviceFacts, DeviceSelectors

__all__ = ["CounterKey", "PoolDevice", "PoolId", "SliceContent", "keeping_away", "read_slice"]

#: Effects of taints that keep claims away; others, ``None`` among them, do nothing.
_KEEPING_AWAY: Final = frozenset({"NoSchedule", "NoExecute"})

PoolId: TypeAlias = tuple[str, str]
"""Driver and name of a pool."""
CounterKey: TypeAlias = tuple[str, str]
"""Counter set and counter, within a pool."""


@attrs.frozen(eq=False)
class NodeScope:
    """The nodes from which something can be reached: one, all, or those that a selector selects."""

    node_name: str
    all_nodes: bool
    selector: NodeSelector | None
    compiled: CompiledNodeSelector | None

    @classmethod
    def of(cls, node_name: str | None, all_nodes: bool | None, selector: NodeSelector | None) -> NodeScope | None:
        """Return the scope, None where nothing is said of it."""
        if not node_name and not all_nodes and selector is None:
            return None
        compiled = compile_node_selector(selector) if selector is not None else None
        return cls(node_name or "", bool(all_nodes), selector, compiled)

    def matches(self, node: Node) -> bool:
        """Return whether a node is among them; raise `AllocationError` where the selector cannot be read."""
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
    #: Where it can be reached from, as it says itself or as its slice says for all its devices.
    scope: NodeScope | None
    #: Whether the slice leaves it to its devices to say where they can be reached from.
    says_where: bool
    shareable: bool
    capacity: Mapping[str, Capacity]
    consumes: tuple[tuple[CounterKey, int], ...]
    taints: tuple[DeviceTaint, ...]
    #: Whether it needs something that is turned off: then it is not offered, or cannot be had.
    is_hidden: bool
    is_barred: bool

    def is_reached_from(self, node: Node) -> bool:
        """Return whether a node that reaches something of the slice reaches this device; raise `AllocationError`."""
        return not self.says_where or (self.scope is not None and self.scope.matches(node))


@attrs.define(eq=False)
class SliceContent:
    """A slice that was read."""

    source: ResourceSlice
    pool: PoolId
    generation: int
    scope: NodeScope | None
    #: Whether it needs something that is turned off.
    is_ignored: bool = False
    devices: tuple[PoolDevice, ...] = ()
    #: What is wrong with it, or "".
    problem: str = ""
    counters: tuple[tuple[str, Mapping[str, int]], ...] = ()

    @property
    def only_node(self) -> str:
        """The one node that the slice matters to, or "" where it may matter to several."""
        spec = self.source.spec
        return "" if spec.shared_counters else spec.node_name or ""

    @property
    def has_counters(self) -> bool:
        """Return whether the slice has counters or devices that consume some, or whether that is unknown."""
        return bool(self.counters or self.problem or any(device.consumes for device in self.devices))

    def matters_to(self, node: Node) -> bool:
        """Return whether a node reaches something of a slice without counters; raise `AllocationError`."""
        spec = self.source.spec
        if self.is_ignored:
            return False
        what = f"slice {self.source.name}"
        try:
            if self.scope is not None:
                return self.scope.matches(node)
            if not spec.per_device_node_selection:
                return False  # some other way to say it, which is not known here
            for device in self.devices:
                what = f"device {device.id.device} in slice {self.source.name}"
                if device.is_reached_from(node):
                    return True
        except AllocationError as error:
            raise AllocationError(
                f"gather pool information: failed to perform node selection for {what}: {error}"
            ) from error
        return False


def read_slice(source: ResourceSlice, selectors: DeviceSelectors, features: Features) -> SliceContent:
    """Return what is in a slice; what cannot be read of it makes its pool unusable."""
    spec = source.spec
    scope = NodeScope.of(spec.node_name, spec.all_nodes, spec.node_selector)
    content = SliceContent(source, (spec.driver, spec.pool.name), spec.pool.generation, scope)
    if not features.partitionable_devices:
        content.is_ignored = spec.per_device_node_selection is not None or bool(spec.shared_counters)
    try:
        content.devices = tuple(_read_device(content, device, selectors, features) for device in spec.devices)
        content.counters = tuple(
            (one.name, {name: parse_quantity(counter.value) for name, counter in one.counters.items()})
            for one in spec.shared_counters
        )
    except QuantityError as error:
        content.problem = str(error)
    return content


def _read_device(content: SliceContent, device: Device, selectors: DeviceSelectors, features: Features) -> PoolDevice:
    spec = content.source.spec
    says_where = bool(spec.per_device_node_selection)
    own = NodeScope.of(device.node_name, device.all_nodes, device.node_selector)
    return PoolDevice(
        id=DeviceId(spec.driver, spec.pool.name, device.name),
        device=device,
        facts=selectors.facts_of(spec.driver, device),
        scope=own if says_where else content.scope,
        says_where=says_where,
        shareable=bool(device.allow_multiple_allocations) and features.consumable_capacity,
        capacity={name: Capacity.of(capacity) for name, capacity in device.capacity.items()}
        if features.consumable_capacity
        else {},
        consumes=tuple(
            ((one.counter_set, name), parse_quantity(counter.value))
            for one in device.consumes_counters
            for name, counter in one.counters.items()
            if features.partitionable_devices
        ),
        taints=keeping_away(device.taints, features),
        is_hidden=bool(device.binding_conditions) and not features.binding_conditions,
        is_barred=bool(device.consumes_counters) and not features.partitionable_devices,
    )


def keeping_away(taints: Iterable[DeviceTaint], features: Features) -> tuple[DeviceTaint, ...]:
    """Return the taints that keep claims away."""
    return tuple(taint for taint in taints if features.device_taints and taint.effect in _KEEPING_AWAY)
