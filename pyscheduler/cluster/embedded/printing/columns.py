"""What printers share: columns and the cells under them, ages, and the words for nothing and for not known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from pyscheduler.api.errors import DecodeError
from pyscheduler.api.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyscheduler.cluster.embedded.store import Object

__all__ = [
    "AGE",
    "NAME",
    "NONE",
    "UNKNOWN",
    "Column",
    "Printer",
    "age",
    "age_of",
    "columns",
    "definitions",
    "human_duration",
]

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


NAME: Final = Column("Name", format="name", description="Name of the object, unique within its namespace.")
AGE: Final = Column("Age", description="Time since the object was created.")


@attrs.frozen
class Printer:
    """How a kind is printed: its columns, and what makes the cells of an object (at a time in seconds)."""

    columns: tuple[Column, ...]
    cells: Callable[[Object, float], list[Any]]


def columns(*names: str | Column, wide: Sequence[str] = ()) -> tuple[Column, ...]:
    """Return columns of text, and behind them those that only show in wide output."""
    first = tuple(Column(name) if isinstance(name, str) else name for name in names)
    return first + tuple(Column(name, priority=1) for name in wide)


def definitions(shown: Iterable[Column]) -> list[Object]:
    """Return columns as a Table carries them."""
    return [attrs.asdict(column) for column in shown]


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
    if total < 0:
        return "0s" if total >= -1 else "<invalid>"
    for limit, large, name, small, small_name in _SCALES:
        if total < limit:
            rest = total % large // small if small else 0
            whole = f"{total // large}{name}"
            return f"{whole}{rest}{small_name}" if rest else whole
    return f"{total // _YEAR}y"


#: Below each limit: the unit to count in, and the smaller one that is worth showing beside it.
_SCALES: Final = (
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
)
