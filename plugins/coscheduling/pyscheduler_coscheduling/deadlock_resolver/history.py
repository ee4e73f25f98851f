"""Decide whether a pod that failed is retried after other pods released nodes.

A released node can help only if it was occupied when the pod failed. Without this rule, two groups could cause each
other's retries for ever.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = ["News", "Releases"]

#: How many entries are kept; a member that failed before the oldest of them may always fit now.
_MOST_ENTRIES: Final = 512


@attrs.define
class _Release:
    """Room that one group gave back, without an attempt of any member in between."""

    #: The number of the last node given back.
    at: int
    #: The smallest number at which one of these nodes was taken; 0 for room that nobody had taken.
    taken: int
    by: Hashable | None


@attrs.frozen
class News:
    """The room that other groups gave back, as one group sees it."""

    floor: int
    numbers: list[int]
    #: By position: the smallest `taken` from that position on.
    earliest: list[int]

    def since(self, number: int) -> bool:
        """Return True if room may have appeared since a failure at `number`."""
        if number < self.floor:
            return True
        first = bisect_right(self.numbers, number)
        return first < len(self.numbers) and self.earliest[first] < number


class Releases:
    """The history of one scheduler."""

    def __init__(self) -> None:
        self._number = 0
        self._entries: list[_Release] = []
        self._floor = 0
        self._last_try = 0
        self._taken: dict[str, int] = {}
        self._tried: dict[str, int] = {}
        #: How often room may have appeared for a reason other than a rollback by a group plugin.
        self.external = 0

    def took(self, uid: str) -> None:
        """Record that a pod holds a node in memory."""
        self._number += 1
        self._taken.setdefault(uid, self._number)

    def gave_back(self, uid: str, *, by: Hashable | None = None, external: bool) -> bool:
        """Record that a pod gave its node back (`by` its group if in a rollback); return False if it held none."""
        taken = self._taken.pop(uid, None)
        if taken is None:
            return False
        self._release(taken, by)
        self.external += external
        return True

    def appeared(self) -> None:
        """Record that room may have appeared: a bound pod is gone, a node came or changed."""
        self._release(0, None)
        self.external += 1

    def bound(self, uid: str) -> None:
        """Record that a pod is bound: it does not give its node back any more."""
        self._taken.pop(uid, None)

    def tried(self, uid: str) -> None:
        """Record that a member is tried now; if it finds no node, it failed at this number."""
        self._number += 1
        self._tried[uid] = self._last_try = self._number

    def tried_at(self, uid: str) -> int | None:
        """Return the number of a member's last attempt; None without one."""
        return self._tried.get(uid)

    def forget(self, uid: str) -> None:
        """Forget the attempts of a pod that is gone; it may still give its node back."""
        self._tried.pop(uid, None)

    def news_for(self, group: Hashable) -> News:
        """Return the room that others than `group` gave back."""
        entries = [entry for entry in self._entries if entry.by is None or entry.by != group]
        earliest: list[int] = []
        least = self._number + 1
        for entry in reversed(entries):
            least = min(least, entry.taken)
            earliest.append(least)
        return News(self._floor, [entry.at for entry in entries], earliest[::-1])

    def _release(self, taken: int, by: Hashable | None) -> None:
        self._number += 1
        last = self._entries[-1] if self._entries else None
        if last is not None and last.by == by and last.at > self._last_try:
            last.at, last.taken = self._number, min(last.taken, taken)
            return
        if by is None and taken == 0:
            # This may help every member that failed up to now, so earlier entries do not matter.
            self._entries.clear()
        self._entries.append(_Release(self._number, taken, by))
        if len(self._entries) > _MOST_ENTRIES:
            half = len(self._entries) // 2
            self._floor = self._entries[half - 1].at
            del self._entries[:half]
