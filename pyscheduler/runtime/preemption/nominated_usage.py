"""Which nodes are usage to other pods, in columns, for a search for victims.

Pods that were nominated to a node have to fit on it beside the preemptor if they come before it. What they take counts,
and not who they are, as long as amounts are all that is in question.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import attrs
import numpy as np

from pyscheduler.cache.nominated_rows import before
from pyscheduler.runtime.preemption.node_shapes import request_key

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import Pod
    from pyscheduler.cache.nominated_rows import Mark, NominatedRows
    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.framework.snapshot import Snapshot

__all__ = ["NominatedUsage", "NominatedUsages"]

#: What the pods of a crowd take, each.
_Requests: TypeAlias = "tuple[Hashable, ...]"

#: For so many priorities numbers are kept, and so many different crowds.
_MAX_PRIORITIES: Final = 4
_MAX_CROWDS: Final = 2**16


@attrs.frozen
class NominatedUsage:
    """What one preemptor finds usage to others."""

    pods: Mapping[int, Sequence[PodInfo]]
    #: int32[n] by row: the number of what the pods there take, 0 for nobody; None where nothing is usage at all.
    by_row: NDArray[np.int32] | None
    table: Sequence[_Requests]
    #: Where the queue's nominations are all there is: what is kept of them, and as of when.
    source: tuple[NominatedRows, Mark] | None = None

    @classmethod
    def once(cls, snapshot: Snapshot, pod: Pod) -> NominatedUsage:
        """Look at all nominations, those of statements among them."""
        found = ((snapshot.nodes.index(name), name) for name in snapshot.nominated_nodes)
        pods = {
            row: ahead
            for row, name in found
            if row is not None and (ahead := before(snapshot.nominated_pods(name), pod))
        }
        if not pods:
            return cls(pods, None, ())
        by_row = np.zeros(len(snapshot.nodes), dtype=np.int32)
        by_row[list(pods)] = np.arange(1, len(pods) + 1)
        return cls(pods, by_row, [(), *map(_requests, pods.values())])

    @property
    def is_current(self) -> bool:
        """Tell whether all is as it was, as far as the queue is concerned."""
        if self.source is None:
            return True
        nominated, mark = self.source
        nominated.sync()
        return nominated.since(mark) == []

    def numbers(self, rows: NDArray[np.int64]) -> NDArray[np.int32] | None:
        """Return int32[k]: the number of the crowd of each row; None where there is none anywhere."""
        return self.by_row[rows] if self.by_row is not None else None

    def requests(self, number: int) -> _Requests:
        """Return what the pods of a crowd take."""
        return self.table[number] if number else ()

    def crowd(self, row: int) -> tuple[tuple[str, Hashable], ...]:
        """Return the pods that come to a row, by uid, and what they take."""
        return tuple((info.pod.uid, request_key(info)) for info in self.pods.get(row, ()))


@attrs.define(eq=False)
class _Known:
    """The numbers for one priority as of a moment in the nominations' history."""

    mark: Mark
    by_row: NDArray[np.int32]


class NominatedUsages:
    """Numbers for crowds, by row and priority, kept as nominations change."""

    __slots__ = ("_by_priority", "_numbers", "_table")

    def __init__(self) -> None:
        self._by_priority: dict[int, _Known] = {}
        self._table: list[_Requests] = [()]
        self._numbers: dict[_Requests, int] = {(): 0}

    def before(self, nominated: NominatedRows, num_nodes: int, pod: Pod) -> NominatedUsage:
        """Return what is usage to others than `pod`, for whose priority `nominated` is."""
        source = (nominated, nominated.mark)
        if not nominated.pods:
            return NominatedUsage(nominated.pods, None, (), source)
        by_row = self._sync(nominated, num_nodes)
        others = nominated.others_than(pod.uid)
        own = nominated.row_of(pod.uid)
        if own is not None:
            by_row = by_row.copy()
            by_row[own] = self._number(others.get(own, ()))
        return NominatedUsage(others, by_row, self._table, source)

    def _sync(self, nominated: NominatedRows, num_nodes: int) -> NDArray[np.int32]:
        if len(self._table) > _MAX_CROWDS:
            self._by_priority.clear()
            self._table, self._numbers = [()], {(): 0}
        known = self._by_priority.pop(nominated.priority, None)
        rows: Iterable[int] | None = nominated.since(known.mark) if known is not None else None
        if known is None or rows is None:
            known, rows = _Known(nominated.mark, np.zeros(num_nodes, dtype=np.int32)), nominated.pods
        for row in rows:
            known.by_row[row] = self._number(nominated.pods.get(row, ()))
        known.mark = nominated.mark
        if len(self._by_priority) >= _MAX_PRIORITIES:
            del self._by_priority[next(iter(self._by_priority))]
        self._by_priority[nominated.priority] = known
        return known.by_row

    def _number(self, infos: Sequence[PodInfo]) -> int:
        requests = _requests(infos)
        number = self._numbers.get(requests)
        if number is None:
            number = self._numbers[requests] = len(self._table)
            self._table.append(requests)
        return number


def _requests(infos: Iterable[PodInfo]) -> _Requests:
    return tuple(request_key(info) for info in infos)
