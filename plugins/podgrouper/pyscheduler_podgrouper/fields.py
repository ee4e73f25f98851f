"""Read fields of objects of any kind, and check the types of their values.

A missing field is None; a value of the wrong type is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from kube_objects.errors import PySchedulerError

__all__ = [
    "MAX_INT32",
    "GroupingError",
    "boolean",
    "failing_as",
    "go_integer",
    "int32",
    "integer",
    "items",
    "mapping",
    "text",
]

_T = TypeVar("_T")
_MISSING: Final = object()
_INTEGER: Final = re.compile(r"[+-]?[0-9]+\Z", re.ASCII)
_GO_TYPES: Final = {
    bool: "bool",
    int: "int64",
    float: "float64",
    str: "string",
    list: "[]interface {}",
    dict: "map[string]interface {}",
    type(None): "<nil>",
}
MAX_INT32: Final = 2**31 - 1
_INT64: Final = 2**63


class GroupingError(PySchedulerError):
    """A pod cannot be grouped; the message becomes the note of the event `PodGrouperWarning`."""


@contextmanager
def failing_as(what: str) -> Iterator[None]:
    """Put what was being done before the message of a `GroupingError`."""
    try:
        yield
    except GroupingError as error:
        raise GroupingError(f"{what}: {error}") from error


def _find(where: object, path: tuple[str, ...]) -> Any:
    """Return the value at a path, or `_MISSING`."""
    for depth, name in enumerate(path):
        if where is None:
            return _MISSING
        if not isinstance(where, Mapping):
            raise _wrong(where, path[:depth], "map[string]interface{}")
        if name not in where:
            return _MISSING
        where = where[name]
    return where


def _wrong(value: object, path: tuple[str, ...], wanted: str) -> GroupingError:
    shown = "<nil>" if value is None else value
    found = _GO_TYPES.get(type(value), type(value).__name__)
    return GroupingError(f".{'.'.join(path)} accessor error: {shown} is of the type {found}, expected {wanted}")


def _read(where: object, path: tuple[str, ...], kind: type[_T], wanted: str) -> _T | None:
    """Return the value at a path, None if there is none; raise `GroupingError` if it is not of the kind."""
    value = _find(where, path)
    if value is _MISSING:
        return None
    if not isinstance(value, kind):
        raise _wrong(value, path, wanted)
    return value


def integer(where: object, *path: str) -> int | None:
    """Return the integer at a path; None if there is none."""
    value = _read(where, path, int, "int64")
    if value is not None and (isinstance(value, bool) or not -_INT64 <= value < _INT64):
        raise _wrong(value, path, "int64")
    return value


def text(where: object, *path: str) -> str | None:
    """Return the text at a path; None if there is none."""
    return _read(where, path, str, "string")


def boolean(where: object, *path: str) -> bool | None:
    """Return the truth value at a path; None if there is none."""
    return _read(where, path, bool, "bool")


def mapping(where: object, *path: str) -> Mapping[str, Any] | None:
    """Return the map at a path; None if there is none."""
    return _read(where, path, Mapping, "map[string]interface{}")  # type: ignore[type-abstract]  # isinstance takes it


def items(where: object, *path: str) -> list[Any] | None:
    """Return the list at a path; None if there is none."""
    return _read(where, path, list, "[]interface{}")


def go_integer(said: str) -> int | None:
    """Return the number that a text is, read as Go's `strconv.Atoi` does; None if it is none."""
    if _INTEGER.match(said) is None:
        return None
    value = int(said)
    return value if -_INT64 <= value < _INT64 else None


def int32(value: int, what: str) -> int:
    """Return a number that fits into a field of a PodGroup; raise `GroupingError` for one that does not."""
    if not -MAX_INT32 - 1 <= value <= MAX_INT32:
        raise GroupingError(f"{what} too large ({value}): exceeds int32 max value")
    return value
