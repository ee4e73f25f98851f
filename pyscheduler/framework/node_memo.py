"""`NodeMemo`: caches a value that a plugin computes from the pods of a node, until the node or its pods change.

An example is the number of volumes attached to a node.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyscheduler.framework.node_info import NodeInfo
    from pyscheduler.framework.nodes import Nodes

__all__ = ["NodeMemo"]

V = TypeVar("V", bound=Hashable)

#: How many states more than twice the nodes are kept: those of what-ifs, which come again after a rollback.
_SPARE: Final = 1024


class NodeMemo(Generic[V]):
    """Values of `compute(node)` by node generation; `forget(generation)` is told of those that are dropped.

    What `compute` reads besides the `NodeInfo` may change without the generation changing: say so with `discard`.
    """

    __slots__ = ("_compute", "_forget", "_generations", "_ids", "_index", "_last", "_most", "values")

    def __init__(self, compute: Callable[[NodeInfo], V], forget: Callable[[int], object] | None = None) -> None:
        self._compute = compute
        self._forget = forget
        #: Known generations, ascending, and the id of the value of each.
        self._generations: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._ids: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        self._index: dict[V, int] = {}
        #: `values[id]` is the value; an id stays valid until the next call of `ids`.
        self.values: list[V] = []
        #: The last answer, and the generations it was for.
        self._last: tuple[NDArray[np.int64], NDArray[np.int32]] | None = None
        self._most = 0

    def __len__(self) -> int:
        return len(self._generations)

    def ids(self, nodes: Nodes) -> NDArray[np.int32]:
        """Return int32[n]: the id of each node's value, an index into `values`; not to be written to."""
        wanted = nodes.generations()
        last = self._last
        if last is not None and np.array_equal(last[0], wanted):
            return last[1]
        wanted = wanted.copy()
        self._most = max(self._most, len(wanted))
        if len(self._generations) > 2 * self._most + _SPARE:
            self._keep(wanted)
        found = self._positions(wanted)
        missing = np.flatnonzero(found < 0)
        if len(missing):
            self._learn(nodes, wanted, missing)
            found = self._positions(wanted)
        ids = self._ids[found]
        self._last = (wanted, ids)
        return ids

    def discard(self, generations: Iterable[int]) -> None:
        """Forget the values of these generations: what they were made of has changed."""
        gone = np.isin(self._generations, np.fromiter(generations, dtype=np.int64))
        if gone.any():
            self._drop(gone)

    def clear(self) -> None:
        """Forget everything."""
        self._drop(np.ones(len(self._generations), dtype=np.bool_))
        self._index.clear()
        self.values.clear()

    def _positions(self, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where each generation stands among the known ones, -1 where it is not known."""
        known = self._generations
        if not len(known):
            return np.full(len(wanted), -1, dtype=np.int64)
        found = np.searchsorted(known, wanted)
        found[found == len(known)] = 0
        found[known[found] != wanted] = -1
        return found

    def _learn(self, nodes: Nodes, wanted: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        ids = np.array([self._intern(self._compute(nodes[row])) for row in rows.tolist()], dtype=np.int32)
        new, first = np.unique(wanted[rows], return_index=True)
        where = np.searchsorted(self._generations, new)
        self._generations = np.insert(self._generations, where, new)
        self._ids = np.insert(self._ids, where, ids[first])

    def _intern(self, value: V) -> int:
        known = self._index.get(value)
        if known is None:
            known = self._index[value] = len(self.values)
            self.values.append(value)
        return known

    def _keep(self, wanted: NDArray[np.int64]) -> None:
        """Keep only what is asked about, and the values that it has."""
        self._drop(~np.isin(self._generations, wanted))
        used, inverse = np.unique(self._ids, return_inverse=True)
        self._ids = inverse.astype(np.int32)
        self.values = [self.values[each] for each in used.tolist()]
        self._index = {value: number for number, value in enumerate(self.values)}

    def _drop(self, gone: NDArray[np.bool_]) -> None:
        self._last = None
        if self._forget is not None:
            for generation in self._generations[gone].tolist():
                self._forget(generation)
        self._generations = self._generations[~gone]
        self._ids = self._ids[~gone]
