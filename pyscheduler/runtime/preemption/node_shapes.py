"""Find nodes of the same shape for preemption, and sort the pods of each node by importance.

Two nodes have the same shape if their resources are equal, and the requests and priorities of their pods are equal.
One dry run can find the victims on all nodes of a shape.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, TypeVar

import attrs
import numpy as np

from pyscheduler.framework.preemption import start_time
from pyscheduler.runtime.preemption.victim_order import FEW, places_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from pyscheduler.cache.view import NodeView
    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.runtime.cooperative_yield import CooperativeYield

__all__ = ["NodeShapes", "request_key"]

S = TypeVar("S", bound=np.generic)

#: More than any priority.
_NOBODY: Final = 2**62
#: How many numbers are given beyond a few per node before all are dropped.
_SPARE_IDS: Final = 4096
_IDS_PER_NODE: Final = 4
#: The number of nodes after which the event loop may turn.
_TURN: Final = 32
_MIN_WIDTH: Final = 8


def request_key(info: PodInfo) -> Hashable:
    """Return a key of all amounts that a pod takes of a node."""
    requests = info.requests
    scalars = tuple(sorted(requests.scalars.items())) if requests.scalars else ()
    return requests.milli_cpu, requests.memory, requests.ephemeral_storage, scalars, info.non_zero


@attrs.frozen
class _Order:
    """The pods of a node, the most important first, and the number of their shape."""

    pods: Sequence[PodInfo]
    shape: int


@attrs.frozen
class _Mixed:
    """A node on which the order depends on which pods are sorted: its pods in their order on the node, and its amounts.

    `orders`: by priority of the preemptor.
    """

    pods: Sequence[PodInfo]
    amounts: Hashable
    orders: dict[int, _Order] = attrs.Factory(dict)


class NodeShapes:
    """By row of a snapshot, the pods there, the most important first.

    `least`: int64[n], the lowest priority on each node. `shapes`: int32[n], as `number` gives them. `epoch` grows when
    all numbers given so far are dropped.

    With many pods, some of them equally important, the order of these depends on how many are sorted. So a preemptor
    for which not all of them may be victims can have another order.
    """

    __slots__ = (
        "_generations",
        "_highest",
        "_ids",
        "_mixed",
        "_pods",
        "_starts",
        "epoch",
        "latest_start",
        "least",
        "shapes",
    )

    def __init__(self) -> None:
        self._generations: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._pods: list[Sequence[PodInfo]] = []
        #: float64[n, k]: when each was started, in the order of `pods`; infinite for one that was not.
        self._starts: NDArray[np.float64] = np.zeros((0, _MIN_WIDTH))
        self._ids: dict[Hashable, int] = {}
        #: By row, nodes where the order depends on which pods are sorted.
        self._mixed: dict[int, _Mixed] = {}
        #: int64[n]: the highest priority on these nodes, and less than any on others.
        self._highest: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.least: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.shapes: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        self.epoch = 0
        #: The latest start of any pod seen so far, in seconds since 1970. Before that time the order is another one: a
        #: pod that was not started counts as started now.
        self.latest_start = -math.inf

    @property
    def num_ids(self) -> int:
        """Return how many numbers were given; all numbers are smaller."""
        return len(self._ids)

    def number(self, key: Hashable) -> int:
        """Return the number of `key`."""
        return self._ids.setdefault(key, len(self._ids))

    def pods(self, row: int, priority: int) -> Sequence[PodInfo]:
        """Return the pods of a row, the most important first; those below `priority` may be victims."""
        if self._highest[row] < priority:
            return self._pods[row]
        return self._order_for(row, priority).pods

    def shapes_for(self, rows: NDArray[np.int64], priority: int) -> NDArray[np.int32]:
        """Return int32[k]: the shapes of these rows for a preemptor of that priority."""
        shapes: NDArray[np.int32] = self.shapes[rows]
        for place in np.flatnonzero(self._highest[rows] >= priority).tolist():
            shapes[place] = self._order_for(int(rows[place]), priority).shape
        return shapes

    def _order_for(self, row: int, priority: int) -> _Order:
        mixed = self._mixed[row]
        known = mixed.orders.get(priority)
        if known is None:
            # Pods that stay come first, in any order.
            below = [info for info in mixed.pods if info.pod.priority < priority]
            keys = [(-info.pod.priority, start_time(info.pod, math.inf)) for info in below]
            lined = [below[place] for place in places_of(keys, [start == math.inf for _, start in keys])]
            pods = [*self._pods[row][: len(mixed.pods) - len(below)], *lined]
            known = mixed.orders[priority] = _Order(pods, self.number((mixed.amounts, _line(pods))))
        return known

    def generation(self, row: int) -> int:
        """Return the generation of a row's node as of the last update."""
        return int(self._generations[row])

    def first_start(self, rows: NDArray[np.int64], places: Sequence[int]) -> NDArray[np.float64]:
        """Return float64[n]: the earliest start of the pods in these places, by row; infinite if none was started."""
        first: NDArray[np.float64] = self._starts[rows[:, None], np.array(places)].min(axis=1)
        return first

    async def sync(self, nodes: NodeView, turns: CooperativeYield) -> None:
        """Update everything from `nodes`, which must not change in the meantime."""
        total = len(nodes)
        if len(self._ids) > _IDS_PER_NODE * total + _SPARE_IDS:
            self._ids.clear()
            self._generations[:] = 0
            self._mixed.clear()
            self.epoch += 1
        if len(self._pods) != total:
            self._resize(total)
        for count, row in enumerate(np.flatnonzero(self._generations != nodes.generations()).tolist(), 1):
            self._put(row, nodes)
            if count % _TURN == 0:
                await turns.yield_if_due()

    def _resize(self, total: int) -> None:
        kept = min(total, len(self._pods))
        del self._pods[kept:]
        self._pods.extend(() for _ in range(total - kept))
        self._generations = _resized(self._generations, total)
        self._starts = _resized(self._starts, total)
        self.least = _resized(self.least, total)
        self._highest = _resized(self._highest, total)
        self._mixed = {row: mixed for row, mixed in self._mixed.items() if row < kept}
        self.shapes = _resized(self.shapes, total)

    def _put(self, row: int, nodes: NodeView) -> None:
        node = nodes[row]
        keys = [(-info.pod.priority, start_time(info.pod, math.inf)) for info in node.pods]
        places = places_of(keys, [start == math.inf for _, start in keys])
        pods = self._pods[row] = [node.pods[place] for place in places]
        if len(pods) > self._starts.shape[1]:
            wider = np.full((len(self._starts), 2 * len(pods)), math.inf)
            wider[:, : self._starts.shape[1]] = self._starts
            self._starts = wider
        for rank, place in enumerate(places):
            start = keys[place][1]
            self._starts[row, rank] = start
            if self.latest_start < start < math.inf:
                self.latest_start = start
        self.least[row] = pods[-1].pod.priority if pods else _NOBODY
        amounts = nodes.amounts(row)
        self.shapes[row] = self.number((amounts, _line(pods)))
        is_mixed = len(pods) > FEW and len(set(keys)) < len(keys)
        self._highest[row] = pods[0].pod.priority if is_mixed else -_NOBODY
        if is_mixed:
            self._mixed[row] = _Mixed([*node.pods], amounts)
        else:
            self._mixed.pop(row, None)
        self._generations[row] = node.generation


def _line(pods: Sequence[PodInfo]) -> tuple[Hashable, ...]:
    return tuple((-info.pod.priority, request_key(info)) for info in pods)


def _resized(array: NDArray[S], length: int) -> NDArray[S]:
    """Return an array with so many rows; those that are new are zero."""
    made = np.zeros((length, *array.shape[1:]), dtype=array.dtype)
    kept = min(length, len(array))
    made[:kept] = array[:kept]
    return made
