"""Python types for ResourceSlice (devices that a driver offers) and DeviceTaintRule.

Source: Kubernetes 1.36, `resource.k8s.io/v1` and `resource.k8s.io/v1beta2`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from kube_objects.affinity import NodeSelector
from kube_objects.meta import KubeObject, RawQuantity, Wire
from kube_objects.taints import Taint


class DeviceAttribute(Wire):
    """A property of a device: one of the fields is set, the others are ``None`` (or empty)."""

    int_value: int | None = msgspec.field(name="int", default=None)
    bool_value: bool | None = msgspec.field(name="bool", default=None)
    string_value: str | None = msgspec.field(name="string", default=None)
    version_value: str | None = msgspec.field(name="version", default=None)
    int_values: tuple[int, ...] = msgspec.field(name="ints", default=())
    bool_values: tuple[bool, ...] = msgspec.field(name="bools", default=())
    string_values: tuple[str, ...] = msgspec.field(name="strings", default=())
    version_values: tuple[str, ...] = msgspec.field(name="versions", default=())


class CapacityRequestPolicyRange(Wire):
    """Amounts from `min` to `max` in steps of `step`."""

    min: RawQuantity | None = None
    max: RawQuantity | None = None
    step: RawQuantity | None = None


class CapacityRequestPolicy(Wire):
    """The amounts of a capacity that can be requested at once; `default` holds where no amount is requested."""

    default: RawQuantity | None = None
    valid_values: tuple[RawQuantity, ...] = ()
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(Wire):
    """The amount of one capacity of a device."""

    value: RawQuantity = "0"
    request_policy: CapacityRequestPolicy | None = None


class Counter(Wire):
    """An amount that devices of a pool share."""

    value: RawQuantity = "0"


class CounterSet(Wire):
    """Counters of a pool under a name."""

    name: str = ""
    counters: Mapping[str, Counter] = {}


class DeviceCounterConsumption(Wire):
    """The amounts that a device takes from a counter set once it is allocated."""

    counter_set: str = ""
    counters: Mapping[str, Counter] = {}


class DeviceTaint(Taint):
    """A mark on a device that keeps claims away: effect ``NoSchedule``, ``NoExecute`` or, without effect, ``None``."""


class Device(Wire):
    """A device of a pool.

    `node_name`, `node_selector` and `all_nodes` are set only where the slice leaves it to its devices
    (`ResourceSliceSpec.per_device_node_selection`).
    """

    name: str = ""
    attributes: Mapping[str, DeviceAttribute] = {}
    capacity: Mapping[str, DeviceCapacity] = {}
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool | None = None


class ResourcePool(Wire):
    """The pool that a slice is part of."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(Wire):
    """Devices of one driver and pool, or the counters they share, and the nodes that can reach them."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    devices: tuple[Device, ...] = ()
    per_device_node_selection: bool | None = None
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(KubeObject):
    """A part of what a driver offers."""

    api_version: ClassVar[str] = "resource.k8s.io/v1"
    kind: ClassVar[str] = "ResourceSlice"

    spec: ResourceSliceSpec = ResourceSliceSpec()


class DeviceTaintSelector(Wire):
    """The devices that a rule is about; what is not set does not matter."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(Wire):
    """A taint, and the devices that have it; without a selector, all have it, as in kube-scheduler."""

    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(KubeObject):
    """A taint that an administrator gives to devices, whatever their driver says."""

    api_version: ClassVar[str] = "resource.k8s.io/v1beta2"
    kind: ClassVar[str] = "DeviceTaintRule"

    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()
