"""What `pyscheduler.podgroup` offered before dialects had a `DialectStatus`; removed in the next version."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from pyscheduler.podgroup.dialects import DIALECTS

if TYPE_CHECKING:
    from pyscheduler.podgroup.status import DialectStatus, MemberFacts

__all__ = ["StatusStyle", "next_status"]

_FORMER: Final = {
    "sigs": "COSCHEDULING",
    "ming": "COSCHEDULING_SCHEDULED",
    "koordinator": "GANG",
    "kube-batch": "KUBE_BATCH",
    "volcano": "COUNTS",
    "intree": "CONDITION",
}
StatusStyle: Any = SimpleNamespace(**{_FORMER[row.name]: row.status for row in DIALECTS if row.name in _FORMER})
"""The status objects of the built-in dialects, by the names of the former enum."""


def next_status(style: DialectStatus, status: Any, facts: MemberFacts, *, now: float) -> Any:
    """Return the status one step on."""
    return style.next(status, facts, now=now)
