"""Compute whether a waiting job finds room after planned evictions, without simulating the placements."""

# Row of the benchmark: batch-philly. Without this module, its first 8,824 plans take 1.8 times as long.

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler_kai.gang import ZERO, subtract
from pyscheduler_kai.prospects import Prospects
from pyscheduler_kai.vacancy import TaskFacts, Vacancy

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Job, Task
    from pyscheduler_kai.cycle import Cycle
    from pyscheduler_kai.gang import Gang, Quantities
    from pyscheduler_kai.job_queue import JobQueue
    from pyscheduler_kai.prospects import Prospect
    from pyscheduler_kai.scenario import Scenario
    from pyscheduler_kai.search_memory import Reads
    from pyscheduler_kai.vacancy import FreeGpus
    from pyscheduler_kai.wanted_line import WantedLine

__all__ = ["Outcome", "Rehearsal"]

#: Other tasks of the scheduler may run after so many jobs.
_TURN_EVERY: Final = 64


@attrs.define
class Outcome:
    """The outcome of a simulation."""

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
    """The shared state of the simulations of a pass."""

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle
        self._facts = TaskFacts(cycle.session, cycle.placement)
        self._prospects = Prospects(
            cycle.session,
            cycle.virtual,
            job_key=cycle.job_key,
            total=cycle.proportion.total,
            size=self._facts.size,
        )
        #: The job of the last plan; it stays the same while the victims of its plans differ.
        self._own: Prospect | None = None

    def vacancy(self, rows: NDArray[np.int64]) -> Vacancy | None:
        """Return what nodes have free, for `foresee`, until something is moved; None if GPUs alone do not decide.

        `rows`: of the node table; other nodes have no free GPUs.
        """
        placement = self._cycle.placement
        return Vacancy(placement, rows, self._facts) if placement.packs_gpus() else None

    async def foresee(self, gang: Gang, scenario: Scenario, vacancy: Vacancy | None) -> Outcome | None:
        """Rehearse a plan before anything is evicted. None: the victims must be evicted first."""
        cycle, victims = self._cycle, scenario.tasks
        # Other orders may depend on what else is evicted; and what is named twice leaves its queues twice.
        if not cycle.kept.is_stable or len({task.uid for task in victims}) < len(victims):
            return None
        free = self._free(gang, victims, vacancy)
        if free is None:
            return Outcome(is_sure=False)
        own = self._own
        if own is None or own.gang is not gang:
            own = self._own = self._prospects.of(cycle.job_key(gang), gang, gang.to_place())
        wanted = [own]
        for at, (victim, tasks) in enumerate(scenario.by_job().values(), start=1):
            found = self._prospects.evicted(victim, tasks)
            if found is None:
                return None
            wanted.append(found)
            if at % _TURN_EVERY == 0:
                await cycle.session.turn()
        return await self._rehearse(own, free, wanted)

    async def outcome(self, gang: Gang, victims: Sequence[Task], rows: NDArray[np.int64]) -> Outcome:
        """Rehearse a plan whose victims are evicted already. `rows`: all nodes with free GPUs."""
        free = self._free(gang, victims, self.vacancy(rows), is_evicted=True)
        if free is None:
            return Outcome(is_sure=False)
        tasks = [*gang.to_place(), *victims]
        wanted = [self._prospects.of(key, each, tasks) for key, each in self._cycle.lines.in_line(gang, victims)]
        return await self._rehearse(wanted[0], free, wanted)

    async def _rehearse(self, own: Prospect, free: FreeGpus, wanted: Sequence[Prospect]) -> Outcome:
        """Rehearse with the short line; if two queues are equal, with heaps. `own`: the job for which the plan is."""
        cycle = self._cycle
        entries = [(each.key, each.gang) for each in wanted]
        for line_of in (cycle.lines.wanted_line, cycle.lines.line_of) if cycle.knows_order else (cycle.lines.line_of,):
            with cycle.proportion.for_now() as book:
                for each in wanted:
                    if each.lost is not ZERO:
                        book(each.gang.job, subtract(ZERO, each.lost))
                found = await self._play(own, free.copy(), wanted, line_of(entries), book)
            if found is not None:
                return found
        raise AssertionError("heaps know which of two equal queues comes first")

    async def _play(
        self,
        own: Prospect,
        free: FreeGpus,
        wanted: Sequence[Prospect],
        line: JobQueue | WantedLine,
        book: Callable[[Job, Quantities], None],
    ) -> Outcome | None:
        """Place the jobs of a line in plain numbers. None: two queues were equal.

        `book` changes the sums of the queues of a job.
        """
        by_uid = {each.gang.job.uid: each for each in wanted}
        left = Counter([each.gang.job.queue_row for each in wanted])
        over_capacity, found = self._cycle.proportion.over_capacity, Outcome(line=line, left=left)
        for at in range(1, len(wanted) + 1):
            following = by_uid[line.take_one_of(by_uid, left).job.uid]
            if line.is_tied:
                return None
            if not following.is_plain:
                return Outcome(is_sure=False)
            job, tasks, is_placed = following.gang.job, following.tasks, False
            if tasks and over_capacity(job, following.total) is None:
                failed = free.place(following.sizes)
                is_placed = failed is None
                if failed is None:
                    book(job, following.total)
                    found.placed.update([task.uid for task in tasks])
                elif not following.gang.is_part:
                    found.refused.append(tasks[failed])
            if following is own and not is_placed:
                return found
            if at % _TURN_EVERY == 0:
                await self._cycle.session.turn()
        found.is_placed = True
        return found

    def _free(
        self, gang: Gang, victims: Sequence[Task], vacancy: Vacancy | None, *, is_evicted: bool = False
    ) -> FreeGpus | None:
        """Return the GPUs without the victims, which are or are not evicted yet.

        None if more than GPUs decides where a task goes.
        """
        # A victim that is on its way to another node may go back to a node that has no room.
        if vacancy is None or any(task.leaving for task in victims):
            return None
        if not all(map(self._facts.size, [*gang.to_place(), *victims])):
            return None
        return vacancy.without(() if is_evicted else victims)
