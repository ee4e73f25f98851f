"""The history that says whether room may have appeared since a member failed."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Final

import pytest
from hypothesis import given, settings, strategies as st

from pyscheduler_coscheduling.deadlock_resolver.history import Releases

FIRED: Final[Counter[str]] = Counter()


def test_room_taken_before_a_failure_helps_when_given_back() -> None:
    """The member failed while another pod held the room."""
    past = Releases()
    past.took("holder")
    past.tried("member")
    failed = past.tried_at("member")
    assert failed is not None
    assert not past.news_for("g").since(failed)
    assert past.gave_back("holder", by="other", external=False)
    assert past.news_for("g").since(failed)


def test_room_taken_and_given_back_after_a_failure_does_not_help() -> None:
    """Room taken and given back after the failure leaves the cluster as it was."""
    past = Releases()
    past.tried("member")
    failed = past.tried_at("member")
    assert failed is not None
    past.took("passer")
    past.gave_back("passer", by="other", external=False)
    assert not past.news_for("g").since(failed)
    past.appeared()
    assert past.news_for("g").since(failed)


def test_own_rollback_does_not_help_a_group() -> None:
    """The rollback helps other groups."""
    past = Releases()
    past.took("sibling")
    past.tried("member")
    failed = past.tried_at("member")
    assert failed is not None
    past.gave_back("sibling", by="g", external=False)
    assert not past.news_for("g").since(failed)
    assert past.news_for("h").since(failed)


def test_rollbacks_are_not_external_changes() -> None:
    """Rollbacks do not count; a pod that took no node gives none back."""
    past = Releases()
    past.took("a")
    past.took("b")
    past.gave_back("a", by="g", external=False)
    past.gave_back("b", external=True)
    past.appeared()
    assert past.external == 2
    assert not past.gave_back("a", external=True)
    assert past.external == 2


def test_bound_pod_gives_back_no_node_in_memory() -> None:
    """The event of its deletion reports its room."""
    past = Releases()
    past.took("a")
    past.bound("a")
    assert not past.gave_back("a", external=True)


_STEPS = st.lists(
    st.tuples(st.sampled_from(["take", "give", "try", "appear"]), st.integers(0, 5), st.sampled_from(["g", "h", None])),
    max_size=60,
)


@settings(max_examples=5 * settings.default.max_examples, deadline=None, derandomize=True, database=None)
@given(steps=_STEPS)
def compare(steps: list[tuple[str, int, str | None]]) -> None:
    """Hold the line against a list of everything."""
    past = Releases()
    taken: dict[str, int] = {}
    record: list[tuple[int, int, str | None]] = []
    tried: list[int] = []
    for number, (what, pod, by) in enumerate(steps, start=1):
        uid = f"p{pod}"
        FIRED[what] += 1
        if what == "take":
            past.took(uid)
            taken.setdefault(uid, number)
        elif what == "give" and uid in taken:
            past.gave_back(uid, by=by, external=by is None)
            record.append((number, taken.pop(uid), by))
        elif what == "try":
            past.tried(f"m{number}")
            tried.append(number)
        elif what == "appear":
            past.appeared()
            record.append((number, 0, None))
    for group in ("g", "h"):
        news = past.news_for(group)
        for when in tried:
            failed = past.tried_at(f"m{when}")
            assert failed is not None
            wanted = any(at > when and since < when for at, since, by in record if by is None or by != group)
            FIRED["news" if wanted else "no news"] += 1
            assert news.since(failed) == wanted


@pytest.mark.slow
def test_the_line_says_what_a_record_of_everything_says() -> None:
    """However takes, returns, attempts and news from outside are mixed."""
    compare()
    sys.stderr.write(f"releases: {dict(FIRED)}\n")
    assert all(FIRED[rule] for rule in ("take", "give", "try", "appear", "news", "no news"))
