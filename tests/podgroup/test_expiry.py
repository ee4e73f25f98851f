"""The map whose entries expire."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pyscheduler.podgroup import ExpiringMap
from pyscheduler.testing import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    """Give a clock that stands still."""
    return VirtualClock(start=0.0)


async def test_removed_entry_does_not_call_back(clock: VirtualClock) -> None:
    """The callback is not called for removed entries."""
    ended: list[str] = []
    window = ExpiringMap[str, int](clock, 3.0, on_expiry=lambda key, _: ended.append(key))
    window.add("a", 1)
    window.add("b", 2)
    assert (window.remove("a"), window.remove("a")) == (1, None)
    await clock.advance(3.0)
    assert ended == ["b"]
    window.add("c", 3)
    window.clear()
    await clock.advance(3.0)
    assert ended == ["b"]
    window.add("d", 4)
    await clock.advance(3.0)
    assert ended == ["b", "d"]


async def test_map_with_ttl_0_stays_empty(clock: VirtualClock) -> None:
    """With 0 seconds no entry is added."""
    window = ExpiringMap[str, int](clock, 0.0)
    assert not window.add("a", 1)
    assert len(window) == 0


async def test_callback_may_add_an_entry(clock: VirtualClock) -> None:
    """A callback may add entries, and a failing callback does not stop later ones."""
    ended: list[tuple[str, float]] = []

    def again(key: str, rounds: int) -> None:
        ended.append((key, clock.now()))
        if rounds:
            window.add(key, rounds - 1)

    window = ExpiringMap[str, int](clock, 2.0, on_expiry=again)
    window.add("a", 2)
    await clock.advance(10.0)
    assert ended == [("a", 2.0), ("a", 4.0), ("a", 6.0)]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["add", "remove", "look"]), st.integers(0, 5))))
async def test_it_does_what_a_plain_map_with_ends_does(steps: list[tuple[str, str, int]]) -> None:
    """Against a map that is searched for what has ended."""
    clock = VirtualClock(start=0.0)
    ended: list[tuple[str, float]] = []
    window = ExpiringMap[str, int](clock, 4.0, on_expiry=lambda key, _: ended.append((key, clock.now())))
    plain: dict[str, float] = {}
    expected: list[tuple[str, float]] = []
    for key, action, pause in steps:
        if action == "add":
            assert window.add(key, 0) == (key not in plain)
            plain.setdefault(key, clock.now() + 4.0)
        elif action == "remove":
            assert (window.remove(key) is not None) == (plain.pop(key, None) is not None)
        assert set(window) == set(plain)
        await clock.advance(pause)
        over = sorted((end, key) for key, end in plain.items() if end <= clock.now())
        expected += [(key, end) for end, key in over]
        for _, key in over:
            del plain[key]
    assert sorted(ended) == sorted(expected)
