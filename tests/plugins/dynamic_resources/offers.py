"""Devices, claims and selectors for the tests of the allocator, in few words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from pyscheduler.api import (
    AllocationResult,
    CapacityRequirements,
    CELDeviceSelector,
    Counter,
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceClaim,
    DeviceClass,
    DeviceClassSpec,
    DeviceConstraint,
    DeviceCounterConsumption,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceTaint,
    DeviceToleration,
    ExactDeviceRequest,
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
    ResourceClaim,
    ResourceClaimSpec,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from pyscheduler.plugins.dynamic_resources.allocated import AllocatedState
from pyscheduler.plugins.dynamic_resources.allocator import Allocator
from pyscheduler.plugins.dynamic_resources.features import ALL_FEATURES, Features
from pyscheduler.plugins.dynamic_resources.pools import Inventory
from pyscheduler.plugins.dynamic_resources.selectors import DeviceFacts, DeviceSelectorError
from pyscheduler.testing.builders import make_node

DRIVER: Final = "gpu.example.com"
OTHER_DRIVER: Final = "nic.example.com"
NODE: Final = "node-1"

PREDICATES: Final[Mapping[str, Callable[[DeviceFacts], bool]]] = {
    "gpu": lambda facts: facts.driver == DRIVER,
    "nic": lambda facts: facts.driver == OTHER_DRIVER,
    "any": lambda _: True,
    "big": lambda facts: facts.device.attributes["size"].string_value == "big",
    "small": lambda facts: facts.device.attributes["size"].string_value == "small",
}


class NamedSelectors:
    """Selectors whose expressions are names of predicates; one that is not known is an error."""

    def __init__(self) -> None:
        self._facts: dict[bytes, DeviceFacts] = {}
        self.asked = 0

    def facts_of(self, driver: str, device: Device) -> DeviceFacts:
        asked = (driver, device.allow_multiple_allocations, device.attributes, device.capacity)
        return self._facts.setdefault(msgspec.json.encode(asked, order="sorted"), DeviceFacts(driver, device))

    def matches(self, expression: str, facts: DeviceFacts, pause: Callable[[], None] | None = None) -> bool:
        self.asked += 1
        if expression not in PREDICATES:
            raise DeviceSelectorError(f"CEL compile error: {expression}")
        try:
            return PREDICATES[expression](facts)
        except KeyError as error:
            raise DeviceSelectorError(f"CEL runtime error: no such key: {error.args[0]}") from error


CLASSES: Final = {
    name: DeviceClass(
        metadata=ObjectMeta(name=name),
        spec=DeviceClassSpec(selectors=(DeviceSelector(cel=CELDeviceSelector(expression=name)),)),
    )
    for name in ("gpu", "nic", "any")
}


def attribute(value: str | int | bool | tuple[str, ...]) -> DeviceAttribute:
    """Return an attribute; a text that begins with v is a version."""
    if isinstance(value, bool):
        return DeviceAttribute(bool_value=value)
    if isinstance(value, int):
        return DeviceAttribute(int_value=value)
    if isinstance(value, tuple):
        return DeviceAttribute(string_values=value)
    if value.startswith("v"):
        return DeviceAttribute(version_value=value[1:])
    return DeviceAttribute(string_value=value)


def device(
    name: str,
    *,
    attributes: Mapping[str, str | int | bool | tuple[str, ...]] | None = None,
    capacity: Mapping[str, str | DeviceCapacity] | None = None,
    consumes: Mapping[tuple[str, str], str] | None = None,
    taints: Sequence[str] = (),
    shareable: bool = False,
    **fields: object,
) -> Device:
    """Return a device; taints are written ``key=value:effect``."""
    made = Device(
        name=name,
        attributes={key: attribute(value) for key, value in (attributes or {}).items()},
        capacity={
            key: value if isinstance(value, DeviceCapacity) else DeviceCapacity(value=value)
            for key, value in (capacity or {}).items()
        },
        consumes_counters=tuple(
            DeviceCounterConsumption(counter_set=counter_set, counters={counter: Counter(value=value)})
            for (counter_set, counter), value in (consumes or {}).items()
        ),
        taints=tuple(map(taint, taints)),
        allow_multiple_allocations=shareable or None,
    )
    return msgspec.structs.replace(made, **fields)


def taint(text: str) -> DeviceTaint:
    """Read ``key=value:effect``."""
    pair, _, effect = text.partition(":")
    key, _, value = pair.partition("=")
    return DeviceTaint(key=key, value=value, effect=effect)


def slice_of(
    *devices: Device,
    name: str = "slice-1",
    driver: str = DRIVER,
    pool: str = "pool-1",
    node: str | None = NODE,
    count: int = 1,
    generation: int = 1,
    counters: Mapping[str, Mapping[str, str]] | None = None,
    all_nodes: bool = False,
    selector: NodeSelector | None = None,
    per_device: bool = False,
) -> ResourceSlice:
    """Return a slice of a pool, which a node has to itself unless something else is said."""
    elsewhere = all_nodes or per_device or selector is not None
    return ResourceSlice(
        metadata=ObjectMeta(name=name),
        spec=ResourceSliceSpec(
            driver=driver,
            pool=ResourcePool(name=pool, generation=generation, resource_slice_count=count),
            node_name=None if elsewhere else node,
            all_nodes=all_nodes or None,
            node_selector=selector,
            per_device_node_selection=per_device or None,
            devices=devices,
            shared_counters=tuple(
                CounterSet(name=key, counters={counter: Counter(value=value) for counter, value in inside.items()})
                for key, inside in (counters or {}).items()
            ),
        ),
    )


def in_region(region: str) -> NodeSelector:
    """Select the nodes of a region."""
    requirement = NodeSelectorRequirement(key="region", operator="In", values=(region,))
    return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=(requirement,)),))


def on_node(name: str = NODE) -> NodeSelector:
    """Select one node by its name."""
    requirement = NodeSelectorRequirement(key="metadata.name", operator="In", values=(name,))
    return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(requirement,)),))


def selecting(expressions: Sequence[str]) -> tuple[DeviceSelector, ...]:
    """Return selectors with these expressions."""
    return tuple(DeviceSelector(cel=CELDeviceSelector(expression=expression)) for expression in expressions)


def amounts(capacity: Mapping[str, str] | None) -> CapacityRequirements | None:
    """Return what a request asks for of a capacity."""
    return CapacityRequirements(requests=capacity) if capacity is not None else None


def exactly(
    name: str,
    count: int = 1,
    class_name: str = "gpu",
    *,
    where: Sequence[str] = (),
    admin: bool = False,
    capacity: Mapping[str, str] | None = None,
    tolerations: Sequence[DeviceToleration] = (),
) -> DeviceRequest:
    """Return a request for a number of devices, 0 for all."""
    return DeviceRequest(
        name=name,
        exactly=ExactDeviceRequest(
            device_class_name=class_name,
            selectors=selecting(where),
            allocation_mode="ExactCount" if count else "All",
            count=count,
            admin_access=admin or None,
            capacity=amounts(capacity),
            tolerations=tuple(tolerations),
        ),
    )


def first_of(name: str, *alternatives: DeviceSubRequest) -> DeviceRequest:
    """Return a request with alternatives."""
    return DeviceRequest(name=name, first_available=alternatives)


def either(
    name: str,
    count: int = 1,
    class_name: str = "gpu",
    *,
    where: Sequence[str] = (),
    capacity: Mapping[str, str] | None = None,
    tolerations: Sequence[DeviceToleration] = (),
) -> DeviceSubRequest:
    """Return an alternative for a number of devices, 0 for all."""
    return DeviceSubRequest(
        name=name,
        device_class_name=class_name,
        selectors=selecting(where),
        allocation_mode="ExactCount" if count else "All",
        count=count,
        capacity=amounts(capacity),
        tolerations=tuple(tolerations),
    )


def claim(*requests: DeviceRequest, name: str = "claim", constraints: Sequence[DeviceConstraint] = ()) -> ResourceClaim:
    """Return a claim."""
    return ResourceClaim(
        metadata=ObjectMeta(name=name, namespace="default", uid=f"uid-of-{name}"),
        spec=ResourceClaimSpec(devices=DeviceClaim(requests=requests, constraints=tuple(constraints))),
    )


def matching(name: str, *requests: str) -> DeviceConstraint:
    """Demand one value of an attribute."""
    return DeviceConstraint(requests=requests, match_attribute=f"{DRIVER}/{name}")


def distinct(name: str, *requests: str) -> DeviceConstraint:
    """Demand values of an attribute that differ."""
    return DeviceConstraint(requests=requests, distinct_attribute=f"{DRIVER}/{name}")


def allocator_of(
    claims: Sequence[ResourceClaim],
    slices: Sequence[ResourceSlice],
    allocated: AllocatedState | None = None,
    classes: Mapping[str, DeviceClass] = CLASSES,
    features: Features = ALL_FEATURES,
) -> Allocator:
    """Return an allocator; shares are named one after the other."""
    selectors = NamedSelectors()
    numbers = iter(range(1000))
    return Allocator(
        claims,
        allocated or AllocatedState(),
        classes.get,
        Inventory(slices, selectors, features),
        selectors,
        features,
        new_share_id=lambda: f"share-{next(numbers)}",
    )


def a_node(name: str = NODE, region: str = "west") -> Node:
    """Return a node in a region."""
    return make_node(name, labels={"region": region})


def shown(results: Sequence[AllocationResult] | None) -> list[list[str]] | None:
    """Return what each claim gets: ``request=device``, with pool and driver where they are not the usual ones."""
    if results is None:
        return None
    return [
        [
            f"{one.request}=" + "/".join(part for part in (one.driver, one.pool, one.device) if part not in USUAL)
            for one in result.devices.results
        ]
        for result in results
    ]


USUAL: Final = {DRIVER, "pool-1"}
