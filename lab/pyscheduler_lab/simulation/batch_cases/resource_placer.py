"""Simple filters and scores that replace those of the scheduler in test cases of Volcano and kube-batch.

A node accepts pods up to its maximum number of pods, and scores depend only on resources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from pyscheduler.plugins.node_resources.balanced_allocation import balanced_allocation
from pyscheduler.plugins.node_resources.resource_allocation import Allocation, least_allocated, most_allocated
from pyscheduler_batch.model.axis import CPU, GPU, MEMORY, PODS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler_batch.model.axis import ResourceAxis
    from pyscheduler_batch.model.node_table import NodeTable
    from pyscheduler_batch.model.tasks import Task

__all__ = ["ResourcePlacer"]

#: What kube-scheduler assumes for scores if a container does not request cpu (millicores) or memory (bytes).
_ASSUMED: Final = {CPU: 100, MEMORY: 200 * 1024 * 1024}


class ResourcePlacer:
    """Nodes accept as many pods as they offer; scores follow least and most allocated and balanced allocation.

    `weights` are those of nodeorder by name: `leastrequested`, `mostrequested`, `balancedresource`; others score all
    nodes alike here and are left out.
    """

    def __init__(
        self, axis: ResourceAxis, nodes: NodeTable, present: Iterable[Task], weights: Mapping[str, int]
    ) -> None:
        self._axis = axis
        self._nodes = nodes
        self._weights = weights
        self._columns = {name: axis.index[name] for name in (CPU, MEMORY, GPU) if name in axis.index}
        self._offered = nodes.allocatable.astype(np.int64)
        self._used = np.zeros_like(self._offered)
        self._assumed = np.zeros_like(self._offered)
        for task in present:
            self.place(task, task.node)

    def feasible(self, task: Task) -> NDArray[np.bool_]:  # noqa: ARG002 - all tasks are one pod
        """Return bool[N]: the nodes with a place for a pod."""
        column = self._axis.index[PODS]
        accepted: NDArray[np.bool_] = self._used[:, column] < self._offered[:, column]
        return accepted

    def suitable(self, task: Task) -> NDArray[np.bool_]:  # noqa: ARG002 - amounts only
        """Return bool[N]: all nodes."""
        return np.ones(len(self._nodes), dtype=np.bool_)

    def curable(self, task: Task) -> NDArray[np.bool_]:  # noqa: ARG002 - amounts only
        """Return bool[N]: all nodes."""
        return np.ones(len(self._nodes), dtype=np.bool_)

    def why_not(self, task: Task, *, beside_room: bool = False) -> str:  # noqa: ARG002 - amounts only
        """Return "": there are no filters."""
        return ""

    def may_run_together(self, tasks: Sequence[Task]) -> bool:  # noqa: ARG002 - amounts only
        """Return True: tasks do not keep each other out."""
        return True

    def feasible_now(self, task: Task, node: int) -> bool:
        """Return whether the node has a place for a pod."""
        return bool(self.feasible(task)[node])

    def raw_scores(self, plugin: str, task: Task, rows: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """Return None: there are no plugins."""

    def place(self, task: Task, node: int) -> None:
        """Count the task on the node."""
        self._used[node] += task.request.astype(np.int64)
        self._assumed[node] += self._with_assumed(task)

    def remove(self, task: Task, node: int) -> None:
        """Take the task from the node."""
        self._used[node] -= task.request.astype(np.int64)
        self._assumed[node] -= self._with_assumed(task)

    def _with_assumed(self, task: Task) -> NDArray[np.int64]:
        amounts = task.request.astype(np.int64)
        for name, amount in _ASSUMED.items():
            column = self._columns[name]
            if amounts[column] == 0:
                amounts[column] = amount
        return amounts

    def scores(
        self,
        task: Task,
        rows: NDArray[np.int64],
        *,
        without: Sequence[Task] = (),  # noqa: ARG002 - all count
    ) -> NDArray[np.float64] | None:
        """Return float64[n]: the weighted sum of the scores of these nodes; all tasks count."""
        total = np.zeros(len(rows), dtype=np.int64)
        native = [self._columns[CPU], self._columns[MEMORY]]
        amounts = self._with_assumed(task)
        taking = [self._allocation(column, self._assumed, amounts, rows) for column in native]
        total += self._weights.get("leastrequested", 0) * least_allocated(taking, len(rows))
        total += self._weights.get("mostrequested", 0) * most_allocated(taking, len(rows))
        request = task.request.astype(np.int64)
        gpu = self._columns.get(GPU)
        columns = native if gpu is None or not request[gpu] else [*native, gpu]
        if request[columns].any():
            taking = [self._allocation(column, self._used, request, rows) for column in columns]
            total += self._weights.get("balancedresource", 0) * balanced_allocation(taking, len(rows))
        return total.astype(np.float64)

    def _allocation(
        self, column: int, held: NDArray[np.int64], request: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> Allocation:
        allocated = held[rows, column]
        return Allocation(1, self._offered[rows, column], allocated, allocated + request[column])
