"""Fragmentation: the part of a node's free GPUs that typical tasks cannot use.

A typical task is a frequent kind of pod. If a task cannot run on the node, or needs no GPU, all free GPUs count as
fragmentation. If the task can run, a free part of a GPU counts if it is too small for the task. The fragmentation of
the node is the average over the typical tasks.

Source: Weng et al., USENIX ATC 2023, section 4.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from pyscheduler_fgd.typical_tasks import WHOLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pyscheduler_fgd.typical_tasks import TypicalTask

__all__ = ["Fragmentation", "Free"]


@attrs.frozen
class Free:
    """The free amounts of some nodes; one column for each node.

    `model`: int64[n], ids of `Fragmentation.model_ids`. `cpu`: int64[n], thousandths of a core. `parts`: int64[k, n],
    the free thousandths of devices that are in use by parts; 0 stands for none. `whole`: int64[n], wholly free devices.
    """

    model: NDArray[np.int64]
    cpu: NDArray[np.int64]
    parts: NDArray[np.int64]
    whole: NDArray[np.int64]

    @property
    def total(self) -> NDArray[np.int64]:
        """Return int64[n]: the free thousandths of all devices of each node."""
        total: NDArray[np.int64] = self.parts.sum(axis=0) + WHOLE * self.whole
        return total


class Fragmentation:
    """The worth of free devices to some typical tasks; `weight` is their number."""

    def __init__(self, tasks: Sequence[TypicalTask]) -> None:
        self.weight = sum(task.count for task in tasks)
        on_gpus = [task for task in tasks if task.gpus]
        models = sorted({model for task in on_gpus for model in task.models})
        #: By model that some task names, its id; any other has the id 0.
        self._models = {model: number for number, model in enumerate(models, 1)}
        cpus = sorted({task.cpu_milli for task in on_gpus})
        parts = sorted({task.gpu_milli for task in on_gpus if task.gpus == 1})
        self._cpus = np.array(cpus, dtype=np.int64)
        #: int64[1001]: for each number of free thousandths, how many of the requested parts it reaches.
        self._levels = np.searchsorted(np.array(parts, dtype=np.int64), np.arange(WHOLE + 1), side="right")
        most = max((task.gpus for task in on_gpus if task.gpus > 1), default=1)
        shape = (len(models) + 1, len(cpus) + 1)
        one = np.zeros((*shape, len(parts) + 1), dtype=np.int64)
        several = np.zeros((*shape, most + 1), dtype=np.int64)
        for task in on_gpus:
            allowed = [self._models[model] for model in task.models] if task.models else range(shape[0])
            enough = cpus.index(task.cpu_milli) + 1
            for model in allowed:
                if task.gpus == 1:
                    one[model, enough:, parts.index(task.gpu_milli) + 1 :] += task.count
                else:
                    several[model, enough:, task.gpus :] += task.count
        self._one, self._several = one.ravel(), several.ravel()
        self._num_cpus, self._num_parts, self._most = shape[1], one.shape[2], most

    def model_ids(self, values: Sequence[str | None]) -> NDArray[np.int64]:
        """Return int64[len(values)]: the id of each model."""
        return np.array([self._models.get(value or "", 0) for value in values], dtype=np.int64)

    def place(self, model: NDArray[np.int64], cpu: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return int64[n]: the row of the tables for nodes with this model and this free CPU."""
        place: NDArray[np.int64] = model * self._num_cpus + np.searchsorted(self._cpus, cpu, side="right")
        return place

    def usable_parts(self, place: NDArray[np.int64], free: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return int64[k, n] or int64[n]: the worth of devices with these free thousandths."""
        worth: NDArray[np.int64] = free * self._one[place * self._num_parts + self._levels[free]]
        return worth

    def usable_whole(self, place: NDArray[np.int64], number: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return int64[n]: the worth of this number of wholly free devices."""
        one = self._one[place * self._num_parts + self._num_parts - 1]
        several = self._several[place * (self._most + 1) + np.minimum(number, self._most)]
        worth: NDArray[np.int64] = WHOLE * number * (one + several)
        return worth

    def usable(self, place: NDArray[np.int64], free: Free) -> NDArray[np.int64]:
        """Return int64[n]: the worth of all free devices of each node."""
        usable: NDArray[np.int64] = self.usable_parts(place, free.parts).sum(axis=0)
        usable += self.usable_whole(place, free.whole)
        return usable

    def amounts(self, free: Free) -> NDArray[np.float64]:
        """Return float64[n]: the fragmentation of each node in thousandths of a GPU."""
        usable = self.usable(self.place(free.model, free.cpu), free)
        amounts: NDArray[np.float64] = free.total - usable / max(self.weight, 1)
        return amounts
