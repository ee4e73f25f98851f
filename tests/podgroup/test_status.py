"""Phases, counts and conditions of groups, from the facts about their members."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from pyscheduler.api import PodCondition
from pyscheduler.podgroup import CountsStatus, DialectStatus, MemberFacts, Phase, PhaseStatus
from pyscheduler.podgroup.status import (
    ConditionStatus,
    KubeBatchStatus,
    is_overdue,
    is_unschedulable,
    occupied_by,
    scheduled_condition,
    status_patch,
)
from pyscheduler.podgroup.wire import GroupStatus
from pyscheduler.testing import make_pod
from tests.podgroup.builders import ROWS

NOW = 1767225600.0
SIGS, MING, KOORDINATOR = PHASED = tuple(ROWS[name].status for name in ("sigs", "ming", "koordinator"))


def following(rules: DialectStatus, phase: str, **facts: int) -> str:
    """Return the phase one step on."""
    return str(rules.next(GroupStatus(phase=phase), MemberFacts(**{"min": 3, **facts}), now=NOW).phase)


@pytest.mark.parametrize(
    ("phase", "facts", "cos", "ming", "gang"),
    [
        pytest.param("", {"members": 9}, "Pending", "Pending", "Pending", id="new"),
        pytest.param("Pending", {"members": 2}, "Pending", "Pending", "Pending", id="too few"),
        pytest.param("Pending", {"members": 3}, "Scheduling", "Scheduling", "PreScheduling", id="enough"),
        pytest.param("Scheduling", {"members": 3, "bound": 2}, "Scheduling", "Scheduling", "Scheduling", id="2 bound"),
        pytest.param("Scheduling", {"members": 3, "bound": 3}, "Scheduling", "Scheduled", "Scheduled", id="3 bound"),
        pytest.param(
            "Scheduled", {"members": 3, "bound": 3, "running": 3}, "Running", "Running", "Running", id="all run"
        ),
        pytest.param("Scheduling", {"members": 2, "bound": 2}, "Pending", "Pending", "Scheduling", id="one deleted"),
        pytest.param("Scheduling", {"members": 0}, "Pending", "Pending", "Pending", id="all deleted"),
        pytest.param(
            "Running",
            {"members": 3, "bound": 2, "running": 2, "succeeded": 1},
            "Running",
            "Running",
            "Running",
            id="one succeeded",
        ),
        pytest.param(
            "Running",
            {"members": 3, "bound": 2, "running": 2, "failed": 1},
            "Failed",
            "Failed",
            "Failed",
            id="one failed",
        ),
        pytest.param(
            "Running",
            {"members": 4, "failed": 1, "succeeded": 3},
            "Finished",
            "Finished",
            "Finished",
            id="finished wins",
        ),
        pytest.param("Failed", {"members": 3, "running": 3}, "Failed", "Failed", "Failed", id="failed stays"),
        pytest.param("Finished", {"members": 0}, "Finished", "Finished", "Finished", id="finished stays"),
    ],
)
def test_one_step_of_each_kind_of_phases(phase: str, facts: dict[str, int], cos: str, ming: str, gang: str) -> None:
    """The phase moves as with the dialect's own controller."""
    assert tuple(following(rules, phase, **facts) for rules in PHASED) == (cos, ming, gang)


def test_a_gang_runs_only_after_it_was_scheduled() -> None:
    """The phase goes through Scheduled although members run already."""
    facts = {"members": 3, "bound": 3, "running": 3}
    phases = ["PreScheduling"]
    for _ in range(3):
        phases.append(following(KOORDINATOR, phases[-1], **facts))
    assert phases == ["PreScheduling", "Scheduled", "Running", "Running"]


def test_a_group_without_a_minimum() -> None:
    """With a minimum of 0 an empty group is not finished."""
    assert following(SIGS, "Scheduling", min=0) == "Running"
    assert following(KOORDINATOR, "Pending", min=0, members=4) == "Pending"
    assert following(KOORDINATOR, "Pending", min=0, members=4, bound=1) == "Scheduling"
    assert following(KOORDINATOR, "Scheduled", min=0, members=4, bound=1) == "Scheduled"
    assert following(MING, "Scheduling", min=0) == "Running"
    assert following(SIGS, "Running", min=0, members=1, succeeded=1) == "Finished"


@given(
    rules=st.sampled_from(PHASED),
    phase=st.sampled_from(["", *Phase]),
    counts=st.tuples(*[st.integers(0, 4)] * 5),
    minimum=st.integers(0, 5),
)
def test_phases_come_to_rest(rules: PhaseStatus, phase: str, counts: tuple[int, ...], minimum: int) -> None:
    """While members stay as they are, a few steps lead to a phase that stays: writes end."""
    pending, starting, running, succeeded, failed = counts
    facts = MemberFacts(
        min=minimum,
        members=sum(counts),
        bound=starting + running,
        running=running,
        succeeded=succeeded,
        failed=failed,
    )
    seen = [GroupStatus(phase=phase)]
    for _ in range(6):
        seen.append(rules.next(seen[-1], facts, now=NOW))
    assert seen[-1] is seen[-2]
    assert pending >= 0


