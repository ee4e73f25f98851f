"""Helpers for resource claims and slices, for example to fill in defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube_testserver.store import Object

__all__ = [
    "EXACT_COUNT",
    "asked_for",
    "default_claim",
    "default_slice",
    "default_template",
    "keep_status_of_allocated",
    "named_claims",
    "quantities_of",
]

EXACT_COUNT: Final = "ExactCount"

_SHARED: Final = ("driver", "pool", "device", "shareID")


def asked_for(spec: Object) -> Iterator[tuple[Object, str]]:
    """Yield each way in which each request of a claim's spec can be met, and its path below the spec."""
    for index, request in enumerate((spec.get("devices") or {}).get("requests") or ()):
        path = f"devices.requests[{index}]"
        if request.get("exactly") is not None:
            yield request["exactly"], f"{path}.exactly"
        for number, one in enumerate(request.get("firstAvailable") or ()):
            yield one, f"{path}.firstAvailable[{number}]"


def default_claim(claim: Object) -> None:
    """Fill in what a claim leaves open; in its status too, where tolerations are repeated."""
    _default_spec(claim.setdefault("spec", {}))
    allocation = (claim.get("status") or {}).get("allocation") or {}
    for result in (allocation.get("devices") or {}).get("results") or ():
        _default_tolerations(result)


def default_template(template: Object) -> None:
    """Fill in what the claims of a template leave open."""
    inner = template.setdefault("spec", {})
    inner.setdefault("metadata", {})
    _default_spec(inner.setdefault("spec", {}))


def default_slice(resource_slice: Object, now: str) -> None:
    """Note since when devices are tainted; `now` is a wire timestamp."""
    for device in (resource_slice.get("spec") or {}).get("devices") or ():
        for taint in device.get("taints") or ():
            if taint.get("timeAdded") is None:
                taint["timeAdded"] = now


def named_claims(pod: Object) -> Iterator[tuple[str, str, bool]]:
    """Yield what each claim of a pod is called in the pod, its own name, and whether it was made from a template.

    A name is empty where none is needed; claims that are yet to be made are left out.
    """
    status = pod.get("status") or {}
    made = {one.get("name"): one.get("resourceClaimName") for one in status.get("resourceClaimStatuses") or ()}
    for one in (pod.get("spec") or {}).get("resourceClaims") or ():
        wanted = one.get("name") or ""
        if one.get("resourceClaimName"):
            yield wanted, one["resourceClaimName"], False
        elif wanted in made:
            yield wanted, made[wanted] or "", True


def keep_status_of_allocated(claim: Object, before: Object) -> None:
    """Drop what drivers report of devices that the claim has no longer."""
    status = claim.get("status") or {}
    lost = _devices(before) - _devices(claim)
    kept = [one for one in status.get("devices") or () if _identity(one) not in lost]
    if kept:
        status["devices"] = kept
    else:
        status.pop("devices", None)


def _devices(claim: Object) -> set[tuple[str, ...]]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return {_identity(one) for one in (allocation.get("devices") or {}).get("results") or ()}


def _identity(device: Object) -> tuple[str, ...]:
    return tuple(device.get(name) or "" for name in _SHARED)


def _default_spec(spec: Object) -> None:
    spec.setdefault("devices", {})
    for asked, _ in asked_for(spec):
        if not asked.get("allocationMode"):
            asked["allocationMode"] = EXACT_COUNT
        if asked["allocationMode"] == EXACT_COUNT and not asked.get("count"):
            asked["count"] = 1
        _default_tolerations(asked)


def _default_tolerations(owner: Object) -> None:
    for toleration in owner.get("tolerations") or ():
        if not toleration.get("operator"):
            toleration["operator"] = "Equal"


# --- quantities -------------------------------------------------------------------------------------


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
