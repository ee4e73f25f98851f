"""Read and set conditions in a status: one entry per type, with the time at which the entry's status last changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kube_testserver.store import Object

__all__ = ["has_condition", "set_condition"]


def has_condition(status: Object, kind: str) -> bool:
    """Return True if the condition of a type is True."""
    return any(one.get("type") == kind and one.get("status") == "True" for one in status.get("conditions") or ())


def set_condition(status: Object, condition: Object) -> None:
    """Put a condition into a status, in the place of the one of its type; its time only moves when its status does."""
    conditions = list(status.get("conditions") or ())
    for position, present in enumerate(conditions):
        if present.get("type") == condition["type"]:
            if present.get("status") == condition["status"]:
                condition = {**condition, "lastTransitionTime": present.get("lastTransitionTime")}
            conditions[position] = condition
            break
    else:
        conditions.append(condition)
    status["conditions"] = conditions
