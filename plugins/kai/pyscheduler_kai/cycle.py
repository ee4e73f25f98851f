"""The state that the actions of a pass share: gangs, orders, placement, and the tasks that the statement evicted."""

from __future__ import annotations

from bisect import insort
from collections import deque
from typing import TYPE_CHECKING, Final, TypeVar

from pyscheduler_batch.contract import ACTIVE, Policy, ScenarioRule, VictimFilter
from pyscheduler_batch.disruption_budgets import budgets_of
from pyscheduler_batch.model.memory import Memory
from pyscheduler_batch.model.statement import position_of
from pyscheduler_kai.backlog import is_waiting
from pyscheduler_kai.domain_search import DomainGenerator
from pyscheduler_kai.job_index import KEY_OF, sorted_by_queue
from pyscheduler_kai.job_queue import JobQueue
from pyscheduler_kai.kept_jobs import KeptJobs, is_candidate
from pyscheduler_kai.look_alikes import signature
from pyscheduler_kai.min_runtime import MinRuntime
from pyscheduler_kai.orders import Keys
from pyscheduler_kai.placement import POD_SCHEDULING_ERRORS, Placement
from pyscheduler_kai.proportion import Proportion
from pyscheduler_kai.rehearsal import Rehearsal
from pyscheduler_kai.search_memory import Reads, may_remember
from pyscheduler_kai.sparing_orders import SparingOrders
from pyscheduler_kai.switches import ScenarioGenerator
from pyscheduler_kai.wanted_line import WantedLine

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from pyscheduler_batch.contract import Job, Session, Statement, Task, TaskState
    from pyscheduler_kai.asks import Asks
    from pyscheduler_kai.gang import Gang, Quantities
    from pyscheduler_kai.job_index import JobIndex
    from pyscheduler_kai.job_queue import JobKey, Orders
    from pyscheduler_kai.proportion import QueueKey

__all__ = ["DELAY_NOT_ELAPSED", "Cycle", "cycle_of", "prepared_cycle"]

_SMALL: Final = 64
#: Other tasks of the scheduler may run after so many changes of a statement.
_TURN_EVERY: Final = 32
_P = TypeVar("_P", bound=Policy)
DELAY_NOT_ELAPSED = "PreemptionDelayNotElapsed"


