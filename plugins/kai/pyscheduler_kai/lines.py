"""Sorted lists of jobs: waiting jobs, possible victims, and jobs to place after simulated evictions."""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING

from pyscheduler_batch.disruption_budgets import budgets_of
from pyscheduler_kai.backlog import is_waiting
from pyscheduler_kai.domain_search import DomainGenerator
from pyscheduler_kai.job_index import KEY_OF, sorted_by_queue
from pyscheduler_kai.job_queue import JobQueue
from pyscheduler_kai.sparing_orders import SparingOrders
from pyscheduler_kai.wanted_line import WantedLine

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from pyscheduler_batch.contract import Job, Task
    from pyscheduler_kai.cycle import Cycle
    from pyscheduler_kai.gang import Gang
    from pyscheduler_kai.job_index import JobIndex
    from pyscheduler_kai.job_queue import JobKey, Orders
    from pyscheduler_kai.switches import ScenarioGenerator

__all__ = ["Lines"]


class Lines:
    """The lines of a pass."""

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle
        #: By queue the one at the top of its tree; parents come before their children.
        self._top: list[int] = []
        for row, above in enumerate(cycle.parents):
            self._top.append(row if above < 0 else self._top[above])
        self._pending, self._running = cycle.kept.pending, cycle.kept.running
        budgets = budgets_of(cycle.session)
        running = (job for jobs in self._running.jobs.values() for job in jobs.values())
        #: The budgets by which victims are ordered; None if none concerns a job.
        self._budgets = budgets if budgets is not None and budgets.concern(running) else None
        self._touched_pending = cycle.touched()
        self._touched_running = {*self._touched_pending}

    def waiting(self, *, evicts: bool = False, preemptible: bool = False, depth: str | None = None) -> JobQueue:
        """Return the jobs with pending tasks that are complete enough to be placed, in the order of queues.

        `evicts`: leave out jobs that may not yet evict others. `preemptible`: only preemptible jobs. `depth`: a number,
        so many jobs of each queue at most; -1 or None for all.
        """
        if not evicts and not preemptible and depth is None and not self._cycle.session.ledger.moved:
            index, forest = self._cycle.kept.backlog.index, self._cycle.kept.backlog.forest
            stale = forest.stale(self._cycle.proportion.order_inputs(), self._cycle.proportion.pool)
            return JobQueue.kept(self._cycle, index.entries, forest, stale)
        jobs = self._waiting(
            lambda job: (job.preemptible or not preemptible) and (not evicts or self._cycle.may_evict(job))
        )
        most = int(depth or -1)
        if most >= 0:
            jobs = {row: entries[:most] for row, entries in jobs.items()}
        line = JobQueue(self._cycle, jobs)
        line.mark_all()
        return line

    def _waiting(self, accepts: Callable[[Job], bool]) -> dict[int, list[tuple[JobKey, Gang]]]:
        """Return the accepted jobs with pending tasks that are complete enough to be placed, by queue, sorted by key.

        A line outlives changes of the index: it has lists of its own.
        """
        index, touched = self._cycle.kept.backlog.index, self._cycle.touched()
        found = {
            row: [entry for entry in index.entries(row) if entry[1].job.uid not in touched and accepts(entry[1].job)]
            for row in [*index.jobs]
        }
        for gang in (self._cycle.gangs[uid] for uid in touched if self._pending.job(uid) is not None):
            if is_waiting(gang) and accepts(gang.job):
                insort(found.setdefault(gang.job.queue_row, []), (self._cycle.job_key(gang), gang), key=KEY_OF)
        return found

    def _settle(self, index: JobIndex, touched: set[str]) -> None:
        """Put jobs that changed in their place in an index."""
        news = self._cycle.proportion.touched
        if news:
            self._touched_pending |= news
            self._touched_running |= news
            news.clear()
        if touched:
            index.settle([self._cycle.gangs[uid] for uid in touched])
            touched.clear()

    def in_line(self, gang: Gang, victims: Iterable[Task]) -> list[tuple[JobKey, Gang]]:
        """Return the jobs that a simulation places, behind their keys, once victims are evicted.

        `gang` stands for its job.
        """
        whole = (self._cycle.gangs[uid] for uid in dict.fromkeys(task.job.uid for task in victims))
        return [(self._cycle.job_key(each), each) for each in (gang, *whole)]

    def line_of(self, wanted: Sequence[tuple[JobKey, Gang]]) -> JobQueue:
        """Return the line of all jobs with pending tasks, of which these are to be placed; they are as given here."""
        uids = {gang.job.uid for _, gang in wanted}
        # Top queues without any of them do not change their order.
        tops = {self._top[gang.job.queue_row] for _, gang in wanted}
        self._cycle.reads.tops |= tops
        return JobQueue(
            self._cycle,
            self.pending_under(tops),
            added=wanted,
            accepts=lambda other: other.job.uid not in uids,
            is_total=self._cycle.knows_order,
        )

    def wanted_line(self, wanted: Sequence[tuple[JobKey, Gang]]) -> WantedLine:
        """Return the order of these jobs in `line_of`; only if `knows_order`."""
        self._cycle.reads.tops.update(gang.job.queue_row for _, gang in wanted)
        self._settle(self._pending, self._touched_pending)
        return WantedLine(self._cycle, self._pending, wanted)

    def pending_under(self, tops: Collection[int]) -> Mapping[int, Sequence[tuple[JobKey, Gang]]]:
        """Return the jobs with pending tasks under these top queues: by queue, sorted by key."""
        self._settle(self._pending, self._touched_pending)
        return self._pending.by_queue(row for row in self._pending.jobs if self._top[row] in tops)

    def victims(self, accepts: Callable[[Gang], bool], accepts_queue: Callable[[int], bool]) -> JobQueue:
        """Return the line of preemptible jobs with placed tasks, as far as they are accepted, the last first."""
        self._settle(self._running, self._touched_running)
        chosen = self._running.by_queue(filter(accepts_queue, self._running.jobs))
        if self._budgets is None:
            return JobQueue(self._cycle, chosen, victims=True, accepts=accepts)
        return self.line_of_victims(gang for entries in chosen.values() for _, gang in entries if accepts(gang))

    async def read_victims(self, accepts_queue: Callable[[int], bool]) -> None:
        """Read the jobs that a search looks at, as far as they were not read yet."""
        for index, rows in (
            (self._running, filter(accepts_queue, self._running.jobs)),
            (self._pending, self._pending.jobs),
        ):
            for _ in index.read(rows):
                await self._cycle.session.turn()

    def running(self, accepts_queue: Callable[[int], bool]) -> Iterator[Gang]:
        """Return the preemptible jobs with placed tasks, as far as their queues are accepted."""
        self._settle(self._running, self._touched_running)
        for entries in self._running.by_queue(filter(accepts_queue, self._running.jobs)).values():
            for _, gang in entries:
                yield gang

    def domains_for(self, gang: Gang, candidates: Callable[[], Iterable[Gang]] | None) -> ScenarioGenerator | None:
        """Return what proposes victims domain by domain, for a job that requires a topology domain; else None."""
        constraint, topology = gang.root.constraint, self._cycle.placement.topology
        if candidates is None or constraint is None or not constraint.required or topology is None:
            return None
        tree = topology.tree(constraint.topology)
        level = -1 if tree is None else tree.level(constraint.required)
        if tree is None or level < 0:
            return None
        return DomainGenerator(tree, level, candidates, self._in_order)

    def _in_order(self, gangs: Iterable[Gang]) -> Sequence[Gang]:
        line, found = self.line_of_victims(gangs), []
        while line:
            found.append(line.pop())
        return found

    def line_of_victims(self, gangs: Iterable[Gang]) -> JobQueue:
        """Return the line of these victims, the last first."""
        orders: Orders = self._cycle if self._budgets is None else SparingOrders(self._cycle, self._budgets)
        return JobQueue(orders, sorted_by_queue(gangs, orders.job_key), victims=True)

    def next_victim(self, line: JobQueue) -> Gang:
        """Take the next victim out of a line; changes of a simulation must have been undone."""
        self._settle(self._running, self._touched_running)
        return line.pop()
