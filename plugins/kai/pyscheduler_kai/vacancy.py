"""The free GPUs of nodes in plain numbers, as long as GPUs alone decide which node a task takes.

That is so if each node with free GPUs has enough of all else for as many tasks as its GPUs can take, and the filters
accept it for all of them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Final

import numpy as np

from pyscheduler_batch.contract import GPU, NO_NODE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler_batch.contract import Amounts, Session, Task
    from pyscheduler_kai.placement import Placement

__all__ = ["FreeGpus", "TaskFacts", "free_gpus"]

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
        #: The most that tasks request per GPU whose node depends on GPUs alone; and bool[N]: the nodes that filters
        #: accept for all of them.
        self._per_gpu = session.axis.zeros()
        self.accepted = np.ones(len(session.nodes), dtype=np.bool_)
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
                self._per_gpu = np.maximum(self._per_gpu, task.request / size)
                self.accepted = self.accepted & self._placement.matches(task)
            self._sizes[task.uid] = size
        return size

    def are_enough(self, amounts: Amounts) -> bool:
        """Return whether nodes that have enough GPUs for a task have enough of all. `amounts`: float64[n, R]."""
        amounts = amounts[amounts[:, self.column] > 0]
        gpus = amounts[:, [self.column]]
        return not (gpus % 1).any() and bool((amounts >= gpus * self._per_gpu).all())


def free_gpus(placement: Placement, facts: TaskFacts, victims: Sequence[Task]) -> FreeGpus | None:
    """Return the GPUs that are free once tasks are evicted; None if more than GPUs decides where a task goes.

    `TaskFacts.size` must have been asked for the tasks of the plan.
    """
    table, column = placement.table, facts.column
    nodes = [task.node for task in victims]
    if NO_NODE in nodes:
        return None
    now, later = table.idle, table.idle + table.releasing - table.pipelined
    if victims:
        np.add.at(later, nodes, [task.request for task in victims])
    rows = np.flatnonzero((now[:, column] > 0) | (later[:, column] > 0))
    now, later = now[rows], later[rows]
    is_idle = now[:, column] > 0
    if np.count_nonzero(is_idle) > _MOST_IDLE or len(rows) > _MOST_FREE + _MORE_FREE * len(victims):
        return None
    if not facts.accepted[rows].all() or not facts.are_enough(now) or not facts.are_enough(later):
        return None
    amounts = zip(now[:, column].tolist(), later[:, column].tolist(), placement.name_rank[rows].tolist(), strict=True)
    entries = [*amounts]
    return FreeGpus(
        sorted((free, at) for idle, free, at in entries if idle <= 0), [entry for entry in entries if entry[0] > 0]
    )
