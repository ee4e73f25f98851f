"""Equal values as one object, as long as somebody uses them: many jobs ask for the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

__all__ = ["SharedValues"]

_T = TypeVar("_T", bound="Hashable")


class SharedValues(Generic[_T]):
    """The values in use, each with its number of users; iterate over them in the order in which they came."""

    __slots__ = ("_counts", "_values")

    def __init__(self) -> None:
        self._counts: dict[_T, int] = {}
        self._values: dict[_T, _T] = {}

    def __iter__(self) -> Iterator[_T]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, value: object) -> bool:
        return value in self._values

    def take(self, value: _T) -> _T:
        """Add a user of a value; return the object for all of them."""
        self._counts[value] = self._counts.get(value, 0) + 1
        return self._values.setdefault(value, value)

    def leave(self, value: _T) -> None:
        """Take a user of a value out; the last one ends it."""
        self._counts[value] -= 1
        if not self._counts[value]:
            del self._counts[value], self._values[value]
