"""Cache the answers of Filter plugins about nodes that have nominated pods.

Without the cache, each attempt would add the nominated pods to the snapshot, run the filters, and remove the pods
again.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from pyscheduler.framework.status import Code, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler.cache.nominated_rows import Mark, NominatedRows
    from pyscheduler.cache.view import NodeView
    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.runtime.extension_points.plugin_calls import PluginMethod

__all__ = ["NominatedFilterCache", "NominatedRejections"]

#: The number of priorities of a class with cached answers, and of different answers.
_MAX_PRIORITIES: Final = 4
_MAX_STATUSES: Final = 4096


@attrs.frozen
class NominatedRejections:
    """By row of the snapshot, the answer of a node with its nominated pods on it. The arrays are read-only.

    `reason_ids`: int32[n], positions in `table` of the rejections; 0 for a pass. `nominated`: bool[n], True for nodes
    with such pods.
    """

    reason_ids: NDArray[np.int32]
    nominated: NDArray[np.bool_]
    table: Sequence[Status]

    def count(self, methods: Sequence[PluginMethod], rows: NDArray[np.int64] | None) -> None:
        """Count these rows (None: all) as evaluated by each filter up to the first that rejects."""
        reason_ids = self.reason_ids if rows is None else self.reason_ids[rows]
        left = int(np.count_nonzero(self.nominated if rows is None else self.nominated[rows]))
        if not left:
            return
        rejections: Counter[str] = Counter()
        for reason, number in enumerate(np.bincount(reason_ids).tolist()):
            if reason and number:
                rejections[self.table[reason].plugin] += number
        for method in methods:
            method.evaluations += left
            left -= rejections[method.plugin]
            if not left:
                break


@attrs.define(eq=False)
class _Known:
    """The answers for pods of one priority, with the positions in the logs of nominations and nodes they belong to."""

    nominations: Mark
    reason_ids: NDArray[np.int32]
    nominated: NDArray[np.bool_]
    nodes: int = 0


class NominatedFilterCache:
    """The answers for one equivalence class. `methods`: its active filters in order, all columnar and cacheable."""

    __slots__ = ("_by_priority", "_numbers", "_table", "methods")

    def __init__(self, methods: Sequence[PluginMethod]) -> None:
        self.methods = methods
        self._by_priority: dict[int, _Known] = {}
        self._table: list[Status] = [Status(Code.SUCCESS)]
        self._numbers: dict[Status, int] = {}

    @property
    def size(self) -> int:
        """Return about how many bytes this takes."""
        return sum(known.reason_ids.nbytes + known.nominated.nbytes for known in self._by_priority.values())

    def answer(
        self,
        uid: str,
        nodes: NodeView,
        nominated: NominatedRows,
        ask: Callable[[Mapping[int, Sequence[PodInfo]]], dict[int, Status] | Status],
    ) -> NominatedRejections | Status:
        """Return the answers for the pod with that uid, whose own nomination does not count; a failure ends it.

        `ask` returns by row why nodes reject the pod with these pods on them. No evaluation is counted: see
        `NominatedRejections.count`.
        """
        evaluations = [method.evaluations for method in self.methods]
        try:
            known = self._sync(nodes, nominated, ask)
            if isinstance(known, Status):
                return known
            own = nominated.row_of(uid)
            if own is None:
                return NominatedRejections(known.reason_ids, known.nominated, self._table)
            others = nominated.without(own, uid)
            answers = ask({own: others}) if others else {}
            if isinstance(answers, Status):
                return answers
            reason_ids, is_nominated = known.reason_ids.copy(), known.nominated.copy()
            reason_ids[own], is_nominated[own] = self._number(answers.get(own)), bool(others)
            return NominatedRejections(reason_ids, is_nominated, self._table)
        finally:
            for method, number in zip(self.methods, evaluations, strict=True):
                method.evaluations = number

    def _sync(
        self,
        nodes: NodeView,
        nominated: NominatedRows,
        ask: Callable[[Mapping[int, Sequence[PodInfo]]], dict[int, Status] | Status],
    ) -> _Known | Status:
        """Bring the answers for a priority up to date: ask about rows whose nominations or pods changed."""
        log, pods = nodes.changes, nominated.pods
        if len(self._table) > _MAX_STATUSES:
            self._by_priority.clear()
            self._numbers.clear()
            self._table = self._table[:1]
        known = self._by_priority.pop(nominated.priority, None)
        renominated = nominated.since(known.nominations) if known is not None else None
        if known is None or renominated is None:
            reason_ids, is_nominated = np.zeros(len(nodes), dtype=np.int32), np.zeros(len(nodes), dtype=np.bool_)
            known = _Known(nominated.mark, reason_ids, is_nominated)
            rows = set(pods)
        else:
            rows = set(renominated)
            if known.nodes != log.position:
                rows.update(row for row in log.since(known.nodes).rows.tolist() if row in pods)
        if rows:
            unknown = {row: pods[row] for row in sorted(rows) if row in pods}
            answers = ask(unknown) if unknown else {}
            if isinstance(answers, Status):
                return answers
            for row in rows:
                known.reason_ids[row] = self._number(answers.get(row))
                known.nominated[row] = row in pods
        known.nominations = nominated.mark
        # The changes that `ask` made were rolled back.
        known.nodes = log.position
        if len(self._by_priority) >= _MAX_PRIORITIES:
            del self._by_priority[next(iter(self._by_priority))]
        self._by_priority[nominated.priority] = known
        return known

    def _number(self, status: Status | None) -> int:
        if status is None:
            return 0
        number = self._numbers.get(status)
        if number is None:
            number = self._numbers[status] = len(self._table)
            self._table.append(status)
        return number
