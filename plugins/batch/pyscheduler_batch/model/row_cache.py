"""Cache arrays with one value per node, and compute values again only for nodes that changed since the last use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pyscheduler_batch.model.tasks import NO_NODE

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from numpy.typing import NDArray

    from pyscheduler_batch.model.tasks import Task, TaskState

__all__ = ["RowCache"]

#: When so many changes are remembered, everything is computed anew.
_MOST_CHANGES: Final = 100_000


class RowCache:
    """Arrays over nodes by key; a listener, which learns of each node that changes.

    A figure may be kept if it depends on the row of its node in the node table alone.
    """

    def __init__(self, nodes: int) -> None:
        self._all = np.arange(nodes)
        #: Rows of nodes in the order of their changes.
        self._changes: list[int] = []
        self._entries: dict[Hashable, tuple[NDArray[Any], int]] = {}
        #: By uid, the node of each task that was placed in this session.
        self._places: dict[str, int] = {}

    def moved(self, task: Task, old: TaskState, new: TaskState) -> None:
        """Take notice that the node of a task changed."""
        before = self._places.pop(task.uid, NO_NODE)
        if before >= 0:
            self._changes.append(before)
        if task.node >= 0:
            self._places[task.uid] = task.node
            if task.node != before:
                self._changes.append(task.node)
        self._changes.extend(task.leaving)

    def get(self, key: Hashable, compute: Callable[[NDArray[np.int64]], NDArray[Any]]) -> NDArray[Any]:
        """Return the array [N] of a key, not to be changed; `compute` returns the figures of the rows it is given."""
        if len(self._changes) > _MOST_CHANGES:
            self._entries.clear()
            self._changes.clear()
        entry = self._entries.get(key)
        done = len(self._changes)
        if entry is None:
            figures = compute(self._all)
        else:
            figures, seen = entry
            if seen == done:
                return figures
            # Mostly one or two rows; `np.unique` would cost more than all else.
            dirty = np.array([*set(self._changes[seen:done])])
            figures[dirty] = compute(dirty)
        self._entries[key] = (figures, done)
        return figures