class Cycle:
    """One pass over the jobs."""

    def __init__(self, session: Session) -> None:
        self.session = session
        policies = _policies(session)
        self.proportion = _proportion(session)
        self.min_runtime = _first(policies, MinRuntime)
        self.generators = [policy for policy in policies if isinstance(policy, ScenarioGenerator)]
        self.placement = Placement(session, self.proportion, policies)
        #: UIDs of those that the open statement evicted.
        self._evicted: set[str] = set()
        self.victim_filters: list[VictimFilter] = [each for tier in session.policies(VictimFilter) for each in tier]
        self.scenario_rules: list[ScenarioRule] = [each for tier in session.policies(ScenarioRule) for each in tier]
        #: Evictions of tasks that the open statement had already evicted.
        self._repeated: list[tuple[Task, str, Job]] = []
        self.parents: list[int] = session.queues.parent.tolist()
        #: By queue the one at the top of its tree; parents come before their children.
        self._top: list[int] = []
        for row, above in enumerate(self.parents):
            self._top.append(row if above < 0 else self._top[above])
        self.job_key = Keys(policies).of_gang
        kept = self.kept = _kept_jobs(session)
        deque(kept.follow(session, self.proportion), maxlen=0)
        #: UIDs of the tasks that were evicted in thought only.
        self.virtual = kept.virtual
        #: By job uid; made when it is first asked for.
        self.gangs = kept.gangs
        self._pending, self._running = kept.pending, kept.running
        budgets = budgets_of(session)
        running = (job for jobs in self._running.jobs.values() for job in jobs.values())
        #: The budgets by which victims are ordered; None if none concerns a job.
        self._budgets = budgets if budgets is not None and budgets.concern(running) else None
        self.proportion.touched.clear()
        self._touched_pending = {task.job.uid for task, _ in session.ledger.moved.values()}
        self._touched_running = {*self._touched_pending}
        #: Whether failed searches are remembered.
        self.may_remember = may_remember(self)
        #: Which waiting jobs the simulations of a search have read.
        self.reads = Reads()
        self.rehearsal = Rehearsal(self)
        #: Whether the order of queues follows from their keys alone, as long as no two are equal.
        self.knows_order = self.may_remember and self.proportion.is_totally_ordered()
        #: An action among few jobs begins the searches that the original begins, since each leaves a reason.
        self.is_large = len(session.jobs) > _SMALL

    def queue_key(self, queue: int, adds: Quantities, removes: Quantities) -> QueueKey:
        """Return the key of a queue among its siblings."""
        return self.proportion.order_key(queue, adds, removes)

    def signature(self, gang: Gang) -> object:
        """Return the kind of a job for `LookAlikes`, as it was at the begin of the pass."""
        known, uid = self.kept.signatures, gang.job.uid
        if uid not in known:
            known[uid] = signature(gang, self._state_at_begin)
        return known[uid]

    def _state_at_begin(self, task: Task) -> TaskState:
        """Return the state of a task at the begin of the pass."""
        moved = self.session.ledger.moved.get(task.uid)
        return task.state if moved is None else moved[1].state

    def candidates(self) -> Iterator[Gang]:
        """Return the preemptible jobs with placed tasks, in the order of all jobs."""
        is_leaf = self.session.queues.is_leaf.tolist()
        for uid, job in self.session.jobs.items():
            if job.preemptible and job.queue_row >= 0 and is_leaf[job.queue_row] and job.count(ACTIVE):
                gang = self.gangs[uid]
                if is_candidate(gang):
                    yield gang

    def waiting(self, *, evicts: bool = False, preemptible: bool = False, depth: str | None = None) -> JobQueue:
        """Return the jobs with pending tasks that are complete enough to be placed, in the order of queues.

        `evicts`: leave out jobs that may not yet evict others. `preemptible`: only preemptible jobs. `depth`: a number,
        so many jobs of each queue at most; -1 or None for all.
        """
        if not evicts and not preemptible and depth is None and not self.session.ledger.moved:
            index, forest = self.kept.backlog.index, self.kept.backlog.forest
            stale = forest.stale(self.proportion.order_inputs(), self.proportion.pool)
            return JobQueue.kept(self, index.entries, forest, stale)
        jobs = self._waiting(lambda job: (job.preemptible or not preemptible) and (not evicts or self._may_evict(job)))
        most = int(depth or -1)
        if most >= 0:
            jobs = {row: entries[:most] for row, entries in jobs.items()}
        line = JobQueue(self, jobs)
        line.mark_all()
        return line

    def _waiting(self, accepts: Callable[[Job], bool]) -> dict[int, list[tuple[JobKey, Gang]]]:
        """Return the accepted jobs with pending tasks that are complete enough to be placed, by queue, sorted by key.

        A line outlives changes of the index: it has lists of its own.
        """
        index, touched = self.kept.backlog.index, self._touched()
        found = {
            row: [entry for entry in index.entries(row) if entry[1].job.uid not in touched and accepts(entry[1].job)]
            for row in [*index.jobs]
        }
        for gang in (self.gangs[uid] for uid in touched if self._pending.job(uid) is not None):
            if is_waiting(gang) and accepts(gang.job):
                insort(found.setdefault(gang.job.queue_row, []), (self.job_key(gang), gang), key=KEY_OF)
        return found

    def _touched(self) -> set[str]:
        """Return the uids of the jobs that changed since the begin of the pass."""
        return {task.job.uid for task, _ in self.session.ledger.moved.values()}

    def has_moved_tasks(self) -> bool:
        """Return whether the pass has moved a running task to another node."""
        return any(task.leaving for task, _ in self.session.ledger.moved.values())

    def asks(self) -> Asks:
        """Return what the waiting jobs ask for, and maybe what they asked for at the begin of the pass."""
        return self.kept.backlog.asks(self._touched())

    def lowest_priorities(self) -> Mapping[int, float]:
        """Return by leaf queue a priority that no preemptible job with placed tasks is below."""
        return self.kept.lowest_priorities(self._touched())

    def note_delays(self, *, preemptible: bool) -> None:
        """Record which jobs may not yet evict others. `preemptible`: only preemptible jobs."""
        for gang in (self.gangs[uid] for uid in self.kept.backlog.delayed):
            if is_waiting(gang) and (gang.job.preemptible or not preemptible):
                self._may_evict(gang.job)

    def _may_evict(self, job: Job) -> bool:
        """Return whether a job may evict others by now; record it if it may not."""
        if not self._is_delayed(job):
            return True
        message = f"may evict others {job.preemption_delay:g} s after its creation or last eviction"
        self.session.record(job, DELAY_NOT_ELAPSED, message)
        return False

    def _settle(self, index: JobIndex, touched: set[str]) -> None:
        """Put jobs that changed in their place in an index."""
        news = self.proportion.touched
        if news:
            self._touched_pending |= news
            self._touched_running |= news
            news.clear()
        if touched:
            index.settle([self.gangs[uid] for uid in touched])
            touched.clear()

    def in_line(self, gang: Gang, victims: Iterable[Task]) -> list[tuple[JobKey, Gang]]:
        """Return the jobs that a simulation places, behind their keys, once victims are evicted.

        `gang` stands for its job.
        """
        whole = (self.gangs[uid] for uid in dict.fromkeys(task.job.uid for task in victims))
        return [(self.job_key(each), each) for each in (gang, *whole)]

    def line_of(self, wanted: Sequence[tuple[JobKey, Gang]]) -> JobQueue:
        """Return the line of all jobs with pending tasks, of which these are to be placed; they are as given here."""
        uids = {gang.job.uid for _, gang in wanted}
        # Top queues without any of them do not change their order.
        tops = {self._top[gang.job.queue_row] for _, gang in wanted}
        self.reads.tops |= tops
        return JobQueue(
            self,
            self.pending_under(tops),
            added=wanted,
            accepts=lambda other: other.job.uid not in uids,
            is_total=self.knows_order,
        )

    def wanted_line(self, wanted: Sequence[tuple[JobKey, Gang]]) -> WantedLine:
        """Return the order of these jobs in `line_of`; only if `knows_order`."""
        self.reads.tops.update(gang.job.queue_row for _, gang in wanted)
        self._settle(self._pending, self._touched_pending)
        return WantedLine(self, self._pending, wanted)

    def pending_under(self, tops: Collection[int]) -> Mapping[int, Sequence[tuple[JobKey, Gang]]]:
        """Return the jobs with pending tasks under these top queues: by queue, sorted by key."""
        self._settle(self._pending, self._touched_pending)
        return self._pending.by_queue(row for row in self._pending.jobs if self._top[row] in tops)

    def largest_units(self, accepts_queue: Callable[[int], bool]) -> Mapping[int, float]:
        """Return by leaf queue the GPUs of its largest preemptible job: no unit of eviction is larger."""
        return self.kept.largest_units(accepts_queue)

    def victims(self, accepts: Callable[[Gang], bool], accepts_queue: Callable[[int], bool]) -> JobQueue:
        """Return the line of preemptible jobs with placed tasks, as far as they are accepted, the last first."""
        self._settle(self._running, self._touched_running)
        chosen = self._running.by_queue(filter(accepts_queue, self._running.jobs))
        if self._budgets is None:
            return JobQueue(self, chosen, victims=True, accepts=accepts)
        return self.line_of_victims(gang for entries in chosen.values() for _, gang in entries if accepts(gang))

    async def read_victims(self, accepts_queue: Callable[[int], bool]) -> None:
        """Read the jobs that a search looks at, as far as they were not read yet."""
        for index, rows in (
            (self._running, filter(accepts_queue, self._running.jobs)),
            (self._pending, self._pending.jobs),
        ):
            for _ in index.read(rows):
                await self.session.turn()

    def allows_victim(self, action: str, claimant: Job, victim: Gang) -> bool:
        """Return whether a job's run time allows to make it a victim."""
        return self.min_runtime is None or self.min_runtime.allows_victim(action, claimant, victim)

    def keeps_minimum(self, action: str, claimant: Job, victim: Gang, tasks: Sequence[Task]) -> bool:
        """Return whether a protected victim keeps its minimum without these tasks."""
        return self.min_runtime is None or self.min_runtime.keeps_minimum(action, claimant, victim, tasks)

    def running(self, accepts_queue: Callable[[int], bool]) -> Iterator[Gang]:
        """Return the preemptible jobs with placed tasks, as far as their queues are accepted."""
        self._settle(self._running, self._touched_running)
        for entries in self._running.by_queue(filter(accepts_queue, self._running.jobs)).values():
            for _, gang in entries:
                yield gang

    def domains_for(self, gang: Gang, candidates: Callable[[], Iterable[Gang]] | None) -> ScenarioGenerator | None:
        """Return what proposes victims domain by domain, for a job that requires a topology domain; else None."""
        constraint, topology = gang.root.constraint, self.placement.topology
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
        orders: Orders = self if self._budgets is None else SparingOrders(self, self._budgets)
        return JobQueue(orders, sorted_by_queue(gangs, orders.job_key), victims=True)

    def next_victim(self, line: JobQueue) -> Gang:
        """Take the next victim out of a line; changes of a simulation must have been undone."""
        self._settle(self._running, self._touched_running)
        return line.pop()

    def _is_delayed(self, job: Job) -> bool:
        if job.preemption_delay <= 0:
            return False
        since = job.created if job.last_eviction is None else max(job.created, job.last_eviction)
        end = since + job.preemption_delay
        self.session.wake(end)
        return self.session.now < end

    def statement(self) -> Statement:
        """Return a new statement; nothing counts as evicted by it yet."""
        self._evicted.clear()
        self._repeated.clear()
        return self.session.statement()

    async def evict(self, statement: Statement, tasks: Iterable[Task], *, action: str, by: Job) -> None:
        """Evict tasks within a statement."""
        for at, task in enumerate(tasks, start=1):
            if at % _TURN_EVERY == 0:
                await self.session.turn()
            if task.uid in self._evicted:
                # The original takes a task that a scenario names twice out of its queues' sums twice.
                self._repeated.append((task, action, by))
                self.proportion.book(task, placed=False)
                continue
            statement.evict(task, action=action, by=by)
            self._evicted.add(task.uid)
            self.virtual.add(task.uid)

    async def refuse_rest(self, popped: Collection[str], refuse: Callable[[Gang], Awaitable[object]]) -> None:
        """Record why the waiting jobs that were not popped find no room, where no node has room for any of them.

        `refuse` tries a job that may have another reason.
        """
        backlog, reasons = self.kept.backlog, self.session.reasons
        own = dict(reasons)
        reasons.update(backlog.refused)
        if (topology := self.placement.topology) is not None:
            for uid in backlog.constrained:
                constraint = self.gangs[uid].root.constraint
                if constraint is not None and (wrong := topology.problem(constraint)):
                    reasons[uid] = {POD_SCHEDULING_ERRORS: wrong}
        for uid in popped:
            reasons.pop(uid, None)
        reasons.update(own)
        for uid in backlog.others:
            if uid not in popped:
                await refuse(self.gangs[uid])

    async def undo(self, statement: Statement) -> None:
        """Undo a statement; other tasks of the scheduler may run meanwhile."""
        try:
            while (left := statement.checkpoint()) > _TURN_EVERY:
                statement.rollback(left - _TURN_EVERY)
                await self.session.turn()
        finally:
            self.discard(statement)

    def discard(self, statement: Statement) -> None:
        """Undo a statement at once."""
        statement.discard()
        for task, _, _ in self._repeated:
            self.proportion.book(task, placed=True)
        self._repeated.clear()

    async def commit(self, statement: Statement) -> None:
        """Carry out a statement; other tasks of the scheduler may run meanwhile."""
        first = {change.task.uid: change for change in reversed(statement.changes)}
        # An evicted task that stays where it was, even as a promise, is no eviction.
        evicted = {
            change.task.job.uid: change.task.job
            for uid, change in first.items()
            if uid in self._evicted and position_of(change.task) != change.old
        }
        try:
            await self.session.commit_in_turns(statement)
        finally:
            self.virtual -= self._evicted
        for task, action, by in self._repeated:
            self.session.effects.evict(task, action=action, by=by)
            evicted[task.job.uid] = task.job
        self._repeated.clear()
        for job in evicted.values():
            job.last_eviction = self.session.now


