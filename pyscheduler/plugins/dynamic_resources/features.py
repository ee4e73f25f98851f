"""The features of the device allocator that feature gates can turn off.

Source: kube-scheduler 1.36, `dynamic-resource-allocation/structured/internal/types.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ALL_FEATURES", "Features"]


@attrs.frozen
class Features:
    """The features of the allocator; all of them with the default gates."""

    #: Whether devices may have to get ready before they can be used.
    binding_conditions: bool = True
    #: Whether devices can be shared, and their capacity asked for.
    consumable_capacity: bool = True
    #: Whether taints keep claims away.
    device_taints: bool = True
    #: Whether devices can take from shared counters, and say themselves from where they are reached.
    partitionable_devices: bool = True

    @classmethod
    def of(cls, gates: Mapping[str, bool]) -> Features:
        """Return what these gates leave."""
        return cls(
            binding_conditions=gates["DRADeviceBindingConditions"] and gates["DRAResourceClaimDeviceStatus"],
            consumable_capacity=gates["DRAConsumableCapacity"],
            device_taints=gates["DRADeviceTaints"],
            partitionable_devices=gates["DRAPartitionableDevices"],
        )


ALL_FEATURES: Final = Features()
"""The features that the default gates turn on."""
