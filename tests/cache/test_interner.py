"""Interned values: small ids, counted users, nothing left behind."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from pyscheduler.cache.interner import Interner


def test_equal_values_share_an_id() -> None:
    """One id per distinct value, and the value can be read back by it."""
    interner: Interner[str, None] = Interner(None)
    first, second, again = (interner.acquire(value) for value in ("a", "b", "a"))
    assert (first, second, again) == (1, 2, 1)
    assert interner.values == [None, "a", "b"]
    interner.check_invariants([first, second, again])


def test_the_empty_value_is_id_0_and_not_counted() -> None:
    """Absence costs nothing, however often it is acquired and released."""
    interner: Interner[tuple[str, ...], tuple[str, ...]] = Interner(())
    assert [interner.acquire(()) for _ in range(3)] == [0, 0, 0]
    interner.release(0)
    assert len(interner) == 0
    interner.check_invariants([])


def test_an_empty_text_is_a_value_where_absence_is_none() -> None:
    """A label with an empty value differs from no label."""
    interner: Interner[str, None] = Interner(None)
    assert interner.acquire("") == 1


def test_the_id_of_a_value_that_nobody_uses_is_given_to_the_next() -> None:
    """The value goes with its last user, and its id is used again."""
    interner: Interner[str, None] = Interner(None)
    old = interner.acquire("old")
    interner.acquire("old")
    interner.release(old)
    assert interner.values[old] == "old"
    interner.release(old)
    assert (interner.values[old], interner.index) == (None, {})
    assert interner.acquire("new") == old


def test_values_that_come_and_go_leave_nothing_behind() -> None:
    """A thousand unique values in a row need as much room as two."""
    interner: Interner[str, None] = Interner(None)
    held = interner.acquire("first")
    for number in range(1000):
        new = interner.acquire(f"value-{number}")
        interner.release(held)
        held = new
    assert len(interner.values) == 3
    interner.check_invariants([held])


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(["", "a", "b", "c", None]))))
def test_counts_follow_any_history(history: list[tuple[bool, str | None]]) -> None:
    """Whatever is acquired and released, ids name what their holders put in."""
    interner: Interner[str, None] = Interner(None)
    held: list[tuple[int, str | None]] = []
    for acquires, value in history:
        if acquires:
            held.append((interner.acquire(value), value))
        elif held:
            interner.release(held.pop(0)[0])
        assert all(interner.values[number] == value for number, value in held)
        interner.check_invariants([number for number, _ in held])


def test_the_check_notices_a_lost_release() -> None:
    """A count that does not match the holders is a bug, and is reported as one."""
    interner: Interner[str, None] = Interner(None)
    interner.acquire("a")
    with pytest.raises(AssertionError, match="users are counted"):
        interner.check_invariants([])
