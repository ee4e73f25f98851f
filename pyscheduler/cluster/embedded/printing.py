"""What printers share: columns, ages, and the words for nothing and for not known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.api.errors import DecodeError
from pyscheduler.api.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyscheduler.cluster.embedded.store import Object

__all__ = ["NONE", "UNKNOWN", "Column", "age", "age_of", "definitions", "human_duration"]

NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_YEAR: Final = 365 * _DAY


@attrs.frozen
class Column:
    """One column of a table; `priority` 1 shows only in wide output."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


def definitions(columns: Iterable[Column]) -> list[Object]:
    """Return columns as a Table carries them."""
    return [attrs.asdict(column) for column in columns]


def age_of(obj: Object, now: float) -> str:
    """Return how long ago an object was created, as people read it."""
    created = obj["metadata"].get("creationTimestamp")
    return age(created, now) if created else UNKNOWN


def age(timestamp: str, now: float) -> str:
    """Return how long ago a wire time was."""
    try:
        return human_duration(now - parse_time(timestamp))
    except DecodeError:
        return UNKNOWN


def human_duration(seconds: float) -> str:
    """Return a duration with two or three significant digits, in the units `kubectl` shows."""
    total = int(seconds)
    if total < -1:
        return "<invalid>"
    if total < 0:
        return "0s"
    if total < 2 * _MINUTE:
        return f"{total}s"
    if total < 10 * _MINUTE:
        return _two(total, _MINUTE, "m", 1, "s")
    if total < 3 * _HOUR:
        return f"{total // _MINUTE}m"
    if total < 8 * _HOUR:
        return _two(total, _HOUR, "h", _MINUTE, "m")
    if total < 2 * _DAY:
        return f"{total // _HOUR}h"
    if total < 8 * _DAY:
        return _two(total, _DAY, "d", _HOUR, "h")
    if total < 2 * _YEAR:
        return f"{total // _DAY}d"
    if total < 8 * _YEAR:
        return _two(total, _YEAR, "y", _DAY, "d")
    return f"{total // _YEAR}y"


def _two(total: int, large: int, large_name: str, small: int, small_name: str) -> str:
    rest = total % large // small
    whole = f"{total // large}{large_name}"
    return f"{whole}{rest}{small_name}" if rest else whole
