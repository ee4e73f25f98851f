"""The order in which actions take jobs: a tree of heaps, one per queue.

A queue is ordered among its siblings by its own state and its next job. A queue whose state changed is put into its new
place only when it reaches the top of its heap; the rule is the original's, and decides which of two queues is asked
first. So the heaps follow Go's `container/heap` step by step.

Source: KAI-Scheduler, `actions/utils/job_order_by_queue.go`.
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING, Protocol

from pyscheduler_batch.kai.gang import ZERO, Quantities, add

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyscheduler_batch.kai.gang import Gang
    from pyscheduler_batch.kai.proportion import QueueKey

__all__ = ["JobQueue", "Orders"]

JobKey = tuple[float | str, ...]


class Orders(Protocol):
    """The keys of jobs and queues."""

    def job_key(self, gang: Gang) -> JobKey:
        """Return the key of a job."""
        ...

    def queue_key(self, queue: int, adds: Quantities, removes: Quantities) -> QueueKey:
        """Return the key of a queue."""
        ...

    @property
    def parents(self) -> Sequence[int]:
        """Return the row of each queue's parent, -1 at the top."""
        ...


class _Node:
    """A queue with its jobs (in their order) or its child queues (a heap)."""

    __slots__ = ("children", "is_leaf", "jobs", "needs_fix", "parent", "popped", "row")

    def __init__(self, row: int, *, is_leaf: bool) -> None:
        self.row = row
        self.is_leaf = is_leaf
        self.parent: _Node | None = None
        self.needs_fix = False
        self.children: list[_Node] = []
        self.jobs: list[tuple[JobKey, Gang]] = []
        #: What the jobs that were taken as victims hold.
        self.popped: Quantities = ZERO

    @property
    def is_empty(self) -> bool:
        return not (self.jobs if self.is_leaf else self.children)


def _key_of(entry: tuple[JobKey, Gang]) -> JobKey:
    return entry[0]


class JobQueue:
    """Jobs by queue. `victims`: the last in every order comes first."""

    def __init__(self, orders: Orders, gangs: Iterable[Gang] = (), *, victims: bool = False) -> None:
        self._orders = orders
        self._victims = victims
        self._top: list[_Node] = []
        self._nodes: dict[int, _Node] = {}
        self._popped: dict[int, Quantities] = {}
        for gang in gangs:
            self.push(gang)

    def __bool__(self) -> bool:
        return bool(self._top)

    def push(self, gang: Gang) -> None:
        """Add a job."""
        row = gang.job.queue_row
        leaf = self._nodes.get(row)
        is_new = leaf is None
        if leaf is None:
            leaf = _Node(row, is_leaf=True)
            leaf.popped = self._popped.get(row, ZERO)
            self._nodes[row] = leaf
        # The next job is at the end: the first in order, or the last for victims.
        if self._victims:
            insort(leaf.jobs, (self._orders.job_key(gang), gang), key=_key_of)
        else:
            _insert_descending(leaf.jobs, (self._orders.job_key(gang), gang))
        if is_new:
            self._link(leaf)
        self._mark(leaf)

    def pop(self) -> Gang:
        """Take the next job out; raises `IndexError` if there is none."""
        node = self._next(self._top)
        while not node.is_leaf:
            node = self._next(node.children)
        _, gang = node.jobs.pop()
        if self._victims:
            node.popped = add(node.popped, gang.allocated())
            self._popped[node.row] = node.popped
        self._leave(node)
        return gang

    def _link(self, node: _Node) -> None:
        """Hang a new node below its ancestors, which are made if they are missing."""
        while True:
            above = self._orders.parents[node.row]
            if above < 0:
                self._heap_push(self._top, node)
                return
            parent = self._nodes.get(above)
            is_new = parent is None
            if parent is None:
                parent = _Node(above, is_leaf=False)
                self._nodes[above] = parent
            node.parent = parent
            self._heap_push(parent.children, node)
            if not is_new:
                return
            node = parent

    def _mark(self, node: _Node | None) -> None:
        while node is not None:
            node.needs_fix = True
            node = node.parent

    def _next(self, heap: list[_Node]) -> _Node:
        while heap[0].needs_fix:
            node = heap[0]
            self._down(heap, 0, len(heap))
            node.needs_fix = False
        return heap[0]

    def _leave(self, node: _Node) -> None:
        """Remove a queue that has become empty; otherwise it and its ancestors need another place."""
        while node.is_empty:
            self._heap_pop(self._top if node.parent is None else node.parent.children)
            del self._nodes[node.row]
            if node.parent is None:
                return
            node = node.parent
        self._mark(node)

    def _key(self, node: _Node) -> QueueKey:
        best = node
        while not best.is_leaf:
            best = best.children[0]
        gang = best.jobs[-1][1]
        if self._victims:
            return self._orders.queue_key(node.row, ZERO, add(best.popped, gang.allocated()))
        return self._orders.queue_key(node.row, gang.requested(), ZERO)

    def _before(self, left: _Node, right: _Node) -> bool:
        if left.is_empty:
            return not self._victims
        if right.is_empty:
            return self._victims
        return (self._key(left) < self._key(right)) != self._victims

    # Go's container/heap

    def _heap_push(self, heap: list[_Node], node: _Node) -> None:
        heap.append(node)
        at = len(heap) - 1
        while at > 0:
            above = (at - 1) // 2
            if not self._before(heap[at], heap[above]):
                break
            heap[at], heap[above] = heap[above], heap[at]
            at = above

    def _heap_pop(self, heap: list[_Node]) -> None:
        last = len(heap) - 1
        heap[0], heap[last] = heap[last], heap[0]
        self._down(heap, 0, last)
        heap.pop()

    def _down(self, heap: list[_Node], at: int, count: int) -> None:
        while (child := 2 * at + 1) < count:
            if child + 1 < count and self._before(heap[child + 1], heap[child]):
                child += 1
            if not self._before(heap[child], heap[at]):
                break
            heap[at], heap[child] = heap[child], heap[at]
            at = child


def _insert_descending(jobs: list[tuple[JobKey, Gang]], entry: tuple[JobKey, Gang]) -> None:
    """Insert into a list that is sorted with the largest key first."""
    low, high = 0, len(jobs)
    while low < high:
        middle = (low + high) // 2
        if jobs[middle][0] > entry[0]:
            low = middle + 1
        else:
            high = middle
    jobs.insert(low, entry)
