"""Count devices for scores: how many devices of a class each node can use, and how many of these are allocated.

Source: kube-scheduler 1.36, `noderesources/resource_allocation.go`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import attrs
import numpy as np

from pyscheduler.framework import PySchedulerError
from pyscheduler.plugins.dynamic_resources.patience import CyclePatience

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from pyscheduler.api import DeviceClass
    from pyscheduler.framework import Nodes
    from pyscheduler.plugins.dynamic_resources.allocated import DeviceId
    from pyscheduler.plugins.dynamic_resources.inventory_cache import InventoryCache
    from pyscheduler.plugins.dynamic_resources.ledger import ClaimLedger

__all__ = ["DeviceCounts"]

_log = logging.getLogger(__name__)


@attrs.frozen
class DeviceCounts:
    """Counts devices by what the slices offer and what is allocated now."""

    cache: InventoryCache
    ledger: ClaimLedger

    def count(self, device_class: DeviceClass, nodes: Nodes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return int64[n] twice: the devices of the class on each node, and those of them that are allocated."""
        totals = np.zeros((2, len(nodes)), dtype=np.int64)
        allocated = self.ledger.allocated
        taken = {*allocated.devices, *allocated.capacity, *(device for device, _ in allocated.shares)}
        for row, found in enumerate(self._by_node(device_class, nodes)):
            totals[:, row] = len(found), sum(each in taken for each in found)
        return totals[0], totals[1]

    def devices(self, device_class: DeviceClass, nodes: Nodes) -> set[DeviceId]:
        """Return the devices of the class that some node reaches."""
        return {device for found in self._by_node(device_class, nodes) for device in found}

    def _by_node(self, device_class: DeviceClass, nodes: Nodes) -> Iterator[list[DeviceId]]:
        """Yield the devices of the class on each node."""
        patience = CyclePatience()
        selectors = [each.cel.expression for each in device_class.spec.selectors if each.cel is not None]
        for info in nodes:
            assert info.node is not None, "the snapshot has nodes only"
            found = []
            try:
                found = [
                    device.id
                    for device, _ in self.cache.inventory().offer_to(info.node).candidates
                    if all(self.cache.selectors.matches(each, device.facts, patience.pause) for each in selectors)
                ]
            except PySchedulerError as error:
                _log.info("Devices were not counted node=%s class=%s err=%s", info.name, device_class.name, error)
            yield found
