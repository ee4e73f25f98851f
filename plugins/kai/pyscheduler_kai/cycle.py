"""The state that KAI's actions share in one scheduling round: gangs, job order, placement, and simulated evictions."""

from __future__ import annotations

from collections import deque
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeVar

from pyscheduler_batch.contract import ACTIVE, Policy, ScenarioRule, VictimFilter
from pyscheduler_batch.model.memory import Memory
from pyscheduler_kai.backlog import is_waiting
from pyscheduler_kai.kept_jobs import KeptJobs, is_candidate
from pyscheduler_kai.lines import Lines
from pyscheduler_kai.look_alikes import signature
from pyscheduler_kai.min_runtime import MinRuntime
from pyscheduler_kai.open_statement import OpenStatement
from pyscheduler_kai.orders import Keys
from pyscheduler_kai.placement import POD_SCHEDULING_ERRORS, Placement
from pyscheduler_kai.proportion import Proportion
from pyscheduler_kai.rehearsal import Rehearsal
from pyscheduler_kai.search_memory import Reads, may_remember
from pyscheduler_kai.switches import ScenarioGenerator

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence

    from pyscheduler_batch.contract import Job, Session, Task, TaskState
    from pyscheduler_kai.asks import Asks
    from pyscheduler_kai.gang import Gang, Quantities
    from pyscheduler_kai.proportion import QueueKey

__all__ = ["DELAY_NOT_ELAPSED", "Cycle", "cycle_of", "prepared_cycle"]

_SMALL: Final = 64
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
        self.victim_filters: list[VictimFilter] = [each for tier in session.policies(VictimFilter) for each in tier]
        self.scenario_rules: list[ScenarioRule] = [each for tier in session.policies(ScenarioRule) for each in tier]
        self.parents: list[int] = session.queues.parent.tolist()
        self.job_key = _keys(session).of_gang
        kept = self.kept = _kept_jobs(session)
        deque(kept.follow(session, self.proportion), maxlen=0)
        #: UIDs of the tasks that were evicted in thought only.
        self.virtual = kept.virtual
        #: By job uid; made when it is first asked for.
        self.gangs = kept.gangs
        self.proportion.touched.clear()
        self.lines, self.open_statement = Lines(self), OpenStatement(session, self.proportion, self.virtual)
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

    @cached_property
    def _oldest_first(self) -> Sequence[Job]:
        # The session has the jobs in the order in which they last changed, which a restart forgets.
        return sorted(self.session.jobs.values(), key=attrgetter("created", "key"))

    def candidates(self) -> Iterator[Gang]:
        """Return the preemptible jobs with placed tasks, the oldest first."""
        is_leaf = self.session.queues.is_leaf.tolist()
        for job in self._oldest_first:
            if job.preemptible and job.queue_row >= 0 and is_leaf[job.queue_row] and job.count(ACTIVE):
                gang = self.gangs[job.uid]
                if is_candidate(gang):
                    yield gang

    def touched(self) -> set[str]:
        """Return the uids of the jobs that changed since the begin of the pass."""
        return {task.job.uid for task, _ in self.session.ledger.moved.values()}

    def has_moved_tasks(self) -> bool:
        """Return whether the pass has moved a running task to another node."""
        return any(task.leaving for task, _ in self.session.ledger.moved.values())

    def asks(self) -> Asks:
        """Return what the waiting jobs ask for, and maybe what they asked for at the begin of the pass."""
        return self.kept.backlog.asks(self.touched())

    def lowest_priorities(self) -> Mapping[int, float]:
        """Return by leaf queue a priority that no preemptible job with placed tasks is below."""
        return self.kept.lowest_priorities(self.touched())

    def note_delays(self, *, preemptible: bool) -> None:
        """Record which jobs may not yet evict others. `preemptible`: only preemptible jobs."""
        for gang in (self.gangs[uid] for uid in self.kept.backlog.delayed):
            if is_waiting(gang) and (gang.job.preemptible or not preemptible):
                self.may_evict(gang.job)

    def may_evict(self, job: Job) -> bool:
        """Return whether a job may evict others by now; record it if it may not."""
        if not self._is_delayed(job):
            return True
        message = f"may evict others {job.preemption_delay:g} s after its creation or last eviction"
        self.session.record(job, DELAY_NOT_ELAPSED, message)
        return False

    def largest_units(self, accepts_queue: Callable[[int], bool]) -> Mapping[int, float]:
        """Return by leaf queue the GPUs of its largest preemptible job: no unit of eviction is larger."""
        return self.kept.largest_units(accepts_queue)

    def allows_victim(self, action: str, claimant: Job, victim: Gang) -> bool:
        """Return whether a job's run time allows to make it a victim."""
        return self.min_runtime is None or self.min_runtime.allows_victim(action, claimant, victim)

    def keeps_minimum(self, action: str, claimant: Job, victim: Gang, tasks: Sequence[Task]) -> bool:
        """Return whether a protected victim keeps its minimum without these tasks."""
        return self.min_runtime is None or self.min_runtime.keeps_minimum(action, claimant, victim, tasks)

    def _is_delayed(self, job: Job) -> bool:
        if job.preemption_delay <= 0:
            return False
        since = job.created if job.last_eviction is None else max(job.created, job.last_eviction)
        end = since + job.preemption_delay
        self.session.wake(end)
        return self.session.now < end

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


def _keys(session: Session) -> Keys:
    """Return the orders of the session's policies; made at the first call."""
    found = session.extras.get(Keys)
    if found is None:
        found = session.extras[Keys] = Keys(_policies(session))
    assert isinstance(found, Keys)
    return found


def _kept_jobs(session: Session) -> KeptJobs:
    """Return what is kept of the jobs; something new if orders of further policies may change by themselves."""
    found = session.extras.get(KeptJobs)
    if found is None:
        keys = _keys(session)
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
