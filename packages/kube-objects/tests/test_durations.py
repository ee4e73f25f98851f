"""Durations are read and written as Go does."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from kube_objects.durations import format_duration, parse_duration

HOUR = 3600


@pytest.mark.parametrize(
    ("text", "seconds", "shown"),
    [
        pytest.param(text, seconds, shown, id=text)
        for text, seconds, shown in [
            ("0", 0, "0s"),
            ("-0s", 0, "0s"),
            ("15s", 15, "15s"),
            ("1m30s", 90, "1m30s"),
            ("90s", 90, "1m30s"),
            ("10m", 600, "10m0s"),
            ("1h", HOUR, "1h0m0s"),
            ("36h5s", 36 * HOUR + 5, "36h0m5s"),
            ("1.5s", 1.5, "1.5s"),
            (".5m", 30, "30s"),
            ("100ms", 0.1, "100ms"),
            ("1500ms", 1.5, "1.5s"),
            ("2us", 2e-6, "2µs"),
            ("2µs", 2e-6, "2µs"),
            ("2μs", 2e-6, "2µs"),
            ("7ns", 7e-9, "7ns"),
            ("1.25ms", 0.00125, "1.25ms"),
            ("-2s", -2, "-2s"),
            ("+2s", 2, "2s"),
            ("1h2m3.004005006s", HOUR + 123.004005006, "1h2m3.004005006s"),
        ]
    ],
)
def test_durations_are_read_and_shown(text: str, seconds: float, shown: str) -> None:
    """What Go reads is read to the same number of seconds, and shown as Go shows it."""
    assert parse_duration(text) == seconds
    assert format_duration(seconds) == shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", 'time: invalid duration ""', id="empty"),
        pytest.param("-", 'time: invalid duration "-"', id="sign only"),
        pytest.param("15", 'time: missing unit in duration "15"', id="no unit"),
        pytest.param("5d", 'time: unknown unit "d" in duration "5d"', id="days"),
        pytest.param("s", 'time: invalid duration "s"', id="no number"),
        pytest.param(".s", 'time: invalid duration ".s"', id="a point only"),
        pytest.param("1 s", 'time: unknown unit " s" in duration "1 s"', id="a space"),
        pytest.param("1s30", 'time: missing unit in duration "1s30"', id="a unit missing at the end"),
        pytest.param("٣s", 'time: invalid duration "٣s"', id="other digits"),
        pytest.param("2562048h", 'time: invalid duration "2562048h"', id="longer than Go can hold"),
    ],
)
def test_what_is_no_duration_is_refused_in_go_s_words(text: str, message: str) -> None:
    """The message is Go's."""
    with pytest.raises(ValueError, match="time: ") as caught:
        parse_duration(text)
    assert str(caught.value) == message


@given(st.integers(min_value=-(2**63) + 1, max_value=2**63 - 1))
def test_shown_durations_read_back(nanoseconds: int) -> None:
    """Whatever seconds a configuration holds, showing and reading gives the same."""
    seconds = nanoseconds / 10**9
    if abs(round(seconds * 10**9)) < 2**63 - 1024:  # a float just below the longest may be just above it
        assert parse_duration(format_duration(seconds)) == seconds
