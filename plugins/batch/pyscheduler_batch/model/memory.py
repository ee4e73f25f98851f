"""The data that a batch profile keeps from one scheduling round to the next.

`Memory` notes which jobs changed, so that only these jobs are read again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Kept", "Memory"]

_K = TypeVar("_K", bound="Kept")


class Kept:
    """The base of what is kept."""

    def __init__(self) -> None:
        #: In order, so that runs can be repeated.
        self._changed: dict[str, None] = {}

    def note(self, uid: str) -> None:
        """Take notice that a job changed."""
        self._changed[uid] = None

    def changed(self) -> Iterator[str]:
        """Return the uids of the jobs that changed, each once, and forget them one by one; some may be gone."""
        while self._changed:
            for uid in [*self._changed]:
                if uid in self._changed:
                    del self._changed[uid]
                    yield uid


class Memory:
    """The memory of one profile."""

    def __init__(self) -> None:
        self._kept: dict[type[Kept], Kept] = {}

    def get(self, kind: type[_K], make: Callable[[], _K]) -> _K:
        """Return what is kept of a kind; if there is nothing yet, what `make` returns."""
        found = self._kept.get(kind)
        if found is None:
            found = self._kept[kind] = make()
        assert isinstance(found, kind), "kept by its type"
        return found

    def note(self, uid: str) -> None:
        """Take notice that a job was built anew, moved by a pass, or is gone."""
        for each in self._kept.values():
            each.note(uid)

    def forget(self) -> None:
        """Forget everything."""
        self._kept.clear()
