"""Where the quantities of device kinds stand: the decoder reads each, and refuses an object with one it cannot read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler.cluster.embedded.rules.devices.claims import asked_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyscheduler.cluster.embedded.store import Object

__all__ = ["quantities_of"]


def quantities_of(kind: str, obj: Object) -> Iterator[str | int | float]:
    """Yield every quantity of a well-formed object."""
    spec = obj.get("spec") or {}
    if kind == "ResourceSlice":
        yield from _of_slice(spec)
    elif kind == "ResourceClaimTemplate":
        yield from _of_claim(spec.get("spec") or {})
    elif kind == "ResourceClaim":
        yield from _of_claim(spec)
        allocation = (obj.get("status") or {}).get("allocation") or {}
        for result in (allocation.get("devices") or {}).get("results") or ():
            yield from (result.get("consumedCapacity") or {}).values()


def _of_claim(spec: Object) -> Iterator[str | int | float]:
    for asked, _ in asked_for(spec):
        yield from ((asked.get("capacity") or {}).get("requests") or {}).values()


def _of_slice(spec: Object) -> Iterator[str | int | float]:
    for counters in spec.get("sharedCounters") or ():
        yield from _values(counters.get("counters"))
    for device in spec.get("devices") or ():
        yield from _values(device.get("capacity"))
        for capacity in (device.get("capacity") or {}).values():
            policy = capacity.get("requestPolicy") or {}
            bounds = policy.get("validRange") or {}
            given = (policy.get("default"), *(bounds.get(name) for name in ("min", "max", "step")))
            yield from (one for one in given if one is not None)
            yield from policy.get("validValues") or ()
        for consumed in device.get("consumesCounters") or ():
            yield from _values(consumed.get("counters"))


def _values(amounts: Object | None) -> Iterator[str | int | float]:
    for amount in (amounts or {}).values():
        if amount.get("value") is not None:
            yield amount["value"]
