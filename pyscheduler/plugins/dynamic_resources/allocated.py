"""The devices that are allocated to claims, and how much of each shared device is taken.

Source: kube-scheduler 1.36, `dynamicresources/allocateddevices.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

import attrs

from pyscheduler.api import QuantityError, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyscheduler.api import AllocationResult, DeviceRequestAllocationResult

__all__ = ["AllocatedState", "DeviceId"]

K = TypeVar("K")


class DeviceId(NamedTuple):
    """The identity of a device in the cluster."""

    driver: str
    pool: str
    device: str


@attrs.define(eq=False)
class AllocatedState:
    """The devices that are taken; what was allocated for an administrator's access is not among them.

    Read it, and change it by `add` and `remove` only. Where something is kept that was worked out from it, `changes`
    tells whether it still holds.
    """

    #: Devices that one claim has for itself, with how often they were allocated: once.
    devices: dict[DeviceId, int] = attrs.Factory(dict)
    #: The shares of devices that several claims may have, by their `shareID`.
    shares: dict[tuple[DeviceId, str], int] = attrs.Factory(dict)
    #: How much of each capacity all shares of a device take together, in nanos (see `api.quantity`).
    capacity: dict[DeviceId, dict[str, int]] = attrs.Factory(dict)
    #: How often something was added or removed.
    changes: int = 0

    def copy(self) -> AllocatedState:
        """Return the state as it is now; it does not follow later changes."""
        capacity = {device: dict(consumed) for device, consumed in self.capacity.items()}
        return AllocatedState(dict(self.devices), dict(self.shares), capacity, self.changes)

    def add(self, allocation: AllocationResult) -> None:
        """Count what a claim was given."""
        self._count(allocation.devices.results, 1)

    def remove(self, allocation: AllocationResult) -> None:
        """Count no more what a claim was given, which was counted before."""
        self._count(allocation.devices.results, -1)

    def _count(self, results: Iterable[DeviceRequestAllocationResult], sign: int) -> None:
        self.changes += 1
        for result in results:
            if result.admin_access:
                continue
            device = DeviceId(result.driver, result.pool, result.device)
            if result.share_id is None:
                _change(self.devices, device, sign)
                continue
            _change(self.shares, (device, result.share_id), sign)
            if result.consumed_capacity:
                consumed = self.capacity.setdefault(device, {})
                for name, quantity in result.consumed_capacity.items():
                    try:
                        _change(consumed, name, sign * parse_quantity(quantity))
                    except QuantityError:
                        continue  # refused by the API server; whoever reads it from elsewhere counts nothing
                if not consumed:
                    del self.capacity[device]


def _change(counts: dict[K, int], key: K, by: int) -> None:
    count = counts.get(key, 0) + by
    if count:
        counts[key] = count
    else:
        counts.pop(key, None)
