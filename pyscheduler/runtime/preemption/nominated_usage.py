"""Find nodes that are alike in what their nominated pods request.

Such nodes can share one search for victims.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import attrs
import numpy as np

from pyscheduler.runtime.preemption.node_shapes import request_key

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import Pod
    from pyscheduler.cache.nominated_rows import Mark, NominatedRows
    from pyscheduler.framework.pod_info import PodInfo

__all__ = ["NominatedUsage", "NominatedUsages"]

#: What each nominated pod of a node takes.
_Requests: TypeAlias = "tuple[Hashable, ...]"

#: The number of priorities for which numbers are kept, and of different usages.
_MAX_PRIORITIES: Final = 4
_MAX_USAGES: Final = 2**16


@attrs.frozen
class NominatedUsage:
    """The nominated pods that one preemptor has to leave room for, as of a moment."""

    #: By row, without the preemptor; only rows that have some.
    pods: Mapping[int, Sequence[PodInfo]]
    #: int32[n] by row: the number of what the pods there take, 0 for no pods.
    by_row: NDArray[np.int32]
    #: What the pods of a number take.
    table: Sequence[_Requests]
    nominated: NominatedRows
    mark: Mark

    @property
    def is_current(self) -> bool:
        """Return True if no nomination has changed since."""
        self.nominated.sync()
        return self.nominated.since(self.mark) == []

    def pods_of(self, row: int) -> tuple[tuple[str, Hashable], ...]:
        """Return the pods nominated to a row, by uid, and what they take."""
        return tuple((info.pod.uid, request_key(info)) for info in self.pods.get(row, ()))


class NominatedUsages:
    """Numbers of usages, by row and priority of the preemptor, updated as nominations change."""

    __slots__ = ("_by_priority", "_numbers", "_table")

    def __init__(self) -> None:
        #: The numbers by row, as of a moment in the history of nominations.
        self._by_priority: dict[int, tuple[Mark, NDArray[np.int32]]] = {}
        self._table: list[_Requests] = [()]
        self._numbers: dict[_Requests, int] = {(): 0}

    def before(self, nominated: NominatedRows, num_nodes: int, pod: Pod) -> NominatedUsage:
        """Return the usage that `pod` has to leave room for; `nominated` are the nominated pods for its priority."""
        by_row = self._sync(nominated, num_nodes)
        others = nominated.others_than(pod.uid)
        own = nominated.row_of(pod.uid)
        if own is not None:
            by_row = by_row.copy()
            by_row[own] = self._number(others.get(own, ()))
        return NominatedUsage(others, by_row, self._table, nominated, nominated.mark)

    def _sync(self, nominated: NominatedRows, num_nodes: int) -> NDArray[np.int32]:
        if len(self._table) > _MAX_USAGES:
            self._by_priority.clear()
            self._table, self._numbers = [()], {(): 0}
        mark, by_row = self._by_priority.pop(nominated.priority, (None, None))
        rows: Iterable[int] | None = nominated.since(mark) if mark is not None else None
        if by_row is None or rows is None:
            by_row, rows = np.zeros(num_nodes, dtype=np.int32), nominated.pods
        for row in rows:
            by_row[row] = self._number(nominated.pods.get(row, ()))
        if len(self._by_priority) >= _MAX_PRIORITIES:
            del self._by_priority[next(iter(self._by_priority))]
        self._by_priority[nominated.priority] = nominated.mark, by_row
        return by_row

    def _number(self, infos: Sequence[PodInfo]) -> int:
        requests = tuple(request_key(info) for info in infos)
        number = self._numbers.get(requests)
        if number is None:
            number = self._numbers[requests] = len(self._table)
            self._table.append(requests)
        return number
