"""The tasks of the experiment in the FGD paper, in a random order of arrival.

Random tasks are added or removed until the tasks request 130 % of the GPUs of the cluster.

Source: Weng et al., "Beware of Fragmentation" (FGD), USENIX ATC 2023, section 6; the authors' simulator.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler_lab.traces import Job

__all__ = ["INFLATION", "arrivals"]

#: The requested GPUs at the end, as a part of the GPUs of the cluster.
INFLATION: Final = 1.3


def arrivals(tasks: Sequence[Job], capacity: int, *, seed: int, inflation: float = INFLATION) -> Sequence[Job]:
    """Return the tasks in the order of a seed, inflated to a part of the `capacity`, which is in thousandths of a GPU.

    The look-ahead of the inflation counts one GPU of the drawn task, as the authors' simulator does. A list that is
    above the goal loses tasks, which are drawn, until it is not.
    """
    rng = random.Random(f"fgd/{seed}")
    source = sorted(tasks, key=lambda task: task.name)
    order = source.copy()
    rng.shuffle(order)
    goal = inflation * capacity
    total = sum(task.worker_gpu_milli for task in order)
    if total > goal:
        while total > goal:
            total -= order.pop(rng.randrange(len(order))).worker_gpu_milli
        return order
    while total:
        drawn = source[rng.randrange(len(source))]
        if total + (drawn.gpu_milli if drawn.gpus else 0) > goal:
            break
        order.append(attrs.evolve(drawn, name=f"{drawn.name}-again-{len(order)}"))
        total += drawn.worker_gpu_milli
    return order
