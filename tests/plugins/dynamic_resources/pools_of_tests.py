"""The pools that the tests of the allocator allocate from."""

from __future__ import annotations

from pyscheduler.api import (
    AllocationResult,
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    Device,
    DeviceAllocationResult,
    DeviceCapacity,
    DeviceRequestAllocationResult,
    DeviceToleration,
    ResourceSlice,
)
from pyscheduler.plugins.dynamic_resources.allocated import AllocatedState
from tests.plugins.dynamic_resources.offers import (
    DRIVER,
    device,
    slice_of,
)


def devices(count: int) -> list[Device]:
    """Return devices that differ in nothing but their names."""
    return [device(f"d{index}") for index in range(count)]


def taken(*names: str, share: str | None = None, capacity: dict[str, str] | None = None) -> AllocatedState:
    """Return a state in which devices of the usual pool are taken."""
    state = AllocatedState()
    results = tuple(
        DeviceRequestAllocationResult(
            driver=DRIVER, pool="pool-1", device=name, share_id=share, consumed_capacity=capacity or {}
        )
        for name in names
    )
    state.add(AllocationResult(devices=DeviceAllocationResult(results=results)))
    return state


GPUS = [slice_of(*devices(4))]
SIZES = [
    slice_of(
        device("a", attributes={"size": "small"}),
        device("b", attributes={"size": "big"}),
    )
]
TOLERATE = DeviceToleration(key="broken", operator="Exists", effect="NoSchedule")
PARTITIONS = [
    slice_of(
        device("whole", consumes={("gpu-0", "memory"): "8Gi"}),
        device("half-0", consumes={("gpu-0", "memory"): "4Gi"}),
        device("half-1", consumes={("gpu-0", "memory"): "4Gi"}),
        device("other"),
        count=2,
    ),
    slice_of(name="counters", count=2, counters={"gpu-0": {"memory": "8Gi"}}),
]
NUMA = [
    slice_of(
        device("a", attributes={"numa": 0}),
        device("b", attributes={"numa": 1}),
        device("c", attributes={"numa": 1}),
        device("d", attributes={"numa": 0}),
    )
]


def shared(**capacity: str | DeviceCapacity) -> list[ResourceSlice]:
    """Return two devices that several claims may have."""
    return [slice_of(*[device(name, shareable=True, capacity=capacity) for name in ("a", "b")])]


STEPS = DeviceCapacity(
    value="10Gi",
    request_policy=CapacityRequestPolicy(
        default="2Gi", valid_range=CapacityRequestPolicyRange(min="1Gi", max="8Gi", step="2Gi")
    ),
)
VALUES = DeviceCapacity(value="10", request_policy=CapacityRequestPolicy(default="1", valid_values=("1", "4")))

NOTHING = DeviceCapacity(value="1", request_policy=CapacityRequestPolicy(default="0", valid_values=("0",)))
