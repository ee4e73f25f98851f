"""The results of filters on each node, for one equivalence class (pods that are equal for all plugins).

A filter runs again for a node only after a change that can matter to this filter, such as a new pod on the node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from pyscheduler.framework.node_statuses import NodeStatuses
from pyscheduler.framework.reuse import Reuse
from pyscheduler.framework.status import Code, Status
from pyscheduler.runtime.equivalence_cache.row_cache import COUNTED, FEW_ROWS, KNOWN_BYTES, MAX_KNOWN, RowCache
from pyscheduler.runtime.extension_points.arrays import statuses_problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pyscheduler.cache.changes import Changes
    from pyscheduler.cache.view import NodeSubset, NodeView
    from pyscheduler.runtime.equivalence_cache.row_cache import CallPlugin
    from pyscheduler.runtime.extension_points.plugin_calls import PluginMethod

__all__ = ["FilterCache", "is_cacheable"]

_MOVING: Final = (Reuse.WHILE_PODS_STAY, Reuse.WHILE_AMOUNTS_STAY, Reuse.UNTIL_FORGOTTEN)
_CACHEABLE: Final = (Reuse.WHILE_NODE_STAYS, *_MOVING)
#: The position of a pass: behind all plugins.
_NOBODY: Final = 2**15 - 1


def _is_lasting(status: Status) -> bool:
    """Return True for a rejection that says the same later; seconds until a retry are counted from now."""
    return status.is_rejected and status.retry_after_seconds is None


def is_cacheable(method: PluginMethod) -> bool:
    """Return True if the answers of a columnar filter can be cached."""
    return method.reuse in _CACHEABLE


class FilterCache(RowCache):
    """The rejections for one equivalence class; `methods`, by position in the profile, do not skip the class."""

    def __init__(self, methods: Sequence[tuple[int, PluginMethod]]) -> None:
        super().__init__()
        self.methods = methods
        self._fixed = [each for each in methods if each[1].reuse not in _MOVING]
        self._moving = [each for each in methods if each[1].reuse in _MOVING]
        self._by_amounts = all(method.reuse is Reuse.WHILE_AMOUNTS_STAY for _, method in self._moving)
        #: By id of a rejection: its status, its plugin's position, on how many rows it is the first. Id 0 is a pass.
        self._statuses: list[Status] = [Status(Code.SUCCESS)]
        self._positions: list[int] = [_NOBODY]
        self._counts: NDArray[np.int64] = np.zeros(1, dtype=np.int64)
        self._index: dict[tuple[int, Status], int] = {}
        #: int16[n]: the first rejection of each row; separately of fixed and moving filters, where both reject some.
        self._ids: NDArray[np.int16] = np.zeros(0, dtype=np.int16)
        self._fixed_ids: NDArray[np.int16] | None = None
        self._moving_ids: NDArray[np.int16] | None = None
        #: By amounts of a row, the answer of the moving filters.
        self._known: dict[bytes, int] = {}
        self._rows: NDArray[np.int64] | None = None
        self._whole: NodeStatuses | None = None
        #: How many rows pass all filters, and by position of a filter how many rows it is the first to reject.
        self.passed = 0
        self.rejections: dict[int, int] = {}

    @property
    def size(self) -> int:
        """Return about how many bytes this takes."""
        arrays = (self._ids, self._fixed_ids, self._moving_ids)
        return sum(array.nbytes for array in arrays if array is not None) + KNOWN_BYTES * len(self._known)

    def rows(self) -> NDArray[np.int64]:
        """Return int64[k]: the rows that pass, ascending; the same array until they change."""
        rows = self._rows
        if rows is None:
            rows = np.flatnonzero(self._ids == 0) if self.passed < len(self._ids) else np.arange(self.passed)
            rows.flags.writeable = False
            self._rows = rows
        return rows

    def rejected_by(self, position: int) -> NDArray[np.bool_]:
        """Return bool[n]: the rows that the filter at that position is the first to reject."""
        rejected: NDArray[np.bool_] = (np.array(self._positions) == position)[self._ids]
        return rejected

    def statuses(self, nodes: NodeView) -> NodeStatuses:
        """Return the rejections as statuses of their plugins, to be read by names of `nodes`."""
        if self._whole is None:
            self._whole = self._made(self._ids)
        made, whole = NodeStatuses(0), self._whole
        made.codes, made.reason_ids, made.table = whole.codes, whole.reason_ids, whole.table
        made.bind_names(nodes.name, nodes.index)
        return made.share(whole.counts())

    def statuses_by(self, position: int) -> NodeStatuses:
        """Return the rejections of the filter at that position."""
        return self._made(np.where(self.rejected_by(position), self._ids, 0))

    def _made(self, ids: NDArray[np.int16]) -> NodeStatuses:
        made = NodeStatuses(0)
        made.codes = np.array([status.code for status in self._statuses], dtype=np.int8)[ids]
        made.reason_ids = ids.astype(np.int32)
        made.codes.flags.writeable = made.reason_ids.flags.writeable = False
        made.table = list(self._statuses)
        return made.share()

    def _begin(self, call: CallPlugin, nodes: NodeView) -> bool:
        self.growth += 1
        fixed, moving = self._ask(call, self._fixed, nodes), self._ask(call, self._moving, nodes)
        if fixed is None or moving is None:
            return False
        if fixed.any():
            self._fixed_ids, self._moving_ids = fixed, moving
            self._ids = self._first(fixed, moving)
        else:
            self._fixed_ids = self._moving_ids = None
            self._ids = moving
        self._counts = np.bincount(self._ids, minlength=len(self._statuses))
        self._changed(rows_too=True)
        return True

    def _update(self, call: CallPlugin, nodes: NodeView, changes: Changes, *, node_changed: bool) -> bool:  # noqa: ARG002 - scores use it
        if len(changes.nodes) and self._fixed:
            fixed = self._ask(call, self._fixed, nodes.take(changes.nodes))
            if fixed is None:
                return False
            if self._fixed_ids is None and fixed.any():
                self._fixed_ids = np.zeros(len(self._ids), dtype=np.int16)
                self._moving_ids = self._ids.copy()
            if self._fixed_ids is not None:
                self._fixed_ids[changes.nodes] = fixed
        rows = changes.rows
        if len(rows) <= FEW_ROWS and self._by_amounts:
            moving = self._look_up(call, nodes, rows.tolist())
        else:
            moving = self._ask(call, self._moving, nodes.take(rows))
        if moving is None:
            return False
        if self._fixed_ids is not None and self._moving_ids is not None:
            self._moving_ids[rows] = moving
            moving = self._first(self._fixed_ids[rows], moving)
        self._replace(rows, moving)
        return True

    def _replace(self, rows: NDArray[np.int64], ids: NDArray[np.int16]) -> None:
        before = self._ids[rows]
        if (before == ids).all():
            return
        size = len(self._statuses)
        counts = np.bincount(ids, minlength=size) - np.bincount(before, minlength=size)
        counts[: len(self._counts)] += self._counts
        self._counts = counts
        self._ids[rows] = ids
        self._changed(rows_too=bool(((before == 0) != (ids == 0)).any()))

    def _changed(self, *, rows_too: bool) -> None:
        """Drop what was derived from the rejections."""
        self.passed = int(self._counts[0])
        self.rejections = {}
        for position, count in zip(self._positions, self._counts.tolist(), strict=True):
            if count and position != _NOBODY:
                self.rejections[position] = self.rejections.get(position, 0) + count
        self._whole = None
        if rows_too:
            self._rows = None

    def _look_up(self, call: CallPlugin, nodes: NodeView, rows: Sequence[int]) -> NDArray[np.int16] | None:
        """Return the answers of the moving filters for rows; equally full nodes share one answer."""
        if not self._moving:
            return np.zeros(len(rows), dtype=np.int16)
        known = self._known
        keys = [nodes.amounts(row) for row in rows]
        new = [row for row, key in zip(rows, keys, strict=True) if key not in known]
        if new:
            answer = self._ask(call, self._moving, nodes.take(np.array(new, dtype=np.int64)))
            if answer is None:
                return None
            if len(known) >= MAX_KNOWN:
                known.clear()
                return self._look_up(call, nodes, rows)
            for row, number in zip(new, answer.tolist(), strict=True):
                known[keys[rows.index(row)]] = number
                self.growth += len(known) % COUNTED == 0
        return np.array([known[key] for key in keys], dtype=np.int16)

    def _first(self, one: NDArray[np.int16], other: NDArray[np.int16]) -> NDArray[np.int16]:
        """Return, row by row, the rejection of the filter that comes first."""
        positions = np.array(self._positions)
        first: NDArray[np.int16] = np.where(positions[one] < positions[other], one, other)
        return first

    def _ask(
        self, call: CallPlugin, methods: Sequence[tuple[int, PluginMethod]], nodes: NodeView | NodeSubset
    ) -> NDArray[np.int16] | None:
        """Return int16[n]: the first rejection of each row; None where an answer cannot be cached."""
        ids = np.zeros(len(nodes), dtype=np.int16)
        for position, method in methods:
            answer = call(method, nodes)
            if answer is None:
                continue
            # Whoever asks without the cache says what is wrong.
            if not isinstance(answer, NodeStatuses):
                return None
            if not method.in_tree and statuses_problem(answer, len(nodes)):
                return None
            fresh = (answer.codes != int(Code.SUCCESS)) & (ids == 0)
            if not fresh.any():
                continue
            statuses = [status.with_plugin(method.plugin) for status in answer.table]
            if not all(map(_is_lasting, statuses[1:])) or not answer.reason_ids[fresh].all():
                return None
            numbers = [0, *(self._number(position, status) for status in statuses[1:])]
            if max(numbers) >= _NOBODY:
                return None
            ids[fresh] = np.array(numbers, dtype=np.int16)[answer.reason_ids[fresh]]
        return ids

    def _number(self, position: int, status: Status) -> int:
        """Return the id of a rejection, which is new or known."""
        known = self._index.get((position, status))
        if known is None:
            known = self._index[position, status] = len(self._statuses)
            self._statuses.append(status)
            self._positions.append(position)
        return known
