"""The value of a property, such as the priority, for each job. Equal values are stored once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

__all__ = ["SharedValues"]

_T = TypeVar("_T", bound="Hashable")


class SharedValues(Generic[_T]):
    """The values of jobs; iterate over the different ones in the order in which they came."""

    __slots__ = ("_of", "_users", "_values")

    def __init__(self) -> None:
        #: By uid of a job.
        self._of: dict[str, _T] = {}
        self._users: dict[_T, int] = {}
        self._values: dict[_T, _T] = {}

    def __iter__(self) -> Iterator[_T]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, value: object) -> bool:
        return value in self._values

    def users(self) -> Mapping[_T, int]:
        """Return the different values, each with how many jobs have it."""
        return self._users

    def put(self, uid: str, value: _T | None) -> _T | None:
        """Set the value of a job, None for none; return the one that it had."""
        old = self._of.pop(uid, None)
        if old is not None:
            self._users[old] -= 1
            if not self._users[old]:
                del self._users[old], self._values[old]
        if value is not None:
            self._users[value] = self._users.get(value, 0) + 1
            self._of[uid] = self._values.setdefault(value, value)
        return old
