"""What changed since: each key once, the latest change first, and nothing left out."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, strategies as st

from pyscheduler.framework import changed_keys
from pyscheduler.framework.changed_keys import ChangedKeys


@given(st.lists(st.integers(0, 5), max_size=30), st.integers(0, 30))
def test_every_key_that_changed_is_named_once(keys: list[int], position: int) -> None:
    """From whichever position somebody asks."""
    changed: ChangedKeys[int] = ChangedKeys()
    for key in keys:
        changed.note(key)
    assert changed.position == len(keys)
    assert changed.since(position) == list(dict.fromkeys(reversed(keys[position:])))


def test_what_is_forgotten_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks from before that has to look at all keys; whoever asks from later gets his answer."""
    monkeypatch.setattr(changed_keys, "_MAX_KEYS", 3)
    changed: ChangedKeys[int] = ChangedKeys()
    fired: Counter[str] = Counter()
    for key in range(10):
        changed.note(key)
        for position in range(key + 1):
            found = changed.since(position)
            fired["forgotten" if found is None else "known"] += 1
            assert found is None or found == list(range(key, position - 1, -1))
    assert changed.since(7) == [9, 8, 7]
    assert changed.since(6) is None
    assert min(fired.values()) > 5