def test_step_writes_counts_start_time_and_owners() -> None:
    """Counts are replaced, the start is written once, owners when scheduling begins."""
    facts = MemberFacts(min=2, members=3, bound=2, running=1, occupied_by="ml/job")
    first = MING.next(GroupStatus(phase="Pending", scheduled=7), facts, now=NOW)
    assert first == GroupStatus(
        phase="Scheduling",
        scheduled=2,
        running=1,
        occupied_by="ml/job",
        schedule_start_time="2026-01-01T00:00:00Z",
    )
    later = MING.next(msgspec.structs.replace(first, phase="Pending"), facts, now=NOW + 60)
    assert later.schedule_start_time == "2026-01-01T00:00:00Z"


def test_counts_without_a_phase() -> None:
    """kube-batch counts admitted members; a phase that other programs write is not changed."""
    facts = MemberFacts(min=2, members=4, waiting=1, bound=2, running=1, succeeded=1)
    assert KubeBatchStatus().next(GroupStatus(), facts, now=NOW) == GroupStatus(admitted=3, running=1, succeeded=1)
    assert CountsStatus().next(GroupStatus(phase="Inqueue"), facts, now=NOW) == GroupStatus(
        phase="Inqueue", running=1, succeeded=1
    )
    untouched = GroupStatus()
    assert ConditionStatus().next(untouched, facts, now=NOW) is untouched


@pytest.mark.parametrize(
    ("facts", "unschedulable"),
    [
        pytest.param({"members": 3, "running": 2, "failed": 1}, True, id="one of three failed"),
        pytest.param({"members": 4, "running": 2, "failed": 1}, False, id="one is pending"),
        pytest.param({"members": 3, "running": 2, "succeeded": 1}, False, id="one succeeded"),
        pytest.param({"members": 2}, False, id="none runs"),
        pytest.param({"members": 2, "running": 1}, True, id="one was deleted"),
    ],
)
def test_a_group_that_runs_with_too_few_left(facts: dict[str, int], unschedulable: bool) -> None:
    """Members run, and fewer than the minimum have not failed."""
    assert is_unschedulable(MemberFacts(min=3, **facts)) is unschedulable


def test_late_step_writes_the_start_time() -> None:
    """All members are bound before the first step; the start time is written all the same."""
    facts = MemberFacts(min=1, members=1, bound=1)
    late = KOORDINATOR.next(GroupStatus(phase="PreScheduling"), facts, now=NOW)
    assert (late.phase, late.schedule_start_time) == ("Scheduled", "2026-01-01T00:00:00Z")


def test_a_patch_says_what_changed_and_nothing_else() -> None:
    """The patch has only changed fields, counts that went back to 0 included."""
    old = GroupStatus(phase="Running", running=2)
    assert status_patch(old, GroupStatus(phase="Running", running=2)) == {}
    assert status_patch(old, GroupStatus(phase="Finished", succeeded=2)) == {
        "status": {"phase": "Finished", "running": 0, "succeeded": 2}
    }


@pytest.mark.parametrize(
    ("status", "overdue"),
    [
        pytest.param({"phase": "Scheduling", "schedule_start_time": "2026-01-03T00:00:01Z"}, True, id="too late"),
        pytest.param({"phase": "Scheduling", "schedule_start_time": "2026-01-03T00:00:00Z"}, False, id="48 hours"),
        pytest.param(
            {"phase": "Scheduling", "schedule_start_time": "2026-01-09T00:00:00Z", "running": 1}, False, id="it runs"
        ),
        pytest.param({"phase": "Running", "schedule_start_time": "2026-01-09T00:00:00Z"}, False, id="another phase"),
        pytest.param({"phase": "Pending"}, False, id="not begun"),
        pytest.param({"phase": "Pending", "schedule_start_time": "yesterday"}, False, id="no time"),
    ],
)
def test_a_group_that_begins_too_late_is_warned_about(status: dict[str, Any], overdue: bool) -> None:
    """The warning is for groups that started more than 48 hours after their creation."""
    assert is_overdue(GroupStatus(**status), created=NOW) is overdue


def test_owners_are_named_once_and_in_order() -> None:
    """The owners are sorted and named once, as namespace/name."""
    owned = [
        msgspec.convert(
            {"metadata": {"name": "p", "namespace": "ml", "ownerReferences": [{"name": name}]}}, type(make_pod("p"))
        )
        for name in ("z", "a", "z")
    ]
    assert occupied_by(owned) == "ml/a,ml/z"
    assert occupied_by([make_pod("p")]) == ""


def test_the_condition_of_kubernetes_own_pod_group() -> None:
    """It is written if it changed; its time changes with its status; a scheduled group stays scheduled."""
    text = "pod group is unschedulable"
    refused = scheduled_condition([], status="False", reason="Unschedulable", message=text, now=NOW)
    assert refused == PodCondition(
        type="PodGroupScheduled",
        status="False",
        reason="Unschedulable",
        message=text,
        last_transition_time="2026-01-01T00:00:00Z",
    )
    again = {"status": "False", "reason": "Unschedulable", "message": text, "now": NOW + 9}
    assert scheduled_condition([refused], **again) is None
    failed = scheduled_condition([refused], status="False", reason="SchedulerError", message="x", now=NOW + 9)
    assert failed is not None
    assert failed.last_transition_time == "2026-01-01T00:00:00Z"
    done = scheduled_condition([failed], status="True", reason="Scheduled", message="", now=NOW + 9)
    assert done is not None
    assert done.last_transition_time == "2026-01-01T00:00:09Z"
    assert scheduled_condition([done], **again) is None
