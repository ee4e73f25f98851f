"""When room may have appeared, and who was tried when: what tells a member that may fit now from one that cannot.

Everything is numbered in one line: a node taken in memory, a node given back, a member tried. Room that was given back
is news to a member that failed before, but only if it was taken before that failure: what was taken and given back
after it leaves the cluster as the member found it. Without that, two groups that cannot be placed would be news to each
other for ever, by their own rollbacks, and nothing would ever count as at rest.

Differs from the recommended algorithm, in which any reservation that is given back is news to everybody.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = ["News", "Releases"]

#: So many entries are kept; whatever failed before the oldest of them may always fit now.
_MOST_ENTRIES: Final = 512


@attrs.define
class _Release:
    """Room given back by one group, in one go: between the first and the last of it nobody was tried."""

    #: Number of the last of it.
    at: int
    #: The smallest number at which something of it had been taken; 0 for what was there from the beginning.
    taken: int
    by: Hashable | None


@attrs.frozen
class News:
    """What was given back, as one group is to see it: what it gave back itself is no news to it."""

    floor: int
    numbers: list[int]
    #: By position: the smallest `taken` from there on.
    earliest: list[int]

    def since(self, number: int) -> bool:
        """Tell whether room may have appeared since something failed at `number`."""
        if number < self.floor:
            return True
        first = bisect_right(self.numbers, number)
        return first < len(self.numbers) and self.earliest[first] < number


class Releases:
    """The line of events of one scheduler."""

    def __init__(self) -> None:
        self._number = 0
        self._entries: list[_Release] = []
        self._floor = 0
        self._last_try = 0
        self._taken: dict[str, int] = {}
        self._tried: dict[str, int] = {}
        #: How often room may have appeared from outside: not by what a group plugin took back itself.
        self.external = 0

    def took(self, uid: str) -> None:
        """Note that a pod holds a node in memory."""
        self._number += 1
        self._taken.setdefault(uid, self._number)

    def gave_back(self, uid: str, *, by: Hashable | None = None, external: bool) -> bool:
        """Note that a pod gave its node back: `by` is its group where that was a rollback; False if it held none."""
        taken = self._taken.pop(uid, None)
        if taken is None:
            return False
        self._release(taken, by)
        self.external += external
        return True

    def appeared(self) -> None:
        """Note that room may have appeared from outside: a bound pod is gone, a node came or was changed."""
        self._release(0, None)
        self.external += 1

    def bound(self, uid: str) -> None:
        """Note that a pod holds its node in the API: it is not given back any more."""
        self._taken.pop(uid, None)

    def tried(self, uid: str) -> None:
        """Note that a member is tried now; whoever does not find a node failed at this number."""
        self._number += 1
        self._tried[uid] = self._last_try = self._number

    def tried_at(self, uid: str) -> int | None:
        """Return when a member was tried last; None for one that was not."""
        return self._tried.get(uid)

    def forget(self, uid: str) -> None:
        """Drop when a pod was tried that is gone; what it holds it gives back by and by."""
        self._tried.pop(uid, None)

    def news_for(self, group: Hashable) -> News:
        """Return what was given back by others than `group`."""
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
            # News to everybody who failed up to now; what came before adds nothing to that.
            self._entries.clear()
        self._entries.append(_Release(self._number, taken, by))
        if len(self._entries) > _MOST_ENTRIES:
            half = len(self._entries) // 2
            self._floor = self._entries[half - 1].at
            del self._entries[:half]
