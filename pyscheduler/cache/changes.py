"""Record which nodes of a snapshot changed. Each node is a row of the snapshot's arrays.

A cache with data for each row asks which rows changed, and updates only these rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ChangeLog", "Changes"]

#: So many changes are listed at least.
_LISTED: Final = 64
_NO_ROWS: Final[NDArray[np.int64]] = np.empty(0, dtype=np.int64)
_NO_ROWS.flags.writeable = False


class Changes(NamedTuple):
    """Rows (int64), each once: those whose node object is another, and those of which only the pods changed."""

    nodes: NDArray[np.int64]
    pods: NDArray[np.int64]

    @property
    def rows(self) -> NDArray[np.int64]:
        """Return all of them."""
        return np.concatenate((self.nodes, self.pods)) if len(self.nodes) else self.pods


class ChangeLog:
    """Rows as they change.

    `position` is the number of changes so far. `node_version` grows whenever some node object is replaced, comes or
    goes; `epoch` whenever a node comes, goes or takes another row: positions from before mean nothing then.
    """

    __slots__ = (
        "_answer",
        "_last",
        "_last_node",
        "_node_touched",
        "_start",
        "_touched",
        "epoch",
        "node_version",
        "position",
    )

    def __init__(self, capacity: int) -> None:
        #: Rows; where the node object changed, the row's complement, which is negative. The first is at `_start`.
        self._last: list[int] = []
        self._start = 0
        #: What was said last, with the position since which: whoever follows the log asks the same in the same cycle.
        self._answer: tuple[int, Changes] | None = None
        #: int64 by row: the position after its last change, and after the last of its node object.
        self._touched: NDArray[np.int64] = np.zeros(capacity, dtype=np.int64)
        self._node_touched: NDArray[np.int64] = np.zeros(capacity, dtype=np.int64)
        #: The position after the last change of any node object.
        self._last_node = 0
        self.position = 0
        self.node_version = 0
        self.epoch = 0

    def note_pods(self, row: int) -> None:
        """Note that pods came to a row, went, or were put back."""
        self._note(row, row)

    def note_node(self, row: int) -> None:
        """Note that a row has another node object, and maybe other pods, too."""
        self.node_version += 1
        self._node_touched[row] = self._last_node = self.position + 1
        self._note(row, ~row)

    def begin_epoch(self) -> None:
        """Note that rows came, went or were moved."""
        self.epoch += 1
        self.node_version += 1
        self._answer = None

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` nodes; an epoch follows."""
        self._touched = np.zeros(capacity, dtype=np.int64)
        self._node_touched = np.zeros(capacity, dtype=np.int64)

    def since(self, position: int) -> Changes:
        """Return what changed since `position`, which is one of this epoch. The arrays are not to be written to."""
        answer = self._answer
        if answer is None or answer[0] != position:
            answer = self._answer = (position, self._since(position))
        return answer[1]

    def _since(self, position: int) -> Changes:
        if position < self._start:
            touched = self._touched > position
            if position >= self._last_node:
                return Changes(_NO_ROWS, touched.nonzero()[0])
            nodes = self._node_touched > position
            return Changes(nodes.nonzero()[0], (touched & ~nodes).nonzero()[0])
        last = self._last[position - self._start :]
        if len(last) == 1 and last[0] >= 0:
            # A pod that was placed, as a rule.
            return Changes(_NO_ROWS, np.array(last, dtype=np.int64))
        rows = set(last)
        changed = {~row for row in rows if row < 0}
        return Changes(_array(changed), _array({row for row in rows if row >= 0} - changed))

    def _note(self, row: int, entry: int) -> None:
        last = self._last
        last.append(entry)
        self._answer = None
        self.position += 1
        self._touched[row] = self.position
        if len(last) > 2 * _LISTED:
            self._start += len(last) - _LISTED
            del last[:-_LISTED]

    def check_invariants(self) -> None:
        """Raise AssertionError unless positions and entries agree."""
        assert self._start + len(self._last) == self.position, "positions and entries differ"
        assert len(self._last) <= 2 * _LISTED, "too many changes are listed"
        assert self._touched.max(initial=0) <= self.position, "a row changed in the future"
        assert (self._node_touched <= self._touched).all(), "a node changed, and its row did not"
        assert self._node_touched.max(initial=0) <= self._last_node <= self.position, "a node changed unnoticed"


def _array(rows: set[int]) -> NDArray[np.int64]:
    return np.array(sorted(rows), dtype=np.int64)
