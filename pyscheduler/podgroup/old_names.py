"""Deprecated names of the package `pyscheduler.podgroup`, which still work, with a warning, until version 0.4."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from pyscheduler.moved import moved_names
from pyscheduler.podgroup.dialects import DIALECTS
from pyscheduler.podgroup.membership import MemberPlace

if TYPE_CHECKING:
    from pyscheduler.podgroup.status import DialectStatus, MemberFacts

__all__ = ["old_name"]

_STYLES: Final = {
    "sigs": "COSCHEDULING",
    "ming": "COSCHEDULING_SCHEDULED",
    "koordinator": "GANG",
    "kube-batch": "KUBE_BATCH",
    "volcano": "COUNTS",
    "intree": "CONDITION",
}


def _next_status(style: DialectStatus, status: Any, facts: MemberFacts, *, now: float) -> Any:
    return style.next(status, facts, now=now)


#: By old name: the module that has it now.
_moved: Final = moved_names(
    "pyscheduler.podgroup",
    {
        "ConditionStatus": "pyscheduler.podgroup.status",
        "DeadlockArgs": "pyscheduler_coscheduling.deadlock_resolver.units",
        "DeadlockParty": "pyscheduler_coscheduling.deadlock_resolver.units",
        "Deadlocks": "pyscheduler_coscheduling.deadlock_resolver.deadlocks",
        "GangGroup": "pyscheduler.podgroup.membership",
        "GroupStatus": "pyscheduler.podgroup.wire",
        "KubeBatchStatus": "pyscheduler.podgroup.status",
        "QueueOrder": "pyscheduler_queuesort.args",
        "UnitKey": "pyscheduler_coscheduling.deadlock_resolver.units",
        "is_overdue": "pyscheduler.podgroup.status",
        "is_unschedulable": "pyscheduler.podgroup.status",
        "koordinator_phase": "pyscheduler.podgroup.status",
        "merge": "pyscheduler.podgroup.model",
        "ming_phase": "pyscheduler.podgroup.status",
        "occupied_by": "pyscheduler.podgroup.status",
        "scheduled_condition": "pyscheduler.podgroup.status",
        "status_patch": "pyscheduler.podgroup.status",
    },
)
#: By old name: what to use instead, and what the old name returns.
_OLD: Final[dict[str, tuple[str, object]]] = {
    "Place": ("MemberPlace", MemberPlace),
    "StatusStyle": (
        "a DialectStatus",
        SimpleNamespace(**{_STYLES[row.name]: row.status for row in DIALECTS if row.name in _STYLES}),
    ),
    "next_status": ("DialectStatus.next", _next_status),
}


def old_name(name: str) -> object:
    """Return what an old name stands for, with a `DeprecationWarning`: the `__getattr__` of the package."""
    if name not in _OLD:
        return _moved(name)
    instead, value = _OLD[name]
    text = f"pyscheduler.podgroup.{name} is removed in 0.4; use {instead}"
    warnings.warn(text, DeprecationWarning, stacklevel=2)
    return value
