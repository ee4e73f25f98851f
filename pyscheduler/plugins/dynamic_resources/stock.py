"""The inventory of all devices, made anew only when a slice has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler.plugins.dynamic_resources.pools import Inventory

if TYPE_CHECKING:
    from pyscheduler.api import ResourceSlice
    from pyscheduler.framework import Lister
    from pyscheduler.plugins.dynamic_resources.features import Features
    from pyscheduler.plugins.dynamic_resources.selectors import DeviceSelectors

__all__ = ["Stock"]


class Stock:
    """What the slices of the cluster offer; follows the lister. One serves all profiles."""

    def __init__(self, lister: Lister[ResourceSlice], selectors: DeviceSelectors, features: Features) -> None:
        self.selectors = selectors
        self.features = features
        self._lister = lister
        self._inventory: Inventory | None = None
        self._is_current = False
        lister.add_event_handler(
            on_add=lambda _: self._outdate(), on_update=lambda *_: self._outdate(), on_delete=lambda _: self._outdate()
        )

    def inventory(self) -> Inventory:
        """Return what is there now."""
        if self._inventory is None or not self._is_current:
            self._inventory = Inventory(self._lister, self.selectors, self.features, previous=self._inventory)
            self._is_current = True
        return self._inventory

    def _outdate(self) -> None:
        self._is_current = False
