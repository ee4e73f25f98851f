"""Wire times: texts to seconds and back."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from kube_objects.errors import DecodeError
from kube_objects.times import format_micro_time, format_time, parse_time


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        pytest.param("1970-01-01T00:00:00Z", 0.0, id="epoch"),
        pytest.param("2026-11-20T09:57:47Z", 1795168667.0, id="utc"),
        pytest.param("2026-11-20T11:57:47+02:00", 1795168667.0, id="offset"),
        pytest.param("2026-11-20T09:57:47.250000Z", 1795168667.25, id="microseconds"),
        pytest.param("2026-11-20T09:57:47.250000000Z", 1795168667.25, id="nanoseconds"),
        pytest.param("2024-02-29T00:00:00Z", 1709164800.0, id="leap day"),
    ],
)
def test_times_are_seconds_since_the_epoch(text: str, seconds: float) -> None:
    """Any RFC 3339 time is read, whatever its zone and precision."""
    assert parse_time(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("2026-11-20", id="date only"),
        pytest.param("2026-11-20T09:57:47", id="no zone"),
        pytest.param("2026-11-20 09:57:47Z", id="blank"),
        pytest.param("20261120T095747Z", id="compact"),
        pytest.param("2026-02-30T09:57:47Z", id="no such day"),
        pytest.param("2026-11-20T25:57:47Z", id="no such hour"),
        pytest.param("2026-11-20T09:57:47Z\n", id="newline"),
        pytest.param("\uff12026-11-20T09:57:47Z", id="foreign digit"),
        pytest.param("yesterday", id="word"),
    ],
)
def test_anything_else_is_an_error(text: str) -> None:
    """A malformed time is reported with its text."""
    with pytest.raises(DecodeError, match="time"):
        parse_time(text)


def test_times_are_written_as_kubernetes_writes_them() -> None:
    """Metadata carries whole seconds, leases and events carry microseconds."""
    assert format_time(1795168667.999) == "2026-11-20T09:57:47Z"
    assert format_micro_time(1795168667.25) == "2026-11-20T09:57:47.250000Z"


@given(st.integers(0, 4_000_000_000_000_000).map(lambda micros: micros / 1e6))
def test_a_time_survives_the_round_trip(seconds: float) -> None:
    """What is written is read back to the microsecond."""
    assert parse_time(format_micro_time(seconds)) == pytest.approx(seconds, abs=2e-6)
    assert parse_time(format_time(seconds)) == int(seconds)
