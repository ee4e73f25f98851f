"""Durations in messages."""

from __future__ import annotations

import pytest

from pyscheduler.runtime.durations import format_duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        pytest.param(0, "0s", id="nothing"),
        pytest.param(10, "10s", id="seconds"),
        pytest.param(60, "1m0s", id="a minute"),
        pytest.param(90.5, "1m30.5s", id="a minute and a half second"),
        pytest.param(3600, "1h0m0s", id="an hour"),
        pytest.param(900, "15m0s", id="the longest wait"),
        pytest.param(0.25, "250ms", id="milliseconds"),
        pytest.param(0.0015, "1.5ms", id="parts of a millisecond"),
        pytest.param(0.000002, "2µs", id="microseconds"),
        pytest.param(59.9999996, "1m0s", id="rounded up to a minute"),
        pytest.param(-1.5, "-1.5s", id="negative"),
    ],
)
def test_durations_read_as_in_go(seconds: float, text: str) -> None:
    """Messages show durations as kube-scheduler's do."""
    assert format_duration(seconds) == text
