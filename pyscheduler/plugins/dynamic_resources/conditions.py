"""Devices that must be prepared (for example, attached to the node) before their pod is bound.

The claim's status says whether a device is ready or has failed.
Source: kube-scheduler 1.36, `dynamicresources` (KEP-5007).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pyscheduler.api import DecodeError, parse_time
from pyscheduler.framework import PySchedulerError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyscheduler.api import AllocatedDeviceStatus, Condition, DeviceRequestAllocationResult, ResourceClaim

__all__ = ["DeviceBindingError", "DeviceTimeoutError", "has_conditions", "has_timed_out", "is_ready", "unready_devices"]


class DeviceBindingError(PySchedulerError):
    """Report devices that failed; the pod is tried again."""

    #: How the wait ended, in metrics.
    status: ClassVar[str] = "failure"


class DeviceTimeoutError(DeviceBindingError):
    """Report devices that did not become ready in time; the pod is tried again."""

    status: ClassVar[str] = "timeout"


def is_ready(claim: ResourceClaim) -> bool:
    """Return whether every condition of the claim's devices is met; raise `DeviceBindingError` where one has failed."""
    allocation = claim.status.allocation
    if allocation is None:
        return False
    for result in allocation.devices.results:
        if not result.binding_conditions:
            continue
        status = _status_of(claim, result)
        if status is None:
            return False
        for name in result.binding_failure_conditions:
            failed = _find(status.conditions, name)
            if failed is not None and failed.status == "True":
                message = failed.message.replace("\\", "\\\\").replace('"', '\\"')
                raise DeviceBindingError(
                    f'device binding failed: claim={claim.name}, reason={failed.reason}, message="{message}"'
                )
        if not all(_is_true(status.conditions, name) for name in result.binding_conditions):
            return False
    return True


def has_conditions(claim: ResourceClaim) -> bool:
    """Return whether a device of the claim has conditions."""
    allocation = claim.status.allocation
    return allocation is not None and any(result.binding_conditions for result in allocation.devices.results)


def has_timed_out(claim: ResourceClaim, *, now: float, timeout_seconds: float) -> bool:
    """Return whether the devices with conditions have had their time; `now` is in seconds since the epoch."""
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None or not has_conditions(claim):
        return False
    try:
        began = parse_time(allocation.allocation_timestamp)
    except DecodeError:
        return False  # nobody knows when
    return began + timeout_seconds < now


def unready_devices(claims: Iterable[ResourceClaim]) -> str:
    """Return in one line which devices are awaited, and which have failed, for the log."""
    parts = []
    for claim in claims:
        allocation = claim.status.allocation
        for result in allocation.devices.results if allocation is not None else ():
            status = _status_of(claim, result)
            conditions = status.conditions if status is not None else ()
            failed = [name for name in result.binding_failure_conditions if _is_true(conditions, name)]
            pending = [name for name in result.binding_conditions if not _is_true(conditions, name)]
            if not result.binding_conditions or not (failed or pending):
                continue
            text = f"<driver={result.driver}, pool={result.pool}> {result.device}"
            text += f" failed=[{','.join(failed)}]" if failed else ""
            text += f" pending=[{','.join(pending)}]" if pending else ""
            parts.append(text)
    return "; ".join(parts)


def _status_of(claim: ResourceClaim, result: DeviceRequestAllocationResult) -> AllocatedDeviceStatus | None:
    wanted = (result.driver, result.pool, result.device)
    return next((each for each in claim.status.devices if (each.driver, each.pool, each.device) == wanted), None)


def _find(conditions: Sequence[Condition], name: str) -> Condition | None:
    return next((each for each in conditions if each.type == name), None)


def _is_true(conditions: Sequence[Condition], name: str) -> bool:
    found = _find(conditions, name)
    return found is not None and found.status == "True"