def _first(policies: Sequence[Policy], kind: type[_P]) -> _P | None:
    return next((policy for policy in policies if isinstance(policy, kind)), None)


async def prepared_cycle(session: Session) -> Cycle:
    """Return what the actions of this pass share; let other tasks of the scheduler run while jobs are read for it."""
    if Cycle not in session.extras:
        for _ in _kept_jobs(session).follow(session, _proportion(session)):
            await session.turn()
    return cycle_of(session)


def _policies(session: Session) -> list[Policy]:
    return [entry.policy for tier in session.tiers for entry in tier]


def _proportion(session: Session) -> Proportion:
    found = _first(_policies(session), Proportion)
    assert found is not None  # a profile without it is refused: `System.needed_policies`
    return found


def _kept_jobs(session: Session) -> KeptJobs:
    """Return what is kept of the jobs; something new if orders of further policies may change by themselves."""
    found = session.extras.get(KeptJobs)
    if found is None:
        keys = Keys(_policies(session))
        memory = session.memory if keys.is_stable else Memory()
        parents: list[int] = session.queues.parent.tolist()
        found = memory.get(KeptJobs, lambda: KeptJobs(keys, _proportion(session).quantities_of, parents))
        session.extras[KeptJobs] = found
    assert isinstance(found, KeptJobs)
    return found


def cycle_of(session: Session) -> Cycle:
    """Return what the actions of this pass share; made at the first call."""
    found = session.extras.get(Cycle)
    if found is None:
        found = session.extras[Cycle] = Cycle(session)
    assert isinstance(found, Cycle)
    return found
