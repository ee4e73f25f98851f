"""Settings of the tests of the benchmarks."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(autouse=True)
def _no_collections_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let measurements in this process not look at all objects of the test run, which takes longer than they do."""
    for name in ("collect", "freeze", "unfreeze"):
        monkeypatch.setattr(gc, name, lambda *_: 0)
