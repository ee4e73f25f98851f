"""The labels of all nodes, in one array for each label key that a plugin has read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pyscheduler.cache.amounts import grown
from pyscheduler.cache.interner import Interner
from pyscheduler.framework.nodes import LabelColumn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler.framework.node_info import NodeInfo

__all__ = ["LabelColumns"]


class _Column:
    """One key's column: an id per node, and the values by id."""

    __slots__ = ("_view", "ids", "interner")

    def __init__(self, capacity: int) -> None:
        self.ids: NDArray[np.int32] = np.zeros(capacity, dtype=np.int32)
        self.interner: Interner[str, None] = Interner(None)
        self._view: LabelColumn | None = None

    def set(self, row: int, value: str | None) -> None:
        new = self.interner.acquire(value)
        self.interner.release(int(self.ids[row]))
        self.ids[row] = new

    def view(self, num_nodes: int) -> LabelColumn:
        view = self._view
        if view is None or len(view.ids) != num_nodes:
            ids = self.ids[:num_nodes]
            ids.flags.writeable = False
            view = self._view = LabelColumn(ids=ids, values=self.interner.values, index=self.interner.index)
        return view

    def grow(self, capacity: int) -> None:
        self.ids = grown(self.ids, capacity)
        self._view = None


class LabelColumns:
    """The labels of all nodes of a snapshot. A node that goes must lose its labels through `put` first."""

    __slots__ = ("_absent", "_capacity", "_columns", "_keys")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._keys: dict[str, int] = {}
        self._columns: dict[str, _Column] = {}
        self._absent = _Column(capacity)

    def column(self, key: str, infos: Sequence[NodeInfo]) -> LabelColumn:
        """Return the column of `key` over `infos`, which are all nodes; made now where it does not exist."""
        column = self._columns.get(key)
        if column is None:
            if key not in self._keys:
                column = self._absent
            else:
                column = self._columns[key] = _Column(self._capacity)
                acquire = column.interner.acquire
                ids = [acquire(info.node.labels.get(key) if info.node is not None else None) for info in infos]
                column.ids[: len(ids)] = ids
        return column.view(len(infos))

    def put(self, row: int, old: Mapping[str, str], new: Mapping[str, str]) -> None:
        """Count a node's labels, which were `old` before."""
        for key, value in new.items():
            before = old.get(key)
            if before == value:
                continue
            if before is None:
                self._keys[key] = self._keys.get(key, 0) + 1
            column = self._columns.get(key)
            if column is not None:
                column.set(row, value)
        for key in old.keys() - new.keys():
            column = self._columns.get(key)
            if column is not None:
                column.set(row, None)
            self._keys[key] -= 1
            if self._keys[key] == 0:
                del self._keys[key]
                self._columns.pop(key, None)

    def move(self, source: int, target: int) -> None:
        """Give the labels of row `source` to row `target`, which has none by now."""
        for column in self._columns.values():
            column.ids[target] = column.ids[source]
            column.ids[source] = 0

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` nodes."""
        self._capacity = capacity
        for column in (self._absent, *self._columns.values()):
            column.grow(capacity)

    def check_invariants(self, infos: Sequence[NodeInfo]) -> None:
        """Raise AssertionError unless everything is as in `infos`."""
        labels = [info.node.labels if info.node is not None else {} for info in infos]
        keys: dict[str, int] = {}
        for each in labels:
            for key in each:
                keys[key] = keys.get(key, 0) + 1
        assert keys == self._keys, "nodes per label key"
        assert self._columns.keys() <= keys.keys(), "a column of a key that no node has"
        for key, column in self._columns.items():
            ids = column.ids.tolist()
            values = [column.interner.values[number] for number in ids[: len(infos)]]
            assert values == [each.get(key) for each in labels], f"values of label {key}"
            column.interner.check_invariants(ids)
        assert not self._absent.ids.any(), "the column of absent keys says something"
