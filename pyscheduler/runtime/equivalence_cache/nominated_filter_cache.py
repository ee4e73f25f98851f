"""What nodes say to a kind of pod when the pods nominated to them are there already; kept until either changes.

A cluster in which many pods preempt at once has a thousand nodes with a pod on its way. Without this, each of these
pods would be put on its node in thought for every pod that is tried.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from pyscheduler.framework.status import Code, Status
from pyscheduler.runtime.equivalence_cache.filter_cache import is_kept

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler.cache.nominated_rows import Mark, NominatedRows
    from pyscheduler.cache.view import NodeView
    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.runtime.plugin_calls import PluginMethod

__all__ = ["NominatedFilterCache", "NominatedRefusals"]

#: For so many priorities of a kind answers are kept, and so many different answers.
_MAX_PRIORITIES: Final = 4
_MAX_STATUSES: Final = 4096


@attrs.frozen
class NominatedRefusals:
    """By row of the snapshot, what a node says with its nominated pods on it. Arrays are not to be written to.

    `reason_ids`: int32[n], positions in `table` of why it refuses; 0 where it does not. `nominated`: bool[n], where
    there are such pods at all.
    """

    reason_ids: NDArray[np.int32]
    nominated: NDArray[np.bool_]
    table: Sequence[Status]

    def count(self, methods: Sequence[PluginMethod], rows: NDArray[np.int64] | None) -> None:
        """Count these rows (None: all) as judged by each filter up to the first that refuses."""
        reason_ids = self.reason_ids if rows is None else self.reason_ids[rows]
        left = int(np.count_nonzero(self.nominated if rows is None else self.nominated[rows]))
        if not left:
            return
        refusals: Counter[str] = Counter()
        for reason, number in enumerate(np.bincount(reason_ids).tolist()):
            if reason and number:
                refusals[self.table[reason].plugin] += number
        for method in methods:
            method.evaluations += left
            left -= refusals[method.plugin]
            if not left:
                break


@attrs.define(eq=False)
class _Known:
    """The answers to pods of one priority, as of a moment in the nominations' history and one in the nodes'."""

    nominations: Mark
    reason_ids: NDArray[np.int32]
    nominated: NDArray[np.bool_]
    nodes: int = 0


class NominatedFilterCache:
    """The answers for one kind of pod. `methods`: the filters that take part, all of them columnar, in order."""

    __slots__ = ("_by_priority", "_numbers", "_table", "is_possible", "methods")

    def __init__(self, methods: Sequence[PluginMethod]) -> None:
        self.methods = methods
        #: Whether answers can be kept at all.
        self.is_possible = all(is_kept(method) for method in methods)
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
    ) -> NominatedRefusals | Status:
        """Return what nodes say to the pod with that uid, for whom it need not leave room; a failure ends it.

        `ask` tells by row why nodes refuse with these pods on them. Nothing is counted as judged: see
        `NominatedRefusals.count`.
        """
        evaluations = [method.evaluations for method in self.methods]
        try:
            known = self._sync(nodes, nominated, ask)
            if isinstance(known, Status):
                return known
            own = nominated.row_of(uid)
            if own is None:
                return NominatedRefusals(known.reason_ids, known.nominated, self._table)
            others = nominated.without(own, uid)
            answers = ask({own: others}) if others else {}
            if isinstance(answers, Status):
                return answers
            reason_ids, is_nominated = known.reason_ids.copy(), known.nominated.copy()
            reason_ids[own], is_nominated[own] = self._number(answers.get(own)), bool(others)
            return NominatedRefusals(reason_ids, is_nominated, self._table)
        finally:
            for method, number in zip(self.methods, evaluations, strict=True):
                method.evaluations = number

    def _sync(
        self,
        nodes: NodeView,
        nominated: NominatedRows,
        ask: Callable[[Mapping[int, Sequence[PodInfo]]], dict[int, Status] | Status],
    ) -> _Known | Status:
        """Bring the answers for a priority up to date, asking about rows where nominations, or else pods, changed."""
        log, pods = nodes.changes, nominated.pods
        if len(self._table) > _MAX_STATUSES:
            self._by_priority.clear()
            self._numbers.clear()
            self._table = self._table[:1]
        known = self._by_priority.pop(nominated.priority, None)
        renominated = nominated.since(known.nominations) if known is not None else None
        if known is None or renominated is None:
            refusals, is_nominated = np.zeros(len(nodes), dtype=np.int32), np.zeros(len(nodes), dtype=np.bool_)
            known = _Known(nominated.mark, refusals, is_nominated)
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
        # What was tried out meanwhile was taken back.
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
