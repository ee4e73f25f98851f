"""What changed since: each key once, the latest change first, and nothing left out."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, strategies as st

from pyscheduler.framework.changed_keys import ChangedKeys


@given(st.lists(st.integers(0, 5), max_size=30), st.integers(0, 30))
def test_every_key_that_changed_is_named_once(keys: list[int], position: int) -> None:
    """From whichever position somebody asks."""
    changed: ChangedKeys[int] = ChangedKeys()
    for key in keys:
        changed.note(key)
    assert changed.position == len(keys)
    assert changed.since(position) == list(dict.fromkeys(reversed(keys[position:])))


def test_what_is_forgotten_is_said_to_be() -> None:
    """A reader with an older position has to look at all keys; one with a newer position gets the changed keys."""
    changed: ChangedKeys[int] = ChangedKeys()
    fired: Counter[str] = Counter()
    for key in range(40_000):
        changed.note(key)
    for position in range(0, 40_000, 499):
        found = changed.since(position)
        fired["forgotten" if found is None else "known"] += 1
        assert found is None or found == list(range(39_999, position - 1, -1))
    assert changed.since(0) is None
    assert min(fired.values()) > 5
