"""Validate ResourceClaims, ResourceClaimTemplates and DeviceClasses.

Differs from Kubernetes: some checks are missing, for example the checks of selectors and tolerations.
Source: Kubernetes 1.36, `pkg/apis/resource/validation`, with its default feature gates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_objects import is_extended_resource
from kube_testserver.errors import FieldProblem
from kube_testserver.rules.devices.claims import EXACT_COUNT, asked_for
from kube_testserver.rules.devices.slices import driver_problems, pool_problems, slice_problems
from kube_testserver.rules.names import duplicate_problems, label_problems, subdomain_problems

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kube_testserver.resources.table import Resource
    from kube_testserver.store import Object

__all__ = ["admin_request", "admin_result", "device_problems"]

_ALL: Final = "All"
_NAMED: Final = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
_IMMUTABLE: Final = "field is immutable"

_Names = dict[str, set[str]]
"""By request, its subrequests."""


def device_problems(resource: Resource, old: Object | None, new: Object) -> Iterator[FieldProblem]:
    """Yield what is wrong with a new object, or with a change of `old`."""
    spec = new.get("spec") or {}
    if resource.kind == "ResourceSlice":
        yield from slice_problems(None if old is None else old.get("spec") or {}, spec)
    elif resource.kind == "DeviceClass":
        resource_name = spec.get("extendedResourceName")
        if resource_name is not None and not is_extended_resource(resource_name):
            yield FieldProblem.invalid(
                "spec.extendedResourceName", resource_name, "must be a valid extended resource name"
            )
    elif old is not None:
        if (old.get("spec") or {}) != spec:
            yield FieldProblem.invalid("spec", spec, _IMMUTABLE)
        elif resource.kind == "ResourceClaim":
            yield from _status_problems(old, new)
    elif resource.kind == "ResourceClaimTemplate":
        yield from _claim_problems("spec.spec", spec.get("spec") or {})
    else:
        yield from _claim_problems("spec", spec)


def admin_request(spec: Object) -> str:
    """Return the path, below a claim's spec, of the first request for administrator access; empty if there is none."""
    return next((f"{path.removesuffix('.exactly')}.adminAccess" for one, path in asked_for(spec) if _admin(one)), "")


def admin_result(claim: Object) -> str:
    """Return the path of the first result with administrator access; empty if there is none."""
    results = _results(claim)
    path = "status.allocation.devices.results"
    return next((f"{path}[{index}].adminAccess" for index, one in enumerate(results) if _admin(one)), "")


def _admin(owner: Object) -> bool:
    return bool(owner.get("adminAccess"))


def _results(claim: Object) -> list[Object]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return (allocation.get("devices") or {}).get("results") or []


# --- what is asked for ------------------------------------------------------------------------------


def _claim_problems(path: str, spec: Object) -> Iterator[FieldProblem]:
    devices = spec.get("devices") or {}
    where = f"{path}.devices"
    requests = devices.get("requests") or []
    names = _request_names(spec)
    for index, request in enumerate(requests):
        yield from _request_problems(f"{where}.requests[{index}]", request)
    yield from duplicate_problems(f"{where}.requests", (one.get("name") or "" for one in requests))
    for index, constraint in enumerate(devices.get("constraints") or ()):
        yield from _constraint_problems(f"{where}.constraints[{index}]", constraint, names)
    for index, one in enumerate(devices.get("config") or ()):
        yield from _references_problems(f"{where}.config[{index}].requests", one, names)


def _request_names(spec: Object) -> _Names:
    requests = (spec.get("devices") or {}).get("requests") or ()
    return {
        one.get("name") or "": {way.get("name") or "" for way in one.get("firstAvailable") or ()} for one in requests
    }


def _request_problems(path: str, request: Object) -> Iterator[FieldProblem]:
    yield from label_problems(f"{path}.name", request.get("name") or "")
    exactly, ways = request.get("exactly"), request.get("firstAvailable") or []
    if exactly is None and not ways:
        yield FieldProblem.required(path, "exactly one of `exactly` or `firstAvailable` is required")
    elif exactly is not None and ways:
        why = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"
        yield FieldProblem.invalid(path, None, why)
    elif exactly is not None:
        yield from _way_problems(f"{path}.exactly", exactly)
    else:
        where = f"{path}.firstAvailable"
        for index, way in enumerate(ways):
            yield from label_problems(f"{where}[{index}].name", way.get("name") or "")
            yield from _way_problems(f"{where}[{index}]", way)
        yield from duplicate_problems(where, (way.get("name") or "" for way in ways))


