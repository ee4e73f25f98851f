"""The rows of device kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyscheduler.cluster.embedded.printing.columns import AGE, NAME, Printer, age_of, columns

if TYPE_CHECKING:
    from pyscheduler.cluster.embedded.store import Object

__all__ = ["DEVICE_PRINTERS"]


def _claim_cells(claim: Object, now: float) -> list[Any]:
    return [claim["metadata"]["name"], _state(claim), age_of(claim, now)]


def _state(claim: Object) -> str:
    leaving, status = "deletionTimestamp" in claim["metadata"], claim.get("status") or {}
    states = ["deleted"] if leaving else []
    if status.get("allocation") is not None:
        states += ["allocated", "reserved"] if status.get("reservedFor") else ["allocated"]
    elif not leaving:
        states.append("pending")
    return ",".join(states)


def _slice_cells(one: Object, now: float) -> list[Any]:
    spec = one.get("spec") or {}
    pool = (spec.get("pool") or {}).get("name") or ""
    return [one["metadata"]["name"], spec.get("nodeName") or "", spec.get("driver") or "", pool, age_of(one, now)]


DEVICE_PRINTERS: Final[dict[str, Printer]] = {
    "resourceclaims.resource.k8s.io": Printer(columns(NAME, "State", AGE), _claim_cells),
    "resourceslices.resource.k8s.io": Printer(columns(NAME, "Node", "Driver", "Pool", AGE), _slice_cells),
}
"""By collection: how these kinds are printed; the others have a name and an age."""
