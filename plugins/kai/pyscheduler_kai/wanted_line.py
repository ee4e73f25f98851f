"""Sort the jobs to place after a simulated eviction: the job that needs room, and the jobs of the victims."""

from __future__ import annotations

from bisect import bisect_left
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from pyscheduler_kai.gang import ZERO
from pyscheduler_kai.job_index import KEY_OF

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Collection, Iterable, Iterator

    from pyscheduler_kai.gang import Gang, Quantities
    from pyscheduler_kai.job_index import JobIndex
    from pyscheduler_kai.job_queue import JobKey, Orders
    from pyscheduler_kai.proportion import QueueKey

__all__ = ["WantedLine"]


class _Lane:
    """The wanted jobs of one queue, and what the waiting jobs before the next one ask for."""

    __slots__ = ("_at", "_index", "_skipped", "asked", "row", "seen", "wanted")

    def __init__(self, row: int, wanted: list[tuple[JobKey, Gang]], index: JobIndex) -> None:
        self.row = row
        #: The last one comes first.
        self.wanted = sorted(wanted, key=KEY_OF, reverse=True)
        self._index = index
        #: Where the wanted jobs are among the waiting ones, if they are.
        index.entries(row)
        self._skipped = {index.place(gang.job.uid) for _, gang in wanted}
        self._at = 0
        #: The key of the last job that was taken; less than all keys if there is none.
        self.seen: JobKey = ()
        self.asked: Collection[Quantities] = ()

    def take(self) -> Gang:
        """Take the next wanted job."""
        self.seen, gang = self.wanted.pop()
        return gang

    def look_ahead(self) -> None:
        """Find out what the waiting jobs before the next wanted one ask for."""
        entries, begin = self._index.entries(self.row), self._at
        end = self._at = bisect_left(entries, self.wanted[-1][0], lo=begin, key=KEY_OF)
        if begin == end:
            self.asked = ()
            return
        asks = self._index.asks(self.row, end)
        if end - begin < len(asks):
            self.asked = {entries[at][1].requested() for at in range(begin, end) if at not in self._skipped}
        else:
            self.asked = [asked for asked, places in asks.items() if self._has(places, begin, end)]

    def _has(self, places: list[int], begin: int, end: int) -> bool:
        at = bisect_left(places, begin)
        while at < len(places) and places[at] < end:
            if places[at] not in self._skipped:
                return True
            at += 1
        return False


class WantedLine:
    """The wanted jobs in the order in which a `JobQueue` of all waiting jobs has them."""

    def __init__(self, orders: Orders, index: JobIndex, wanted: Iterable[tuple[JobKey, Gang]]) -> None:
        """`wanted`: the jobs as they will be, each behind its key. `index`: the waiting jobs as they are."""
        self._orders = orders
        by_row: dict[int, list[tuple[JobKey, Gang]]] = {}
        for entry in wanted:
            by_row.setdefault(entry[1].job.queue_row, []).append(entry)
        self._lanes = {row: _Lane(row, jobs, index) for row, jobs in by_row.items()}
        self._heap: list[tuple[QueueKey, int]] = []
        #: The lanes whose keys have changed.
        self._moved = [*self._lanes.values()]
        #: Whether two queues were equal: then the order is not known, also not that of the job that was taken last.
        self.is_tied = False

    def take_one_of(self, wanted: Collection[str], left: Counter[int]) -> Gang:
        """Take the next job, as `JobQueue` does; all are wanted.

        `left`: by queue row, how many are left; it is kept up to date.
        """
        lane = self._lanes[next(iter(left))] if len(left) == 1 else self._next()
        gang = lane.take()
        left[lane.row] -= 1
        if not left[lane.row]:
            del left[lane.row]
        else:
            self._moved.append(lane)
        return gang

    def _next(self) -> _Lane:
        for lane in self._moved:
            lane.look_ahead()
            self._push(lane)
        self._moved.clear()
        while True:
            key, row = heappop(self._heap)
            if self._heap and self._heap[0][0] == key:
                self.is_tied = True
            lane = self._lanes[row]
            if not lane.asked:
                return lane
            lane.asked = ()
            self._push(lane)

    def _push(self, lane: _Lane) -> None:
        """Order a queue by the jobs on the way to its wanted one, or else by that job, which is not asked before."""
        # The queue waits longest at the job with the largest key: it stands for all jobs before the wanted one.
        key_of, row = self._orders.queue_key, lane.row
        if lane.asked:
            key = max(key_of(row, asked, ZERO) for asked in lane.asked)
        else:
            key = key_of(row, lane.wanted[-1][1].requested(), ZERO)
        heappush(self._heap, (key, row))

    def last_read(self, left: Collection[int]) -> Iterator[tuple[int, JobKey]]:
        """Return by queue row the key of the last job on which the order depended, or of one behind it.

        `left`: the queues that still have wanted jobs.
        """
        for row, lane in self._lanes.items():
            yield row, lane.wanted[-1][0] if row in left else lane.seen
