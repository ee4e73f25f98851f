"""What the actions of a pass share: gangs, orders, placement, and the tasks that the open statement evicted."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pyscheduler.batch.contract import JobOrder, Policy, TaskOrder
from pyscheduler.batch.tasks import TaskState
from pyscheduler_batch.kai.gang import Gang, Quantities
from pyscheduler_batch.kai.job_queue import JobQueue
from pyscheduler_batch.kai.look_alikes import signature
from pyscheduler_batch.kai.min_runtime import MinRuntime
from pyscheduler_batch.kai.orders import Elastic
from pyscheduler_batch.kai.placement import NodePlacement, Placement
from pyscheduler_batch.kai.proportion import Proportion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyscheduler.batch.session import Session
    from pyscheduler.batch.statement import Statement
    from pyscheduler.batch.tasks import Job, Task
    from pyscheduler_batch.kai.proportion import QueueKey

__all__ = ["DELAY_NOT_ELAPSED", "Cycle", "cycle_of"]

_P = TypeVar("_P", bound=Policy)
DELAY_NOT_ELAPSED = "PreemptionDelayNotElapsed"


class Cycle:
    """One pass over the jobs."""

    def __init__(self, session: Session) -> None:
        self.session = session
        policies = [entry.policy for tier in session.tiers for entry in tier]
        self.proportion = _first(policies, Proportion) or _opened(Proportion(), session)
        self.min_runtime = _first(policies, MinRuntime) or _opened(MinRuntime(), session)
        arguments = _first(policies, NodePlacement) or NodePlacement()
        self.placement = Placement(
            session, self.proportion, spread_gpu=arguments.spread_gpu, spread_cpu=arguments.spread_cpu
        )
        #: UIDs of the tasks that the open statement evicted.
        self.virtual: set[str] = set()
        self.parents: list[int] = session.queues.parent.tolist()
        self._job_keys: list[Callable[[Gang], tuple[float | str, ...]]] = [
            policy.gang_key if isinstance(policy, Elastic) else _whole_job(policy)
            for policy in policies
            if isinstance(policy, Elastic | JobOrder)
        ]
        self._task_orders = [policy for policy in policies if isinstance(policy, TaskOrder)]
        quantities = {
            task.uid: self.proportion.quantities(task) for job in session.jobs.values() for task in job.tasks.values()
        }
        self.gangs: dict[str, Gang] = {
            uid: Gang.of(job, self._task_key, quantities, self.virtual) for uid, job in session.jobs.items()
        }

        self._signatures: dict[str, object] = {}

    def _task_key(self, task: Task) -> tuple[float | str, ...]:
        key: tuple[float | str, ...] = ()
        for policy in self._task_orders:
            key += policy.task_key(task)
        return (*key, task.created, task.uid)

    def job_key(self, gang: Gang) -> tuple[float | str, ...]:
        """Return the key of a job among the jobs of its queue."""
        key: tuple[float | str, ...] = ()
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

    def schedulable(self) -> Iterator[Gang]:
        """Return the gangs in a leaf queue."""
        is_leaf = self.session.queues.is_leaf
        for gang in self.gangs.values():
            if gang.job.queue_row >= 0 and is_leaf[gang.job.queue_row]:
                yield gang

    def waiting(self, *, evicts: bool = False, preemptible: bool = False) -> JobQueue:
        """Return the jobs with pending tasks that are complete enough to be placed.

        `evicts`: leave out jobs that may not yet evict others. `preemptible`: only preemptible jobs.
        """
        return JobQueue(self, self._waiting(evicts=evicts, preemptible=preemptible))

    def _waiting(self, *, evicts: bool, preemptible: bool) -> Iterator[Gang]:
        for gang in self.schedulable():
            job = gang.job
            if not job.counts[TaskState.PENDING] or not gang.pending() or not gang.is_ready():
                continue
            if preemptible and not job.preemptible:
                continue
            if evicts and self._is_delayed(job):
                message = f"may evict others {job.preemption_delay:g} s after its creation or last eviction"
                self.session.record(job, DELAY_NOT_ELAPSED, message)
                continue
            yield gang

    def _is_delayed(self, job: Job) -> bool:
        if job.preemption_delay <= 0:
            return False
        since = job.created if job.last_eviction is None else max(job.created, job.last_eviction)
        return self.session.now < since + job.preemption_delay

    def statement(self) -> Statement:
        """Return a new statement; nothing counts as evicted by it yet."""
        self.virtual.clear()
        return self.session.statement()

    def evict(self, statement: Statement, tasks: Iterable[Task], *, action: str, by: Job) -> None:
        """Evict tasks within a statement."""
        for task in tasks:
            if task.uid in self.virtual:
                continue
            statement.evict(task, action=action, by=by)
            self.virtual.add(task.uid)

    def commit(self, statement: Statement) -> None:
        """Carry out a statement."""
        gone = (TaskState.RELEASING, TaskState.PIPELINED)
        evicted = {
            change.task.job.uid: change.task.job
            for change in statement.changes
            if change.task.uid in self.virtual and change.task.state in gone
        }
        self.session.commit(statement)
        self.virtual.clear()
        for job in evicted.values():
            job.last_eviction = self.session.now


def _first(policies: Sequence[Policy], kind: type[_P]) -> _P | None:
    return next((policy for policy in policies if isinstance(policy, kind)), None)


def _opened(policy: _P, session: Session) -> _P:
    policy.open_session(session)
    return policy


def _whole_job(policy: JobOrder) -> Callable[[Gang], tuple[float | str, ...]]:
    return lambda gang: policy.job_key(gang.job)


def cycle_of(session: Session) -> Cycle:
    """Return what the actions of this pass share; made at the first call."""
    found = session.extras.get(Cycle)
    if found is None:
        found = session.extras[Cycle] = Cycle(session)
    assert isinstance(found, Cycle)
    return found
