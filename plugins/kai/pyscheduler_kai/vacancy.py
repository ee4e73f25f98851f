"""Count the free GPUs of nodes, to place tasks (pods) for which only free GPUs matter."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Final

import numpy as np

from pyscheduler_batch.contract import GPU, NO_NODE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Session, Task
    from pyscheduler_kai.placement import Placement

__all__ = ["FreeGpus", "TaskFacts", "Vacancy"]

#: With more nodes that have idle GPUs, nothing is rehearsed: each task looks at all of them.
_MOST_IDLE: Final = 64
#: Nor with more nodes that have free GPUs: then it costs more than it spares. So many, and some more for each victim.
_MOST_FREE: Final = 64
_MORE_FREE: Final = 4


class FreeGpus:
    """The free GPUs of nodes, as tasks take them: nodes with enough idle GPUs first, then the least free, then by name.

    `busy`: the free GPUs of nodes without idle ones, and the rank of the node by name; sorted. `idle`: idle GPUs, free
    GPUs and rank of the others. Free GPUs are those that are idle or being released. All are whole numbers.
    """

    def __init__(self, busy: list[tuple[float, int]], idle: list[tuple[float, float, int]]) -> None:
        self._busy, self._idle = busy, idle

    def copy(self) -> FreeGpus:
        """Return the same GPUs, to be taken by others."""
        return FreeGpus([*self._busy], [*self._idle])

    def place(self, sizes: Sequence[float]) -> int | None:
        """Place the tasks of a job one by one; if one of them finds no node, place none and return its index."""
        before = ([*self._busy], [*self._idle]) if len(sizes) > 1 else None
        for at, size in enumerate(sizes):
            if not self._place(size):
                if before is not None:
                    self._busy, self._idle = before
                return at
        return None

    def _place(self, size: float) -> bool:
        best: tuple[bool, float, int] | None = None
        chosen = -1
        for index, (idle, free, at) in enumerate(self._idle):
            if free >= size and (best is None or (idle < size, free, at) < best):
                best, chosen = (idle < size, free, at), index
        index = bisect_left(self._busy, (size, -1))
        if index < len(self._busy) and (best is None or (True, *self._busy[index]) < best):
            free, at = self._busy.pop(index)
            insort(self._busy, (free - size, at))
            return True
        if best is None:
            return False
        idle, free, at = self._idle[chosen]
        self._idle[chosen] = (idle, free - size, at)
        return True


class TaskFacts:
    """Facts about the tasks of all plans of a pass."""

    def __init__(self, session: Session, placement: Placement) -> None:
        self._session = session
        self._placement = placement
        self.column = session.axis.index.get(GPU, -1)
        #: By uid of a task whose node depends on GPUs alone, what it requests.
        self.requests: dict[str, list[float]] = {}
        #: The most that such tasks request per GPU; and bool[N]: the nodes that filters accept for all of them.
        self.per_gpu = [0.0] * len(session.axis)
        self.accepted = np.ones(len(session.nodes), dtype=np.bool_)
        #: Another number whenever one of the two has changed.
        self.version = 0
        self._sizes: dict[str, float] = {}

    def size(self, task: Task) -> float:
        """Return the GPUs of a task whose node depends on GPUs alone; 0 for others."""
        size = self._sizes.get(task.uid)
        if size is None:
            size = self._placement.gpus(task)
            is_nominated = task.pod is not None and task.pod.status.nominated_node_name
            if size <= 0 or size % 1 or is_nominated or not self._session.lasts(task):
                size = 0.0
            else:
                self._read(task, size)
            self._sizes[task.uid] = size
        return size

    def _read(self, task: Task, size: float) -> None:
        request = self.requests[task.uid] = task.request.tolist()
        per_gpu = [max(known, amount / size) for known, amount in zip(self.per_gpu, request, strict=True)]
        accepted = self.accepted & self._placement.matches(task)
        if per_gpu != self.per_gpu or not np.array_equal(accepted, self.accepted):
            self.per_gpu, self.accepted = per_gpu, accepted
            self.version += 1


class Vacancy:
    """The free amounts of nodes before the victims of a plan are evicted; valid as long as nothing is moved.

    `rows`: int64[n], rows of the node table; other nodes have no free GPUs.
    """

    def __init__(self, placement: Placement, rows: NDArray[np.int64], facts: TaskFacts) -> None:
        self._table, self._rank, self._facts = placement.table, placement.name_rank, facts
        idle, later = self._amounts(rows)
        has_room = (idle[:, facts.column] > 0) | (later[:, facts.column] > 0)
        self._rows, self._now, self._later = rows[has_room], idle[has_room], later[has_room]
        self._busy: list[tuple[float, int]] = []
        self._idle: list[tuple[float, float, int]] = []
        #: By row, the entry of a node in the first list, and its place in the second.
        self._busy_of: dict[int, tuple[float, int]] = {}
        self._idle_at: dict[int, int] = {}
        gpus = np.column_stack([self._now[:, facts.column], self._later[:, facts.column]]).tolist()
        for row, (now, free) in zip(self._rows.tolist(), gpus, strict=True):
            at = int(self._rank[row])
            if now > 0:
                self._idle_at[row] = len(self._idle)
                self._idle.append((now, free, at))
            else:
                self._busy_of[row] = (free, at)
                self._busy.append((free, at))
        self._busy.sort()
        #: By row, what nodes have that plans have asked for: idle, and later.
        self._read: dict[int, tuple[list[float], list[float]]] = {}
        self._version = -1
        self._is_plain = False

    def without(self, victims: Sequence[Task]) -> FreeGpus | None:
        """Return what is free once tasks are evicted; None if more than GPUs decides where a task goes.

        `TaskFacts.size` must have been asked for them.
        """
        facts, after = self._facts, dict[int, list[float]]()
        if self._version != facts.version:
            self._version, self._is_plain = facts.version, self._is_all_plain()
        if not self._is_plain:
            return None
        for task in victims:
            if task.node == NO_NODE:
                return None
            amounts = after.get(task.node)
            if amounts is None:
                amounts = after[task.node] = [*self._of(task.node)[1]]
            for at, amount in enumerate(facts.requests[task.uid]):
                amounts[at] += amount
        busy, idle = [*self._busy], [*self._idle]
        for row, later in after.items():
            now = self._of(row)[0]
            if not facts.accepted[row] or not self._holds(now) or not self._holds(later):
                return None
            self._change(busy, idle, row, now[facts.column], later[facts.column])
        if len(idle) > _MOST_IDLE or len(idle) + len(busy) > _MOST_FREE + _MORE_FREE * len(victims):
            return None
        return FreeGpus(busy, idle)

    def _change(
        self, busy: list[tuple[float, int]], idle: list[tuple[float, float, int]], row: int, now: float, free: float
    ) -> None:
        """Change the entry of a node that has more free GPUs."""
        place, rank = self._idle_at.get(row), int(self._rank[row])
        if place is not None:
            idle[place] = (now, free, rank)
        elif now > 0:
            idle.append((now, free, rank))
        else:
            old = self._busy_of.get(row)
            if old is not None:
                del busy[bisect_left(busy, old)]
            insort(busy, (free, rank))

    def _amounts(self, rows: NDArray[np.int64] | list[int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return float64[n, R] twice: what is idle, and what is free once releasing tasks are gone."""
        table = self._table
        idle: NDArray[np.float64] = table.idle[rows]
        return idle, idle + table.releasing[rows] - table.pipelined[rows]

    def _of(self, row: int) -> tuple[list[float], list[float]]:
        found = self._read.get(row)
        if found is None:
            idle, later = self._amounts([row])
            found = self._read[row] = (idle[0].tolist(), later[0].tolist())
        return found

    def _is_all_plain(self) -> bool:
        """Return whether GPUs alone decide on the nodes that have room."""
        facts = self._facts
        return bool(facts.accepted[self._rows].all()) and all(
            self._holds(amounts) for table in (self._now, self._later) for amounts in table.tolist()
        )

    def _holds(self, amounts: list[float]) -> bool:
        """Return whether a node with enough GPUs for a task has enough of all: also after tasks took their part."""
        gpus = amounts[self._facts.column]
        if gpus <= 0:
            return True
        return not gpus % 1 and all(
            amount >= gpus * per_gpu for amount, per_gpu in zip(amounts, self._facts.per_gpu, strict=True)
        )
