"""A log of changed keys, such as the names of changed nodes, for readers that process only changed keys.

The log keeps the last 32,768 changed keys. A reader that is further behind gets None, and must assume that every key
changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

__all__ = ["ChangedKeys"]

K = TypeVar("K", bound="Hashable")

#: So many keys are remembered at most.
_MAX_KEYS: Final = 2**15


class ChangedKeys(Generic[K]):
    """A log of changed keys; `position` is the number of changes so far."""

    __slots__ = ("_last", "_start", "position")

    def __init__(self) -> None:
        #: By key the position after its last change; the latest change last.
        self._last: dict[K, int] = {}
        #: Of changes up to here, some are forgotten.
        self._start = 0
        self.position = 0

    def note(self, key: K) -> None:
        """Note a change."""
        self.position += 1
        last = self._last
        last.pop(key, None)
        last[key] = self.position
        if len(last) > _MAX_KEYS:
            self._start = last.pop(next(iter(last)))

    def since(self, position: int) -> Sequence[K] | None:
        """Return the keys that changed since `position`, the latest change first; None where that is forgotten."""
        if position < self._start:
            return None
        found: list[K] = []
        if position == self.position:
            return found
        for key, changed in reversed(self._last.items()):
            if changed <= position:
                break
            found.append(key)
        return found
