"""The inventory of all devices, made anew only when a slice has changed.

Each slice is read when it comes, so that no cycle has to read thousands of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler.plugins.dynamic_resources.pools import Inventory
from pyscheduler.plugins.dynamic_resources.slices import read_slice

if TYPE_CHECKING:
    from pyscheduler.api import ResourceSlice
    from pyscheduler.framework import Lister
    from pyscheduler.plugins.dynamic_resources.features import Features
    from pyscheduler.plugins.dynamic_resources.selectors import DeviceSelectors
    from pyscheduler.plugins.dynamic_resources.slices import SliceContent

__all__ = ["InventoryCache"]


class InventoryCache:
    """What the slices of the cluster offer; follows the lister. One serves all profiles."""

    def __init__(self, lister: Lister[ResourceSlice], selectors: DeviceSelectors, features: Features) -> None:
        self.selectors = selectors
        self.features = features
        self._lister = lister
        self._inventory: Inventory | None = None
        self._is_current = False
        self._read: dict[str, SliceContent] = {}
        lister.add_event_handler(on_add=self._add, on_update=lambda _, new: self._add(new), on_delete=self._delete)

    def inventory(self) -> Inventory:
        """Return what is there now."""
        if self._inventory is None or not self._is_current:
            self._inventory = Inventory(
                self._lister, self.selectors, self.features, previous=self._inventory, read=self._read
            )
            self._is_current = True
        return self._inventory

    def _add(self, source: ResourceSlice) -> None:
        self._is_current = False
        self._read[source.name] = read_slice(source, self.selectors, self.features)

    def _delete(self, source: ResourceSlice) -> None:
        self._is_current = False
        self._read.pop(source.name, None)
