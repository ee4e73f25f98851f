"""Explain why a pod gets no devices: list the requested classes, and the claims that use devices of these classes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.plugins.dynamic_resources.allocated import DeviceId
from pyscheduler.plugins.dynamic_resources.claims import ClaimError, find_claims
from pyscheduler.plugins.dynamic_resources.device_counts import DeviceCounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyscheduler.api import DeviceClass, Pod, ResourceClaim, ResourceSlice
    from pyscheduler.framework import Lister, Nodes
    from pyscheduler.plugins.dynamic_resources.inventory_cache import InventoryCache
    from pyscheduler.plugins.dynamic_resources.ledger import ClaimLedger

__all__ = ["Why"]

#: The number of devices in use that the text lists.
_NAMED: Final = 5


@attrs.frozen
class Why:
    """Says how near a pod came to its devices."""

    classes: Lister[DeviceClass]
    claims: Lister[ResourceClaim]
    slices: Lister[ResourceSlice]
    cache: InventoryCache
    ledger: ClaimLedger

    def text(self, pod: Pod, nodes: Nodes) -> str:
        """Return the text; "" if all claims of the pod have devices, or if the status names the claim that is wrong."""
        texts: list[str] = []
        wanted: dict[str, DeviceClass] = {}
        try:
            claims = find_claims(pod, self.ledger.get)
        except ClaimError:
            return ""
        for claim in claims:
            for request in claim.spec.devices.requests if claim.status.allocation is None else ():
                if request.exactly is None:
                    continue
                name = request.exactly.device_class_name
                known = self.classes.get(name)
                if known is not None:
                    wanted[name] = known
                gone = "" if known is not None else ", which does not exist"
                texts.append(f"claim {claim.key} asks for {request.exactly.count or 1} of device class {name}{gone}")
        if not texts:
            return ""
        numbers: Counter[str] = Counter()
        for each in self.slices:
            numbers[each.spec.driver] += len(each.spec.devices)
        parts = [f"{number} of driver {driver}" for driver, number in sorted(numbers.items())]
        texts.append(f"devices of all nodes: {', '.join(parts)}" if parts else "no driver reports any device")
        used = [*self._used(wanted.values(), nodes)]
        if used:
            more = f" and {len(used) - _NAMED} more" if len(used) > _NAMED else ""
            texts.append(f"in use: {', '.join(used[:_NAMED])}{more}")
        return "; ".join(texts)

    def _used(self, wanted: Iterable[DeviceClass], nodes: Nodes) -> Iterator[str]:
        """Yield the devices of these classes that claims have, with the claim and its pods."""
        counts = DeviceCounts(self.cache, self.ledger)
        devices = {device for each in wanted for device in counts.devices(each, nodes)}
        for claim in self.claims:
            allocation = claim.status.allocation
            for result in allocation.devices.results if allocation is not None else ():
                device = DeviceId(result.driver, result.pool, result.device)
                if device in devices and not result.admin_access:
                    pods = [f"{claim.namespace}/{each.name}" for each in claim.status.reserved_for]
                    users = f"pod {', '.join(pods)}" if pods else "no pod"
                    yield f"{device.device} of pool {device.pool} (claim {claim.key}, {users})"
