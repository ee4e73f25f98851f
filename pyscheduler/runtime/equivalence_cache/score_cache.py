"""Cached scores of all nodes, for one equivalence class (pods that are equal for all plugins)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from pyscheduler.framework.reuse import Reuse
from pyscheduler.framework.status import MAX_SCORE
from pyscheduler.runtime.equivalence_cache.row_cache import COUNTED, FEW_ROWS, KNOWN_BYTES, MAX_KNOWN, RowCache
from pyscheduler.runtime.extension_points.arrays import score_array
from pyscheduler.runtime.extension_points.scoring import best_of, in_bounds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pyscheduler.cache.changes import Changes
    from pyscheduler.cache.view import NodeSubset, NodeView
    from pyscheduler.runtime.equivalence_cache.row_cache import CallPlugin
    from pyscheduler.runtime.extension_points.plugin_calls import PluginMethod
    from pyscheduler.runtime.extension_points.scoring import ScoreEntry

__all__ = ["ScoreCache", "is_cacheable_score"]

_MOVING: Final = (Reuse.WHILE_PODS_STAY, Reuse.WHILE_AMOUNTS_STAY, Reuse.UNTIL_FORGOTTEN)
_INT32_MAX: Final = 2**31 - 1


def is_cacheable_score(entry: ScoreEntry) -> bool:
    """Return True if the scores of a plugin can be cached: not those that depend on pods and are normalised."""
    reuse = entry.method.reuse
    if not entry.columnar or reuse is Reuse.NEVER:
        return False
    return entry.normalize is None or reuse not in _MOVING


@attrs.define(eq=False)
class _Fixed:
    """The scores of a plugin that depends on node objects only."""

    entry: ScoreEntry
    #: Before normalisation: int64[n] by row, or the score that all rows have.
    raw: NDArray[np.int64] | int = 0
    #: By `raw` where it is one number: the normalised and weighted score.
    uniform: dict[int, int] = attrs.Factory(dict)

    def replace(self, raw: NDArray[np.int64]) -> None:
        """Store the scores of all rows."""
        # A copy, because `update` changes it, and the plugin may keep the array that it returned.
        self.raw = int(raw[0]) if len(raw) and bool((raw == raw[0]).all()) else raw.copy()

    def update(self, rows: NDArray[np.int64], raw: NDArray[np.int64], size: int) -> bool:
        """Store the scores of some of `size` rows; return True if one of them is new."""
        known = self.raw
        if isinstance(known, int):
            if bool((raw == known).all()):
                return False
            known = self.raw = np.full(size, known, dtype=np.int64)
        elif bool((known[rows] == raw).all()):
            return False
        known[rows] = raw
        return True


def _raw_scores(call: CallPlugin, method: PluginMethod, nodes: NodeView | NodeSubset) -> NDArray[np.int64] | None:
    """Return int64[n]; None for an invalid answer."""
    return score_array(call(method, nodes), len(nodes))


def _weighted(call: CallPlugin, entry: ScoreEntry, scores: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Return the scores, normalised in place and weighted; None where they are invalid."""
    if entry.normalize is not None and call(entry.normalize, scores) is not None:
        return None
    return scores * entry.weight if in_bounds(scores) else None