def _way_problems(path: str, asked: Object) -> Iterator[FieldProblem]:
    """Yield what is wrong with one way to meet a request; what is left open has its default."""
    name = asked.get("deviceClassName") or ""
    if not name:
        yield FieldProblem.required(f"{path}.deviceClassName")
    else:
        yield from subdomain_problems(f"{path}.deviceClassName", name)
    mode, count = asked.get("allocationMode") or EXACT_COUNT, asked.get("count") or 0
    if mode == _ALL:
        if count:
            why = f"must not be specified when allocationMode is '{_ALL}'"
            yield FieldProblem.invalid(f"{path}.count", count, why)
    elif mode == EXACT_COUNT:
        if count < 0:
            yield FieldProblem.invalid(f"{path}.count", count, "must be greater than zero")
    else:
        yield FieldProblem.unsupported(f"{path}.allocationMode", mode, (_ALL, EXACT_COUNT))


def _constraint_problems(path: str, constraint: Object, names: _Names) -> Iterator[FieldProblem]:
    yield from _references_problems(f"{path}.requests", constraint, names)
    if any(constraint.get(field) is not None for field in ("matchAttribute", "distinctAttribute")):
        return
    why = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
    yield FieldProblem.required(path, why)


def _references_problems(path: str, owner: Object, names: _Names) -> Iterator[FieldProblem]:
    references = owner.get("requests") or []
    for index, name in enumerate(references):
        yield from _reference_problems(f"{path}[{index}]", name, names)
    yield from duplicate_problems(path, references)


def _reference_problems(path: str, name: str, names: Mapping[str, set[str]]) -> Iterator[FieldProblem]:
    parts = name.split("/")
    if len(parts) <= 2:
        for part in parts:
            yield from label_problems(path, part)
    known = parts[0] in names and (len(parts) == 1 or parts[1] in names[parts[0]])
    if len(parts) > 2 or not known:
        yield FieldProblem.invalid(path, name, _NAMED)


# --- what was given ---------------------------------------------------------------------------------


def _status_problems(old: Object, new: Object) -> Iterator[FieldProblem]:
    before, status = old.get("status") or {}, new.get("status") or {}
    if before == status:
        return
    yield from _user_problems(before, status, leaving="deletionTimestamp" in new["metadata"])
    yield from _device_status_problems(new)
    given, present = before.get("allocation"), status.get("allocation")
    if given is not None and present is not None:
        if given != present:
            yield FieldProblem.invalid("status.allocation", present, _IMMUTABLE)
    elif present is not None:
        yield from _allocation_problems(new, _request_names(new.get("spec") or {}))


def _user_problems(before: Object, status: Object, *, leaving: bool) -> Iterator[FieldProblem]:
    users, path = status.get("reservedFor") or [], "status.reservedFor"
    for index, user in enumerate(users):
        for name in ("resource", "name", "uid"):
            if not user.get(name):
                yield FieldProblem.required(f"{path}[{index}].{name}")
    yield from duplicate_problems(path, (user.get("uid") or "" for user in users))
    if users and status.get("allocation") is None:
        yield FieldProblem.forbidden(path, "may not be specified when `allocated` is not set")
    elif leaving and any(user not in (before.get("reservedFor") or []) for user in users):
        why = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        yield FieldProblem.forbidden(path, why)


def _device_status_problems(claim: Object) -> Iterator[FieldProblem]:
    allocated = {_shared_id(one) for one in _results(claim)}
    reported = (claim.get("status") or {}).get("devices") or []
    for index, device in enumerate(reported):
        path = f"status.devices[{index}]"
        yield from _device_problems(path, device)
        if _shared_id(device) not in allocated:
            yield FieldProblem.invalid(path, _shared_id(device), "must be an allocated device in the claim")
    yield from duplicate_problems("status.devices", map(_shared_id, reported))


def _shared_id(device: Object) -> str:
    share = device.get("shareID")
    parts = (device.get(name) or "" for name in ("driver", "pool", "device"))
    return "/".join(parts) + (f"/{share}" if share else "")


def _device_problems(path: str, device: Object) -> Iterator[FieldProblem]:
    yield from driver_problems(f"{path}.driver", device.get("driver") or "")
    yield from pool_problems(f"{path}.pool", device.get("pool") or "")
    yield from label_problems(f"{path}.device", device.get("device") or "")


def _allocation_problems(claim: Object, names: _Names) -> Iterator[FieldProblem]:
    for index, result in enumerate(_results(claim)):
        where = f"status.allocation.devices.results[{index}]"
        yield from _reference_problems(f"{where}.request", result.get("request") or "", names)
        yield from _device_problems(where, result)
