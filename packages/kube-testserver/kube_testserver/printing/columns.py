"""Helpers for the columns of `kubectl get`, for example to format the age of an object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from kube_objects.errors import DecodeError
from kube_objects.times import parse_time
from kube_testserver.resources.scale import value_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kube_testserver.store import Object

__all__ = [
    "AGE",
    "NAME",
    "NONE",
    "UNKNOWN",
    "Column",
    "Field",
    "Printer",
    "age",
    "ago",
    "definitions",
    "field",
    "human_duration",
    "number",
    "printer",
    "wide",
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


@attrs.frozen
class Printer:
    """The columns of a kind, and a function that returns the cells of an object at a time (in seconds)."""

    columns: tuple[Column, ...]
    cells: Callable[[Object, float], list[Any]]


Field = tuple[Column, "Callable[[Object, float], Any]"]
"""A column, and a function that returns its cell for an object at a time (in seconds)."""


def printer(*fields: Field) -> Printer:
    """Return a printer that makes each cell by itself."""
    cells = [cell for _, cell in fields]
    return Printer(tuple(column for column, _ in fields), lambda obj, now: [cell(obj, now) for cell in cells])


def field(
    name: str, *paths: str, otherwise: Any = "", type: str = "string", convert: Callable[[Any], Any] | None = None
) -> Field:
    """Return a column of the first of `paths` that is set in an object, converted; else of `otherwise`."""
    steps = [tuple(path.split(".")) for path in paths]

    def cell(obj: Object, _now: float) -> Any:
        for path in steps:
            value = value_at(obj, path)
            if value not in (None, "", [], {}):
                return value if convert is None else convert(value)
        return otherwise

    return Column(name, type), cell


def number(name: str, path: str) -> Field:
    """Return a column of integers."""
    return field(name, path, otherwise=0, type="integer")


def ago(name: str, *paths: str, otherwise: str = UNKNOWN) -> Field:
    """Return a column of how long ago the first of `paths` that is set was."""
    column, timestamp = field(name, *paths)

    def cell(obj: Object, now: float) -> str:
        value = timestamp(obj, now)
        return age(value, now) if value else otherwise

    return column, cell


def wide(*fields: Field) -> tuple[Field, ...]:
    """Return columns that only show in wide output."""
    return tuple((attrs.evolve(column, priority=1), cell) for column, cell in fields)


def definitions(shown: Iterable[Column]) -> list[Object]:
    """Return columns as a Table carries them."""
    return [attrs.asdict(column) for column in shown]


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

NAME: Final[Field] = (
    Column("Name", format="name", description="Name of the object, unique within its namespace."),
    lambda obj, _: obj["metadata"]["name"],
)
AGE: Final[Field] = (
    Column("Age", description="Time since the object was created."),
    ago("Age", "metadata.creationTimestamp")[1],
)
