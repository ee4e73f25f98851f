"""The quota that a group reserves or waits for, as users see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler_quota.claims import amount_text, reserved_by, shortfall_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler.api import RawQuantity
    from pyscheduler.podgroup.membership import GroupState
    from pyscheduler_quota.reservations import Reservations

__all__ = ["NO_QUOTA", "QuotaFacts", "quota_facts"]


@attrs.frozen(kw_only=True)
class QuotaFacts:
    """The reservation of one group."""

    #: `Reserved`, `Waiting` for quota, `Ended`, or "" if the group has no reservation and needs none.
    phase: str = ""
    reserved: Mapping[str, RawQuantity] = attrs.field(factory=dict)
    #: What of it is kept for members that do not exist yet, as quantities; empty if quotas were not read.
    left: Mapping[str, str] = attrs.field(factory=dict)
    #: Why the group waits.
    message: str = ""


NO_QUOTA: Final = QuotaFacts()


def quota_facts(state: GroupState, reservations: Reservations | None = None) -> QuotaFacts:
    """Return what is known of a group's reservation: from its annotation, and from quotas if they were read."""
    granted = None if state.object is None else reserved_by(state.object)
    claim = None if reservations is None else reservations.of(state.id)
    if granted:
        left = claim.outstanding() if claim is not None and claim.is_counted else {}
        shown = {name: amount_text(name, left[name]) for name in granted if name in left}
        return QuotaFacts(phase="Reserved", reserved=granted, left=shown)
    if granted is not None:
        return QuotaFacts(phase="Ended")
    short = () if claim is None or reservations is None else reservations.shortfalls(claim)
    if not short or state.bound or state.waiting or state.succeeded:
        return NO_QUOTA
    return QuotaFacts(phase="Waiting", message=shortfall_text(short))
