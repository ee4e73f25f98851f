"""Cache the devices that the ResourceSlices of the cluster contain.

Each slice is parsed when its watch event arrives, so that no scheduling cycle parses thousands of slices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler.plugins.dynamic_resources.pools import Inventory
from pyscheduler.plugins.dynamic_resources.slices import keeping_away, read_slice

if TYPE_CHECKING:
    from pyscheduler.api import DeviceTaintRule, ResourceSlice
    from pyscheduler.framework import Lister
    from pyscheduler.plugins.dynamic_resources.features import Features
    from pyscheduler.plugins.dynamic_resources.selectors import DeviceSelectors
    from pyscheduler.plugins.dynamic_resources.slices import SliceContent

__all__ = ["InventoryCache"]


class InventoryCache:
    """The devices that the slices of the cluster offer; follows the lister. All profiles share one.

    `rules` add taints to devices; None with the gate DRADeviceTaintRules off.
    """

    def __init__(
        self,
        lister: Lister[ResourceSlice],
        selectors: DeviceSelectors,
        features: Features,
        rules: Lister[DeviceTaintRule] | None = None,
    ) -> None:
        self.selectors = selectors
        self.features = features
        self._lister = lister
        self._inventory: Inventory | None = None
        self._is_current = False
        self._read: dict[str, SliceContent] = {}
        self._rules = rules
        if rules is not None:
            rules.add_event_handler(
                on_add=self._read_again,
                on_update=self._read_again,
                on_delete=self._read_again,
            )
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
        content = self._read[source.name] = read_slice(source, self.selectors, self.features)
        for rule in self._rules or ():
            asked = rule.spec.device_selector
            device = asked.device if asked is not None else None
            if _is_about(rule, source):
                for each in content.devices:
                    if device in {None, each.id.device}:
                        each.taints += keeping_away([rule.spec.taint], self.features)

    def _read_again(self, *rules: DeviceTaintRule) -> None:
        """Read the slices whose devices a rule is or was about."""
        for source in self._lister:
            if any(_is_about(rule, source) for rule in rules):
                self._add(source)

    def _delete(self, source: ResourceSlice) -> None:
        self._is_current = False
        self._read.pop(source.name, None)


def _is_about(rule: DeviceTaintRule, source: ResourceSlice) -> bool:
    """Return True if a rule is about devices of a slice."""
    asked, spec = rule.spec.device_selector, source.spec
    return asked is None or (asked.driver in {None, spec.driver} and asked.pool in {None, spec.pool.name})
