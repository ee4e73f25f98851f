"""Admission of pods beside reservations: what was admitted counts before it is seen, for a short time."""

from __future__ import annotations

import pytest

from pyscheduler.api import Pod
from pyscheduler.podgroup import DialectTable
from pyscheduler.podgroup.quota_admission import QuotaAdmission
from pyscheduler.testing import VirtualClock
from tests.podgroup.test_reservations import annotated, cpus, quota


@pytest.fixture
def clock() -> VirtualClock:
    """Return the clock."""
    return VirtualClock()


@pytest.fixture
async def admission(clock: VirtualClock) -> QuotaAdmission:
    """Return a namespace whose quota of 6 CPUs has 2 that no group reserves."""
    made = QuotaAdmission(DialectTable(), clock)
    made.put(quota(6, 0))
    made.put(annotated("g", "4"))
    return made


async def test_admitted_pods_count_until_they_are_seen_or_late(admission: QuotaAdmission, clock: VirtualClock) -> None:
    """Of pods that are created at the same moment, only as many are admitted as fit."""
    assert [not admission.refusal(cpus(name, "")) for name in ("a", "b", "c")] == [True, True, False]
    admission.put(cpus("a", ""))
    admission.put(quota(6, 1))
    assert admission.refusal(cpus("c", ""))
    await clock.advance(5)
    assert not admission.refusal(cpus("c", "")), "the creation of b failed later"


async def test_dry_runs_and_pods_without_room_do_not_count(admission: QuotaAdmission) -> None:
    """Neither uses quota."""
    assert not admission.refusal(cpus("dry", "", 2), is_dry_run=True)
    assert not admission.refusal(cpus("huge", "", 9))
    assert not admission.refusal(cpus("a", "", 2))
    assert admission.refusal(cpus("b", ""))


async def test_members_draw_on_their_reservation_at_once(admission: QuotaAdmission, clock: VirtualClock) -> None:
    """Four members of one CPU each are admitted beside two other pods; a fifth one is not."""
    for name in ("a", "b"):
        assert not admission.refusal(cpus(name, ""))
    for number in range(4):
        assert not admission.refusal(cpus(f"g-{number}", "g")), number
    assert not admission.refusal(cpus("g-4", "g")), "nothing is reserved any more, so that the quota itself decides"
    await clock.advance(5)
    assert admission.refusal(cpus("large", "", 3)), "none of them was created"


async def test_reservation_follows_the_annotation(admission: QuotaAdmission) -> None:
    """It ends with the annotation, with the object, and with the quota."""
    wants: Pod = cpus("p", "", 3)
    assert admission.refusal(wants, is_dry_run=True)
    admission.put(annotated("g", "3"))
    assert not admission.refusal(wants, is_dry_run=True)
    admission.put(annotated("g", "4"))
    assert admission.refusal(wants, is_dry_run=True)
    admission.remove(annotated("g", "4"))
    assert not admission.refusal(wants, is_dry_run=True)
    admission.put(annotated("g", "4"))
    admission.remove(quota(6, 0))
    assert not admission.refusal(wants, is_dry_run=True)
