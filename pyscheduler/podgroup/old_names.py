"""What `pyscheduler.podgroup` offered before dialects had a `DialectStatus`; removed in the next version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyscheduler.podgroup.status import (
    ConditionStatus,
    CountsStatus,
    DialectStatus,
    KubeBatchStatus,
    PhaseStatus,
    coscheduling_phase,
    koordinator_phase,
    ming_phase,
)

if TYPE_CHECKING:
    from pyscheduler.podgroup.status import MemberFacts

__all__ = ["StatusStyle", "next_status"]


class StatusStyle:
    """The status objects of the built-in dialects, by the names of the former enum."""

    COSCHEDULING: Final = PhaseStatus(coscheduling_phase, has_scheduled=False)
    COSCHEDULING_SCHEDULED: Final = PhaseStatus(ming_phase)
    GANG: Final = PhaseStatus(koordinator_phase)
    KUBE_BATCH: Final = KubeBatchStatus()
    COUNTS: Final = CountsStatus()
    CONDITION: Final = ConditionStatus()


def next_status(style: DialectStatus, status: Any, facts: MemberFacts, *, now: float) -> Any:
    """Return the status one step on."""
    return style.next(status, facts, now=now)