class ScoreCache(RowCache):
    """The scores for one equivalence class. `entries` are cacheable and do not skip the class.

    It is the `Ranking` of the rows of the last `recall`.
    """

    status: Final = None

    def __init__(self, entries: Sequence[ScoreEntry]) -> None:
        super().__init__()
        self._moving = [each for each in entries if each.method.reuse in _MOVING]
        self._fixed = [_Fixed(each) for each in entries if each.method.reuse not in _MOVING]
        self._by_amounts = all(each.method.reuse is Reuse.WHILE_AMOUNTS_STAY for each in self._moving)
        most = MAX_SCORE * sum(each.weight for each in self._moving)
        self._type = np.dtype(np.int32 if most <= _INT32_MAX else np.int64)
        #: int[n]: the weighted sum of the moving scores.
        self._base: NDArray[np.signedinteger] = np.zeros(0, dtype=self._type)
        #: By amounts of a row, that sum.
        self._known: dict[bytes, int] = {}
        #: The rows of the last call, and the weighted sum of the fixed scores there: a number for all rows, plus
        #: int64[k] where they differ. `_rows` is None where they have to be added up again.
        self._rows: NDArray[np.int64] | None = None
        self._constant = 0
        self._extra: NDArray[np.int64] | None = None

    @property
    def size(self) -> int:
        """Return about how many bytes this takes."""
        size = self._base.nbytes + KNOWN_BYTES * len(self._known)
        for each in self._fixed:
            size += each.raw.nbytes if isinstance(each.raw, np.ndarray) else 0
        if self._extra is not None:
            size += self._extra.nbytes
        return size

    def recall(self, call: CallPlugin, nodes: NodeView, rows: NDArray[np.int64]) -> bool:
        """Rank `rows` by the sums of the cached scores; return False where a score cannot be cached.

        Pass the same array for equal sets of rows: it is compared by identity.
        """
        return self.sync(call, nodes) and (self._rows is rows or self._add_up(call, rows))

    @property
    def totals(self) -> NDArray[np.int64]:
        """Return int64[k]: the sums on the rows of the last call; the array is the caller's own."""
        totals = self._sums().astype(np.int64)
        if self._constant:
            totals += self._constant
        if self._extra is not None:
            totals += self._extra
        return totals

    @property
    def best(self) -> NDArray[np.int64]:
        """Return which of the rows of the last call have the highest sum, ascending."""
        sums = self._sums()
        return best_of(sums if self._extra is None else sums + self._extra)

    def _sums(self) -> NDArray[np.signedinteger]:
        """Return the sums of the moving scores on the rows of the last call."""
        rows, base = self._rows, self._base
        assert rows is not None, "no rows were ranked yet"
        return base if len(rows) == len(base) else base.take(rows)

    def _add_up(self, call: CallPlugin, rows: NDArray[np.int64]) -> bool:
        """Add up the fixed scores on `rows`."""
        constant = 0
        extra: NDArray[np.int64] | None = None
        for fixed in self._fixed:
            part = self._normal(call, fixed, rows)
            if part is None:
                return False
            if isinstance(part, int):
                constant += part
            else:
                extra = part if extra is None else extra + part
        self.growth += (extra is None) is not (self._extra is None)
        self._rows, self._constant, self._extra = rows, constant, extra
        return True

    def _normal(self, call: CallPlugin, fixed: _Fixed, rows: NDArray[np.int64]) -> NDArray[np.int64] | int | None:
        """Return the normalised and weighted scores of a plugin on `rows`."""
        raw = fixed.raw
        if not isinstance(raw, int):
            return _weighted(call, fixed.entry, raw.take(rows))
        known = fixed.uniform.get(raw)
        if known is None:
            normal = _weighted(call, fixed.entry, np.array([raw], dtype=np.int64))
            if normal is None:
                return None
            known = fixed.uniform[raw] = int(normal[0])
        return known

    def _begin(self, call: CallPlugin, nodes: NodeView) -> bool:
        self.growth += 1
        base = self._sum(call, nodes)
        if base is None:
            return False
        self._base = base.astype(self._type)
        return all(self._ask_again(call, fixed, nodes) for fixed in self._fixed)

    def _update(self, call: CallPlugin, nodes: NodeView, changes: Changes, *, node_changed: bool) -> bool:
        """Score the rows that changed; a changed node object can matter to all rows."""
        if node_changed:
            for fixed in self._fixed:
                if fixed.entry.method.reuse is Reuse.WHILE_NODES_STAY:
                    if not self._ask_again(call, fixed, nodes):
                        return False
                elif len(changes.nodes):
                    raw = _raw_scores(call, fixed.entry.method, nodes.take(changes.nodes))
                    if raw is None:
                        return False
                    if fixed.update(changes.nodes, raw, len(nodes)):
                        self._rows = None
        rows = changes.rows
        if not self._moving:
            return True
        if len(rows) <= FEW_ROWS and self._by_amounts:
            return self._look_up(call, nodes, rows.tolist())
        base = self._sum(call, nodes.take(rows))
        if base is not None:
            self._base[rows] = base
        return base is not None

    def _ask_again(self, call: CallPlugin, fixed: _Fixed, nodes: NodeView) -> bool:
        raw = _raw_scores(call, fixed.entry.method, nodes)
        if raw is not None:
            fixed.replace(raw)
            self._rows = None
        return raw is not None

    def _look_up(self, call: CallPlugin, nodes: NodeView, rows: Sequence[int]) -> bool:
        """Set the sums of rows; equally full nodes share one sum."""
        known, base = self._known, self._base
        keys = [nodes.amounts(row) for row in rows]
        scores = [known.get(key) for key in keys]
        if None in scores:
            new = {key: row for key, row, score in zip(keys, rows, scores, strict=True) if score is None}
            answer = self._sum(call, nodes.take(np.array([*new.values()], dtype=np.int64)))
            if answer is None:
                return False
            if len(known) >= MAX_KNOWN:
                known.clear()
            learned = dict(zip(new, answer.tolist(), strict=True))
            self.growth += (len(known) + len(learned)) // COUNTED != len(known) // COUNTED
            known.update(learned)
            scores = [learned[key] if score is None else score for key, score in zip(keys, scores, strict=True)]
        for row, score in zip(rows, scores, strict=True):
            assert score is not None, "every row has a score by now"
            base[row] = score
        return True

    def _sum(self, call: CallPlugin, nodes: NodeView | NodeSubset) -> NDArray[np.int64] | None:
        """Return int64[n]: the weighted sum of the moving scores; None where one is invalid."""
        total = np.zeros(len(nodes), dtype=np.int64)
        for entry in self._moving:
            scores = _raw_scores(call, entry.method, nodes)
            if scores is None or not in_bounds(scores):
                return None
            total += scores * entry.weight
        return total
