"""Simulations in plain numbers: whether a job finds room once the victims of a scenario are evicted.

A simulation places the victims again, in the order of queues. Evictions let queues fall below their shares, so that
their victims come first and take the room back. That is most scenarios. The order depends on the sums of queues; which
node a task takes often depends on GPUs alone. Then both are known without placing anything.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from copy import copy
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from pyscheduler.batch.axis import GPU
from pyscheduler_batch.kai.prospects import Prospects

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from numpy.typing import NDArray

    from pyscheduler.batch.tasks import Task
    from pyscheduler_batch.kai.cycle import Cycle
    from pyscheduler_batch.kai.gang import Gang
    from pyscheduler_batch.kai.job_queue import JobKey, JobQueue
    from pyscheduler_batch.kai.placement import Placement
    from pyscheduler_batch.kai.scenario import Scenario
    from pyscheduler_batch.kai.search_memory import Reads
    from pyscheduler_batch.kai.wanted_line import WantedLine

__all__ = ["FreeGpus", "Outcome", "Rehearsal"]

#: Other tasks of the scheduler may run after so many jobs.
_TURN_EVERY: Final = 64
#: With more nodes that have idle GPUs, nothing is rehearsed: each task looks at all of them.
_MOST_IDLE: Final = 64
#: Nor with more nodes that have free GPUs: then it costs more than it spares. So many, and some more for each victim.
_MOST_FREE: Final = 64
_MORE_FREE: Final = 4


class FreeGpus:
    """The free GPUs of nodes, as tasks take them: nodes with enough idle GPUs first, then the least free, then by name.

    `free` and `idle`: float64[n], whole numbers, by name of the node; `free` counts what is being released, too.
    `tasks`: all that may take some.
    """

    def __init__(self, free: NDArray[np.float64], idle: NDArray[np.float64], tasks: Sequence[Task]) -> None:
        #: UIDs of the tasks, and of their jobs.
        self.tasks = {task.uid for task in tasks}
        self.jobs = {task.job.uid for task in tasks}
        has_idle = idle > 0
        #: Free GPUs and place by name, sorted; and those with idle GPUs: these, free GPUs and place.
        self._busy = sorted((amount, at) for at, amount in _positive(free, ~has_idle))
        self._idle = [(float(idle[at]), amount, at) for at, amount in _positive(free, has_idle)]

    def copy(self) -> FreeGpus:
        """Return the same GPUs, to be taken by others."""
        result = copy(self)
        result._busy, result._idle = [*self._busy], [*self._idle]  # noqa: SLF001 - of this class
        return result

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


def _positive(free: NDArray[np.float64], chosen: NDArray[np.bool_]) -> Iterable[tuple[int, float]]:
    places = np.flatnonzero(chosen & (free > 0))
    return zip(places.tolist(), free[places].tolist(), strict=True)


@attrs.define
class Outcome:
    """What a simulation comes to."""

    #: False if only the simulation itself can tell; then the rest means nothing.
    is_sure: bool = True
    #: Whether the job finds room; if not, the simulation ends with it.
    is_placed: bool = False
    #: UIDs of the tasks that find a node.
    placed: set[str] = attrs.Factory(set)
    #: For each other job that finds no room, the first task without a node.
    refused: list[Task] = attrs.Factory(list)
    #: The line, and the queues that still have wanted jobs in it.
    line: JobQueue | WantedLine | None = None
    left: Collection[int] = ()

    def note(self, reads: Reads) -> None:
        """Note what the line has read."""
        if self.line is not None:
            reads.note(self.line, self.left)


class Rehearsal:
    """What simulations of a pass share."""

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle
        self._placement: Placement = cycle.placement
        self._prospects = Prospects(cycle.session, cycle.virtual, cycle.job_key)
        #: By uid, the GPUs of a task whose node depends on GPUs alone; 0 for others.
        self._sizes: dict[str, float] = {}
        #: float64[R]: the most that such tasks request per GPU; and by id, the nodes that filters accept for them.
        self._per_gpu = np.zeros(len(cycle.session.axis))
        self._masks: dict[int, NDArray[np.bool_]] = {}

    async def foresee(self, gang: Gang, scenario: Scenario, rows: NDArray[np.int64]) -> Outcome | None:
        """Rehearse a plan before anything is evicted. None: the victims must be evicted first.

        `rows`: the nodes, by name.
        """
        cycle, victims = self._cycle, scenario.tasks
        # Other orders may depend on what else is evicted; and what is named twice leaves its queues twice.
        if not cycle.kept.is_stable or len({task.uid for task in victims}) < len(victims):
            return None
        free = self._free(gang, victims, rows, is_evicted=False)
        if free is None:
            return Outcome(is_sure=False)
        wanted = [(cycle.job_key(gang), gang)]
        for at, (victim, tasks) in enumerate(scenario.by_job().values(), start=1):
            found = self._prospects.evicted(victim, tasks)
            if found is None:
                return None
            wanted.append(found)
            if at % _TURN_EVERY == 0:
                await cycle.session.turn()
        return await self._rehearse(gang, free, wanted, victims)

    async def outcome(self, gang: Gang, victims: Sequence[Task], rows: NDArray[np.int64]) -> Outcome:
        """Rehearse a plan whose victims are evicted already. `rows`: the nodes, by name."""
        free = self._free(gang, victims, rows, is_evicted=True)
        if free is None:
            return Outcome(is_sure=False)
        return await self._rehearse(gang, free, self._cycle.in_line(gang, victims), ())

    async def _rehearse(
        self, gang: Gang, free: FreeGpus, wanted: Sequence[tuple[JobKey, Gang]], leaving: Sequence[Task]
    ) -> Outcome:
        """Rehearse with the short line; if two queues are equal, with heaps.

        `wanted`: the jobs once the victims are evicted, each behind its key. `leaving`: the victims that still count in
        their queues.
        """
        cycle = self._cycle
        left = Counter(each.job.queue_row for _, each in wanted)
        for line_of in (cycle.wanted_line, cycle.line_of) if cycle.knows_order else (cycle.line_of,):
            with cycle.proportion.for_now() as book:
                for task in leaving:
                    book(task, placed=False)
                found = await self._play(gang, free.copy(), line_of(wanted), Counter(left), book)
            if found is not None:
                return found
        raise AssertionError("heaps know which of two equal queues comes first")

    async def _play(
        self, gang: Gang, free: FreeGpus, line: JobQueue | WantedLine, left: Counter[int], book: Callable[..., None]
    ) -> Outcome | None:
        """Place the jobs of a line in plain numbers. None: two queues were equal.

        `left`: by queue row, how many there are; it is used up. `book(task, placed=True)` changes the sums of queues.
        """
        proportion, found = self._cycle.proportion, Outcome(line=line, left=left)
        for at in range(1, left.total() + 1):
            following = line.take_one_of(free.jobs, left)
            if line.is_tied:
                return None
            tasks = following.to_place()
            if not following.is_simple() or not free.tasks.issuperset(task.uid for task in tasks):
                return Outcome(is_sure=False)
            if tasks and proportion.over_capacity(following.job, proportion.total(tasks)) is None:
                failed = free.place([*map(self._size, tasks)])
                if failed is None:
                    for task in tasks:
                        book(task)
                        found.placed.add(task.uid)
                elif not following.is_part:
                    found.refused.append(tasks[failed])
            if following.job is gang.job and not (tasks and tasks[0].uid in found.placed):
                return found
            if at % _TURN_EVERY == 0:
                await self._cycle.session.turn()
        found.is_placed = True
        return found

    def _free(
        self, gang: Gang, victims: Sequence[Task], rows: NDArray[np.int64], *, is_evicted: bool
    ) -> FreeGpus | None:
        """Return the GPUs of the nodes `rows` (by name) without the victims, which are or are not evicted yet.

        None if more than GPUs decides where a task goes.
        """
        # A victim that is on its way to another node may go back to a node that has no room.
        if not self._placement.packs_gpus() or any(task.leaving for task in victims):
            return None
        tasks = [*gang.to_place(), *victims]
        if not all(map(self._size, tasks)):
            return None
        table, column = self._placement.table, self._cycle.session.axis.index[GPU]
        idle = table.idle[rows]
        later = idle + table.releasing[rows] - table.pipelined[rows]
        if not is_evicted:
            rank = self._placement.name_rank
            places = np.searchsorted(rank[rows], rank[[task.node for task in victims]])
            np.add.at(later, places, np.array([task.request for task in victims]))
        gpus, idle_gpus = later[:, column], idle[:, column]
        if np.count_nonzero(gpus > 0) > _MOST_FREE + _MORE_FREE * len(victims):
            return None
        if np.count_nonzero(idle_gpus > 0) > _MOST_IDLE or not all(mask[rows].all() for mask in self._masks.values()):
            return None
        for amounts, own in ((later, gpus), (idle, idle_gpus)):
            # Who has enough GPUs has enough of all: that stays so when tasks take their part.
            if not (amounts >= np.maximum(own, 0.0)[:, None] * self._per_gpu).all() or (own % 1).any():
                return None
        return FreeGpus(gpus, idle_gpus, tasks)

    def _size(self, task: Task) -> float:
        size = self._sizes.get(task.uid)
        if size is None:
            size = self._placement.gpus(task)
            is_nominated = task.pod is not None and task.pod.status.nominated_node_name
            if size <= 0 or size % 1 or is_nominated or not self._cycle.session.lasts(task):
                size = 0.0
            else:
                mask = self._placement.matches(task)
                self._masks[id(mask)] = mask
                self._per_gpu = np.maximum(self._per_gpu, task.request / size)
            self._sizes[task.uid] = size
        return size
