"""Find the next job in KAI's tree of queues, in which each queue keeps its child queues in a heap.

The position of a queue in its parent's heap depends on the state and the next job of the queue. As in KAI, a
changed queue is moved only when it reaches the top of its parent's heap. To give KAI's order, the heap uses the
algorithm of Go's `container/heap`.

Source: KAI-Scheduler, `actions/utils/job_order_by_queue.go`.
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING, Final, Protocol

from pyscheduler_kai.forest import TOP
from pyscheduler_kai.gang import ZERO, Quantities, add
from pyscheduler_kai.job_index import KEY_OF

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from pyscheduler_kai.forest import Forest
    from pyscheduler_kai.gang import Gang
    from pyscheduler_kai.proportion import QueueKey

__all__ = ["JobKey", "JobQueue", "Orders"]

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
    """A queue with its jobs or its child queues (a heap).

    The jobs are a sorted list that the node reads from one end and does not change, and a few that were added.
    """

    __slots__ = (
        "_accepts",
        "_at",
        "_expand",
        "_jobs",
        "_last_first",
        "added",
        "children",
        "head",
        "head_key",
        "is_leaf",
        "needs_fix",
        "parent",
        "popped",
        "row",
        "seen",
    )

    def __init__(
        self,
        row: int,
        jobs: Sequence[tuple[JobKey, Gang]] | None = None,
        *,
        last_first: bool = False,
        accepts: Callable[[Gang], bool] | None = None,
        expand: Callable[[_Node], list[_Node]] | None = None,
    ) -> None:
        self.row = row
        self.is_leaf = jobs is not None
        self.parent: _Node | None = None
        self.needs_fix = False
        #: Returns the children when they are first asked for.
        self._expand = expand
        self.children: list[_Node]
        if expand is None:
            self.children = []
        #: What the jobs that were taken as victims hold.
        self.popped: Quantities = ZERO
        self._jobs: Sequence[tuple[JobKey, Gang]] = jobs or ()
        self._last_first = last_first
        self._accepts = accepts
        self._at = len(self._jobs) - 1 if last_first else 0
        self.added: list[tuple[JobKey, Gang]] = []
        #: The next job and its key; None if there is none.
        self.head: Gang | None = None
        self.head_key: JobKey | None = None
        #: The key of the last job that was next while the queue held jobs of interest; less than all keys if none was.
        self.seen: JobKey = ()
        self._find_head()

    def __getattr__(self, name: str) -> list[_Node]:
        """Return the children when they are first asked for; then they are an attribute."""
        if name != "children" or self._expand is None:
            raise AttributeError(name)
        self.children = self._expand(self)
        return self.children

    def _find_head(self) -> None:
        jobs, step, accepts = self._jobs, -1 if self._last_first else 1, self._accepts
        while 0 <= self._at < len(jobs) and accepts is not None and not accepts(jobs[self._at][1]):
            self._at += step
        has_base = 0 <= self._at < len(jobs)
        if not self.added:
            self.head_key, self.head = jobs[self._at] if has_base else (None, None)
            return
        other = self.added[-1] if self._last_first else self.added[0]
        if has_base and (jobs[self._at][0] < other[0]) != self._last_first:
            self.head_key, self.head = jobs[self._at]
        else:
            self.head_key, self.head = other

    def add(self, key: JobKey, gang: Gang) -> None:
        """Add a job."""
        insort(self.added, (key, gang), key=KEY_OF)
        self._find_head()

    def take(self) -> Gang:
        """Take the next job out."""
        gang = self.head
        assert gang is not None
        if self.added and self.added[-1 if self._last_first else 0][1] is gang:
            self.added.pop(-1 if self._last_first else 0)
        else:
            self._at += -1 if self._last_first else 1
        self._find_head()
        return gang

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is left below the queue."""
        return self.head is None if self.is_leaf else not self.children


