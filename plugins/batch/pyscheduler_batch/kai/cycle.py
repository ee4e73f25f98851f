"""What the actions of a pass share: gangs, orders, placement, and the tasks that the open statement evicted."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeVar

from pyscheduler.batch.contract import JobOrder, Policy, ScenarioRule, TaskOrder, VictimFilter
from pyscheduler.batch.tasks import ACTIVE, TaskState
from pyscheduler.framework.errors import ConfigError
from pyscheduler_batch.kai.gang import Gang, Quantities
from pyscheduler_batch.kai.job_index import JobIndex, sorted_by_queue
from pyscheduler_batch.kai.job_queue import JobQueue
from pyscheduler_batch.kai.look_alikes import signature
from pyscheduler_batch.kai.min_runtime import MinRuntime
from pyscheduler_batch.kai.orders import Elastic
from pyscheduler_batch.kai.placement import Placement
from pyscheduler_batch.kai.proportion import Proportion
from pyscheduler_batch.kai.switches import ScenarioGenerator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyscheduler.batch.session import Session
    from pyscheduler.batch.statement import Statement
    from pyscheduler.batch.tasks import Job, Task
    from pyscheduler_batch.kai.proportion import QueueKey

__all__ = ["DELAY_NOT_ELAPSED", "Cycle", "cycle_of", "is_candidate"]

_SMALL: Final = 64
_P = TypeVar("_P", bound=Policy)
DELAY_NOT_ELAPSED = "PreemptionDelayNotElapsed"


class _Gangs(dict[str, Gang]):
    """Gangs by job uid, made when they are first asked for."""

    def __init__(self, jobs: Mapping[str, Job], make: Callable[[Job], Gang]) -> None:
        super().__init__()
        self._jobs = jobs
        self._make = make

    def __missing__(self, uid: str) -> Gang:
        gang = self[uid] = self._make(self._jobs[uid])
        return gang


class Cycle:
    """One pass over the jobs."""

    def __init__(self, session: Session) -> None:
        self.session = session
        policies = [entry.policy for tier in session.tiers for entry in tier]
        proportion = _first(policies, Proportion)
        if proportion is None:
            raise ConfigError('preset kai: the actions need the policy "proportion"; add it to a tier')
        self.proportion = proportion
        self.min_runtime = _first(policies, MinRuntime)
        self.generators = [policy for policy in policies if isinstance(policy, ScenarioGenerator)]
        self.placement = Placement(session, self.proportion, policies)
        #: UIDs of the tasks that were evicted in thought only.
        self.virtual: set[str] = set()
        #: UIDs of those that the open statement evicted.
        self._evicted: set[str] = set()
        self.victim_filters: list[VictimFilter] = [each for tier in session.policies(VictimFilter) for each in tier]
        self.scenario_rules: list[ScenarioRule] = [each for tier in session.policies(ScenarioRule) for each in tier]
        #: Evictions of tasks that the open statement had already evicted.
        self._repeated: list[tuple[Task, str, Job]] = []
        self.parents: list[int] = session.queues.parent.tolist()
        self._top = [path.tolist()[-1] for path in session.queues.paths]
        self._job_keys: list[Callable[[Gang], tuple[float | str, ...]]] = [
            policy.gang_key if isinstance(policy, Elastic) else _whole_job(policy)
            for policy in policies
            if isinstance(policy, Elastic | JobOrder)
        ]
        self._task_orders = [policy for policy in policies if isinstance(policy, TaskOrder)]
        #: By job uid; made when it is first asked for.
        self.gangs = _Gangs(session.jobs, self._gang_of)
        self._signatures: dict[str, object] = {}
        pending = self._jobs_by_queue(lambda job: bool(job.counts[TaskState.PENDING]))
        self._pending = JobIndex(pending, self._gang, Gang.has_pending, self.job_key)
        self.proportion.touched.clear()
        self._touched_pending: set[str] = set()
        self._touched_running: set[str] = set()
        self._largest_units: dict[int, float] = {}
        #: A search among few jobs simulates all that the original does, since each attempt leaves its reason.
        self.is_large = len(session.jobs) > _SMALL

    def _task_key(self, task: Task) -> tuple[float | str, ...]:
        key: tuple[float | str, ...] = ()
        for policy in self._task_orders:
            key += policy.task_key(task)
        return (*key, task.created, task.uid)

    def job_key(self, gang: Gang) -> tuple[float | str, ...]:
        """Return the key of a job among the jobs of its queue; a gang that lost members comes first."""
        key: tuple[float | str, ...] = (0.0 if gang.job.is_broken else 1.0,)
        for part in self._job_keys:
            key += part(gang)
        return (*key, gang.job.created, gang.job.uid)

    def queue_key(self, queue: int, adds: Quantities, removes: Quantities) -> QueueKey:
        """Return the key of a queue among its siblings."""
        return self.proportion.order_key(queue, adds, removes)

    def signature(self, gang: Gang) -> object:
        """Return the kind of a job for `LookAlikes`, as it was when it was first asked for."""
        uid = gang.job.uid
        if uid not in self._signatures:
            self._signatures[uid] = signature(gang)
        return self._signatures[uid]

    @cached_property
    def _running(self) -> JobIndex:
        """Return the candidates for eviction."""
        return JobIndex(self._jobs_by_queue(lambda job: job.preemptible), self._gang, is_candidate, self.job_key)

    def _gang_of(self, job: Job) -> Gang:
        return Gang.of(job, self._task_key, self.proportion.quantities, self.virtual)

    def _gang(self, job: Job) -> Gang:
        return self.gangs[job.uid]

    def _jobs_by_queue(self, has: Callable[[Job], bool]) -> dict[int, list[Job]]:
        """Return by row of a leaf queue its jobs of which `has` is true."""
        is_leaf = self.session.queues.is_leaf.tolist()
        result: dict[int, list[Job]] = {}
        for job in self.session.jobs.values():
            row = job.queue_row
            if row >= 0 and has(job) and is_leaf[row]:
                result.setdefault(row, []).append(job)
        return result

    def candidates(self) -> Iterator[Gang]:
        """Return the preemptible jobs with placed tasks, in no order."""
        for jobs in self._running.jobs.values():
            for job in jobs:
                if job.count(ACTIVE) and is_candidate(gang := self._gang(job)):
                    yield gang

    def waiting(self, *, evicts: bool = False, preemptible: bool = False, depth: str | None = None) -> JobQueue:
        """Return the jobs with pending tasks that are complete enough to be placed.

        `evicts`: leave out jobs that may not yet evict others. `preemptible`: only preemptible jobs. `depth`: a number,
        so many jobs of each queue at most; -1 or None for all.
        """
        # The line outlives changes of the index: it has lists of its own.
        jobs = sorted_by_queue(self._waiting(evicts=evicts, preemptible=preemptible), self.job_key)
        most = int(depth or -1)
        if most >= 0:
            jobs = {row: entries[:most] for row, entries in jobs.items()}
        return JobQueue(self, jobs)

    def _waiting(self, *, evicts: bool, preemptible: bool) -> Iterator[Gang]:
        for job in (job for jobs in self._pending.jobs.values() for job in jobs):
            gang = self._gang(job)
            if not gang.has_pending() or not gang.is_ready():
                continue
            if preemptible and not job.preemptible:
                continue
            if evicts and self._is_delayed(job):
                message = f"may evict others {job.preemption_delay:g} s after its creation or last eviction"
                self.session.record(job, DELAY_NOT_ELAPSED, message)
                continue
            yield gang

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

    def line_for(self, gang: Gang, victims: Iterable[Gang]) -> JobQueue:
        """Return the line in a simulation: all jobs with pending tasks and the victims; `gang` stands for its job."""
        self._settle(self._pending, self._touched_pending)
        own = gang.job.uid
        wanted = [gang, *victims]
        added = [gang, *(victim for victim in wanted[1:] if not victim.has_pending())]
        # Top queues without any of them do not change their order.
        tops = {self._top[each.job.queue_row] for each in wanted}
        jobs = self._pending.by_queue(row for row in self._pending.jobs if self._top[row] in tops)
        return JobQueue(self, jobs, added=added, accepts=lambda other: other.job.uid != own)

    def largest_units(self, accepts_queue: Callable[[int], bool]) -> Mapping[int, float]:
        """Return by leaf queue the GPUs of its largest preemptible job: no unit of eviction is larger."""
        known, result = self._largest_units, {}
        for row, jobs in self._running.jobs.items():
            if accepts_queue(row):
                if row not in known:
                    known[row] = max(sum(map(self.placement.gpus, job.tasks.values())) for job in jobs)
                result[row] = known[row]
        return result

    def victims(self, accepts: Callable[[Gang], bool], accepts_queue: Callable[[int], bool]) -> JobQueue:
        """Return the line of preemptible jobs with placed tasks, as far as they are accepted, the last first."""
        self._settle(self._running, self._touched_running)
        chosen = self._running.by_queue(filter(accepts_queue, self._running.jobs))
        return JobQueue(self, chosen, victims=True, accepts=accepts)

    def allows_victim(self, action: str, claimant: Job, victim: Gang) -> bool:
        """Return whether a job's run time allows to make it a victim."""
        return self.min_runtime is None or self.min_runtime.allows_victim(action, claimant, victim)

    def keeps_minimum(self, action: str, claimant: Job, victim: Gang, tasks: Sequence[Task]) -> bool:
        """Return whether a protected victim keeps its minimum without these tasks."""
        return self.min_runtime is None or self.min_runtime.keeps_minimum(action, claimant, victim, tasks)

    def line_of_victims(self, gangs: Iterable[Gang]) -> JobQueue:
        """Return the line of these victims, the last first."""
        return JobQueue(self, sorted_by_queue(gangs, self.job_key), victims=True)

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

    def evict(self, statement: Statement, tasks: Iterable[Task], *, action: str, by: Job) -> None:
        """Evict tasks within a statement."""
        for task in tasks:
            if task.uid in self._evicted:
                # The original takes a task that a scenario names twice out of its queues' sums twice.
                self._repeated.append((task, action, by))
                self.proportion.book(task, placed=False)
                continue
            statement.evict(task, action=action, by=by)
            self._evicted.add(task.uid)
            self.virtual.add(task.uid)

    def discard(self, statement: Statement) -> None:
        """Undo a statement."""
        statement.discard()
        for task, _, _ in self._repeated:
            self.proportion.book(task, placed=True)
        self._repeated.clear()

    def commit(self, statement: Statement) -> None:
        """Carry out a statement."""
        gone = (TaskState.RELEASING, TaskState.PIPELINED)
        evicted = {
            change.task.job.uid: change.task.job
            for change in statement.changes
            if change.task.uid in self._evicted and change.task.state in gone
        }
        self.session.commit(statement)
        self.virtual -= self._evicted
        for task, action, by in self._repeated:
            self.session.effects.evict(task, action=action, by=by)
            evicted[task.job.uid] = task.job
        self._repeated.clear()
        for job in evicted.values():
            job.last_eviction = self.session.now


def _first(policies: Sequence[Policy], kind: type[_P]) -> _P | None:
    return next((policy for policy in policies if isinstance(policy, kind)), None)


def is_candidate(gang: Gang) -> bool:
    """Return whether a job is preemptible and has placed tasks."""
    return gang.job.preemptible and gang.active > 0


def _whole_job(policy: JobOrder) -> Callable[[Gang], tuple[float | str, ...]]:
    return lambda gang: policy.job_key(gang.job)


def cycle_of(session: Session) -> Cycle:
    """Return what the actions of this pass share; made at the first call."""
    found = session.extras.get(Cycle)
    if found is None:
        found = session.extras[Cycle] = Cycle(session)
    assert isinstance(found, Cycle)
    return found
