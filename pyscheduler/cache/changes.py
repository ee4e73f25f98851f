"""Which rows of a snapshot changed, in the order in which they did.

Whoever keeps something by row remembers a position here, and later asks what changed since: work then follows what
changed, not how many nodes there are. Statements and their rollbacks are changes like any other, so that nobody needs
to know of them. What happened long ago is forgotten; who asks for it begins anew.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ChangeLog", "Changes"]


class Changes(NamedTuple):
    """Rows, each once: those whose node object is another, and those of which only the pods changed."""

    nodes: list[int]
    pods: list[int]


class ChangeLog:
    """Rows as they change. `limit` is how many changes are kept at least.

    `position` is the number of changes so far. `node_version` grows whenever some node object is replaced, comes or
    goes; `epoch` whenever a node comes, goes or takes another row: positions from before mean nothing then.
    """

    __slots__ = ("_entries", "_limit", "_start", "epoch", "node_version", "position")

    def __init__(self, limit: int = 4096) -> None:
        self._limit = limit
        #: Rows; where the node object changed, the row's complement, which is negative.
        self._entries: list[int] = []
        self._start = 0
        self.position = 0
        self.node_version = 0
        self.epoch = 0

    def note_pods(self, row: int) -> None:
        """Note that pods came to a row, went, or were put back."""
        self._note(row)

    def note_node(self, row: int) -> None:
        """Note that a row has another node object, and maybe other pods, too."""
        self.node_version += 1
        self._note(~row)

    def begin_epoch(self) -> None:
        """Note that rows came, went or were moved."""
        self.epoch += 1
        self.node_version += 1
        self._entries.clear()
        self._start = self.position

    def since(self, position: int) -> Changes | None:
        """Return what changed since `position`, one of this epoch; None where that is too long ago."""
        if position < self._start:
            return None
        new = self._entries[position - self._start :]
        if len(new) == 1 and new[0] >= 0:
            return Changes([], new)
        rows = set(new)
        nodes = {~row for row in rows if row < 0}
        return Changes(sorted(nodes), sorted(row for row in rows if row >= 0 and row not in nodes))

    def _note(self, entry: int) -> None:
        entries = self._entries
        entries.append(entry)
        self.position += 1
        if len(entries) > 2 * self._limit:
            self._start += len(entries) - self._limit
            del entries[: -self._limit]

    def check_invariants(self) -> None:
        """Raise AssertionError unless positions and entries agree."""
        assert self._start + len(self._entries) == self.position, "positions and entries differ"
        assert len(self._entries) <= 2 * self._limit, "too many changes are kept"