class JobQueue:
    """Jobs by queue. `victims`: the last in every order comes first."""

    #: Of two equal queues the heap knows which comes first.
    is_tied: Final = False

    def __init__(
        self,
        orders: Orders,
        jobs: Mapping[int, Sequence[tuple[JobKey, Gang]]],
        *,
        added: Iterable[tuple[JobKey, Gang]] = (),
        victims: bool = False,
        accepts: Callable[[Gang], bool] | None = None,
        is_total: bool = False,
    ) -> None:
        """Begin with jobs by queue row, sorted by key, as far as they are accepted.

        `added`: some more, each behind its key. `is_total`: no queue has a parent, and the keys of queues are in a
        total order.
        """
        self._orders = orders
        self._victims = victims
        self._top: list[_Node] = []
        self._popped: dict[int, Quantities] = {}
        self._nodes: dict[int, _Node] = {}
        #: Whether the jobs that a queue has after the last one of interest do not matter.
        self._is_total = is_total
        #: The leaves at the begin.
        self._leaves: list[_Node] = []
        more: dict[int, list[tuple[JobKey, Gang]]] = {}
        for key, gang in added:
            more.setdefault(gang.job.queue_row, []).append((key, gang))
        for row in jobs.keys() | more.keys():
            node = _Node(row, jobs.get(row, ()), last_first=victims, accepts=accepts)
            for key, gang in more.get(row, ()):
                node.add(key, gang)
            self._leaves.append(node)
            if not node.is_empty:
                self._nodes[row] = node
        self._link_all()

    @classmethod
    def kept(
        cls,
        orders: Orders,
        jobs_of: Callable[[int], Sequence[tuple[JobKey, Gang]]],
        forest: Forest,
        stale: Iterable[int],
    ) -> JobQueue:
        """Return a line with heaps that are kept.

        `jobs_of` returns the jobs of a queue, sorted by key. `stale`: the queues whose heaps of children are built
        anew, children before their parents.
        """
        line = cls(orders, {})

        def node(row: int) -> _Node:
            found = line._nodes.get(row)
            if found is None:
                found = line._nodes[row] = _Node(row, jobs_of(row) or None, expand=expand)
            return found

        def expand(parent: _Node) -> list[_Node]:
            return [child(row, parent) for row in forest.order[parent.row]]

        def child(row: int, parent: _Node | None) -> _Node:
            found = node(row)
            found.parent = parent
            return found

        for row in stale:
            heap: list[_Node] = []
            parent = None if row == TOP else node(row)
            for below in forest.children[row]:
                if below in forest.order or jobs_of(below):
                    line._heap_push(heap, child(below, parent))
            if heap:
                forest.order[row] = [each.row for each in heap]
            else:
                forest.order.pop(row, None)
                line._nodes.pop(row, None)
            if parent is not None:
                parent.children = heap
        line._top = [child(row, None) for row in forest.order.get(TOP, ())]
        return line

    def last_read(self, left: Collection[int]) -> Iterator[tuple[int, JobKey | None]]:
        """Return by queue row the key of the last job on which the order of the wanted jobs depended; None for all.

        `left`: the queues that still have wanted jobs. If no two queues were ever equal, a queue without them does not
        matter: the others come in the same order with or without it, and its jobs are dropped.
        """
        for node in self._leaves:
            yield node.row, node.seen if self._is_total and node.row not in left else node.head_key

    def _link_all(self) -> None:
        """Hang all leaves into the tree, children before their parents."""
        parents = self._orders.parents
        pending = set(self._nodes)
        for row in list(pending):
            above = parents[row]
            while above >= 0 and above not in pending:
                pending.add(above)
                above = parents[above]
        for row in sorted(pending, reverse=True):
            self._attach(self._nodes[row])

    def _attach(self, node: _Node) -> _Node | None:
        """Put a node into the heap it belongs to; return its parent if that had to be made."""
        above = self._orders.parents[node.row]
        if above < 0:
            self._heap_push(self._top, node)
            return None
        parent = self._nodes.get(above)
        made = None
        if parent is None:
            made = parent = self._nodes[above] = _Node(above)
        node.parent = parent
        self._heap_push(parent.children, node)
        return made

    def __bool__(self) -> bool:
        return bool(self._top)

    def push(self, gang: Gang) -> None:
        """Add a job."""
        row = gang.job.queue_row
        leaf = self._nodes.get(row)
        key = self._orders.job_key(gang)
        if leaf is not None:
            leaf.add(key, gang)
        else:
            leaf = self._nodes[row] = _Node(row, (), last_first=self._victims)
            leaf.popped = self._popped.get(row, ZERO)
            leaf.add(key, gang)
            made = self._attach(leaf)
            while made is not None:
                made = self._attach(made)
        self._mark(leaf)

    def pop(self) -> Gang:
        """Take the next job out; raises `IndexError` if there is none."""
        node = self._next_leaf()
        gang = node.take()
        if self._victims:
            node.popped = add(node.popped, gang.allocated())
            self._popped[node.row] = node.popped
        self._leave(node)
        return gang

    def take_one_of(self, wanted: Collection[str], left: Counter[int]) -> Gang:
        """Do what `pop_one_of` does. `left`: by queue row, how many wanted jobs are left; it is kept up to date."""
        gang = self.pop_one_of(wanted, left)
        row = gang.job.queue_row
        left[row] -= 1
        if not left[row]:
            del left[row]
        return gang

    def pop_one_of(self, wanted: Collection[str], rows: Collection[int]) -> Gang:
        """Take the next job out whose uid is wanted; others on the way are dropped.

        `rows`: the queues of all wanted jobs that are left.
        """
        if len(rows) == 1:
            # Between queues nothing is to be decided any more.
            node = self._nodes[next(iter(rows))]
            while True:
                node.seen = node.head_key or ()
                gang = node.take()
                if gang.job.uid in wanted:
                    return gang
        while True:
            node = self._next_leaf()
            if node.row in rows:
                node.seen = node.head_key or ()
            gang = node.take()
            if gang.job.uid in wanted:
                self._leave(node)
                return gang
            # The queue stays the next one as long as its next job asks for the same.
            asked = gang.requested()
            while node.head is not None and node.head.job.uid not in wanted and node.head.requested() == asked:
                node.take()
            self._leave(node)

    def _next_leaf(self) -> _Node:
        node = self._next(self._top)
        while not node.is_leaf:
            node = self._next(node.children)
        return node

    def mark_all(self) -> None:
        """Put every queue into its place anew when it first reaches the top of its heap.

        The original marks all queues when it builds a line. That matters only if queues change whose jobs are not
        taken out: the order of queues then follows the new sums.
        """
        for node in self._nodes.values():
            node.needs_fix = True

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
        gang = best.head
        assert gang is not None
        if self._victims:
            return self._orders.queue_key(node.row, ZERO, add(best.popped, gang.allocated()))
        return self._orders.queue_key(node.row, gang.requested(), ZERO)

    def _before(self, left: _Node, right: _Node) -> bool:
        if left.is_empty:
            return not self._victims
        if right.is_empty:
            return self._victims
        first, second = self._key(left), self._key(right)
        if first < second:
            return not self._victims
        if self._is_total and first == second:
            self._is_total = False
        return self._victims

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
