"""Check if there are enough GPUs for a job and for the pods that KAI's action `consolidation` moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyscheduler_batch.contract import Task
    from pyscheduler_kai.placement import Placement

__all__ = ["has_room_for_all"]


def has_room_for_all(placement: Placement, pending: Iterable[Task], victims: Sequence[Task]) -> bool:
    """Return False if the nodes certainly lack the GPUs for all these tasks at once, the victims being off their nodes.

    A node has `floor(free / size)` places for tasks of a size or larger ones. If there are more such tasks than places,
    one of them finds no node. True proves nothing.
    """
    moved = {task.uid: task for task in victims}
    if any(task.leaving for task in moved.values()):
        # A victim that is on its way to another node may go back to a node that has no room.
        return True
    free = placement.free_gpus().copy()
    sizes = [placement.gpus(task) for task in pending]
    for task in moved.values():
        gpus = placement.gpus(task)
        sizes.append(gpus)
        free[task.node] += gpus
    np.maximum(free, 0.0, out=free)
    # Amounts are sums of floats: what is missing by less than a millionth is there.
    free += 1e-6
    return all(
        np.floor(free / size).sum() >= sum(each >= size for each in sizes) for size in set(sizes) if size > 0
    ) and sum(sizes) <= float(free.sum())
