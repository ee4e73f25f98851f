"""The base classes of batch policies and actions, and the types that policies and actions use.

An action is a step of a pass, which is one scheduling round over all jobs. A policy answers questions that actions ask,
for example which of two jobs is placed first. Each question is a `Protocol` below with one method, such as `JobOrder`.

A task is a pod of a job. Queues and nodes are given as row numbers of the tables `session.queues` and `session.nodes`.
`Amounts` are arrays with one column for each resource.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, runtime_checkable

import attrs
import numpy as np

from pyscheduler import lazy_names
from pyscheduler_batch.model.axis import CPU, GPU, MEMORY, PODS, Amounts, ResourceAxis
from pyscheduler_batch.model.node_table import NodeTable
from pyscheduler_batch.model.queue_spec import QueueSpec, QueueState
from pyscheduler_batch.model.queue_table import QueueTable
from pyscheduler_batch.model.statement import Statement
from pyscheduler_batch.model.tasks import ACTIVE, ALIVE, ALLOCATED, NO_NODE, Job, SubGroup, Task, TaskState

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler_batch.dialects import QueueDialect
    from pyscheduler_batch.model.job_spec import JobSpec
    from pyscheduler_batch.model.session import Session

__all__ = [
    "ACTIVE",
    "ALIVE",
    "ALLOCATED",
    "CPU",
    "GPU",
    "MEMORY",
    "NO_NODE",
    "PODS",
    "Action",
    "Allocatable",
    "Amounts",
    "Claim",
    "EnqueueListener",
    "Enqueueable",
    "Job",
    "JobOrder",
    "JobPipelined",
    "JobReady",
    "JobSpec",
    "JobStarving",
    "JobValid",
    "Key",
    "Listener",
    "MayReclaim",
    "NodeOrder",
    "NodeTable",
    "Overused",
    "Policy",
    "Predicate",
    "Preemptable",
    "PromiseGate",
    "QueueComparison",
    "QueueDialect",
    "QueueOrder",
    "QueueSpec",
    "QueueState",
    "QueueTable",
    "Reclaimable",
    "Refusal",
    "ResourceAxis",
    "ScenarioRule",
    "Session",
    "Shares",
    "Statement",
    "SubGroup",
    "Task",
    "TaskOrder",
    "TaskState",
    "Tasks",
    "VictimFilter",
    "VictimQueueOrder",
    "plays",
]

#: What orders compare: the smallest comes first.
Key = tuple[float | str, ...]

if not TYPE_CHECKING:  # type checkers would accept every name
    # The module of `Session` imports this one.
    __getattr__ = lazy_names(
        __name__,
        {
            "JobSpec": "pyscheduler_batch.model.job_spec",
            "QueueDialect": "pyscheduler_batch.dialects",
            "Session": "pyscheduler_batch.model.session",
            # These left the contract; the next version does not find them here.
            "AmountsByResource": "pyscheduler_batch.model.queue_spec",
            "reached_minimums": "pyscheduler_batch.model.sub_groups",
        },
    )


@attrs.frozen
class Refusal:
    """Why a policy refuses: a stable reason code, and a sentence for people with the amounts."""

    reason: str
    message: str = ""


@attrs.frozen
class Claim:
    """A claim to room: a job, and the task of it that is to be placed (None: the whole job)."""

    job: Job
    task: Task | None = None


@attrs.define(eq=False)
class Tasks:
    """Tasks as columns."""

    tasks: Sequence[Task]
    jobs: Sequence[Job]
    #: int64[n]: index into `jobs` of each task's job.
    job_of: NDArray[np.int64]

    @classmethod
    def of(cls, tasks: Sequence[Task]) -> Tasks:
        """Return the columns of these tasks, in their order."""
        jobs: dict[str, int] = {}
        distinct: list[Job] = []
        rows = np.empty(len(tasks), dtype=np.int64)
        for at, task in enumerate(tasks):
            row = jobs.setdefault(task.job.uid, len(distinct))
            if row == len(distinct):
                distinct.append(task.job)
            rows[at] = row
        return cls(tasks, distinct, rows)

    def __len__(self) -> int:
        return len(self.tasks)


class Policy:
    """The base of all policies.

    Read the arguments in `__init__`: what it raises is reported when the configuration is loaded.
    """

    #: The name in configuration files. Two presets may have policies of one name.
    name: ClassVar[str]
    #: The names of its arguments; a configuration with another one is refused. None: any name is accepted.
    argument_names: ClassVar[Collection[str] | None] = None
    #: By reason code, the step of `kubectl queue explain` that shows it: `pods`, `queue`, `gates`, `nodes` or
    #: `evictions`; or `limits`, the part of `gates` about limits of queues, where amounts get their units.
    steps: ClassVar[Mapping[str, str]] = {}

    def __init__(self, arguments: Mapping[str, str] | None = None) -> None:
        self.arguments = arguments or {}

    def open_session(self, session: Session) -> None:
        """Prepare for a pass; all jobs, queues and nodes are there."""

    def close_session(self, session: Session) -> None:
        """End a pass."""


class Action:
    """One step of a pass. Made once per profile, with its arguments.

    Read the arguments in `__init__`: what it raises is reported when the configuration is loaded.

    An action decides whom it evicts, and nobody checks it: ask the policies, and leave out jobs that are not
    preemptible and critical tasks.
    """

    name: ClassVar[str]
    #: The names of its arguments, and the steps of its reason codes, as those of a policy.
    argument_names: ClassVar[Collection[str] | None] = None
    steps: ClassVar[Mapping[str, str]] = {}
    #: The jobs that it evicts to make room for another one, as `kubectl queue explain` counts them: `preempt` for those
    #: of lower priority in the same queue, `reclaim` for those of other queues, `any` for all; "" if it makes no room.
    evicts: ClassVar[str] = ""

    def __init__(self, arguments: Mapping[str, str] | None = None) -> None:
        self.arguments = arguments or {}

    async def run(self, session: Session) -> None:
        """Run the action; await `session.turn()` now and then. Commit or discard each statement that it makes."""
        raise NotImplementedError


@runtime_checkable
class JobOrder(Protocol):
    """First difference between policies decides; then age, then UID."""

    def job_key(self, job: Job) -> Key:
        """Return the key of a job."""
        ...


@runtime_checkable
class QueueOrder(Protocol):
    """First difference between policies decides; then age, then name."""

    def queue_key(self, queue: int, best_job: Job | None) -> Key:
        """Return the key of a queue (a row) whose next job is `best_job`."""
        ...


@runtime_checkable
class QueueComparison(Protocol):
    """For orders of queues that no key can express, such as a comparison below the common parent."""

    def compare_queues(self, left: int, right: int) -> float:
        """Return a negative number if queue `left` (a row) comes first, a positive one if `right` does, or 0."""
        ...


@runtime_checkable
class TaskOrder(Protocol):
    """First difference between policies decides; then age, then UID."""

    def task_key(self, task: Task) -> Key:
        """Return the key of a task within its job."""
        ...


@runtime_checkable
class VictimQueueOrder(Protocol):
    """The order in which queues lose tasks; first difference between policies decides."""

    def victim_queue_key(self, queue: int, claim: Claim) -> Key:
        """Return the key of a queue that holds candidates."""
        ...


@runtime_checkable
class Predicate(Protocol):
    """All must accept, in addition to the filters of the profile."""

    def filter_nodes(self, task: Task) -> NDArray[np.bool_] | None:
        """Return bool[N], or None if all nodes are accepted."""
        ...


@runtime_checkable
class NodeOrder(Protocol):
    """The scores are added."""

    def score_nodes(self, task: Task, rows: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """Return float64[n] for the nodes `rows`, or None for nothing to add."""
        ...


@runtime_checkable
class JobValid(Protocol):
    """The first refusal wins."""

    def job_valid(self, job: Job) -> Refusal | None:
        """Return why the job must not be considered, or None."""
        ...


@runtime_checkable
class Allocatable(Protocol):
    """The first refusal wins."""

    def allocatable(self, job: Job, tasks: Sequence[Task]) -> Refusal | None:
        """Return why the queue of the job must not get these tasks, or None."""
        ...


@runtime_checkable
class PromiseGate(Protocol):
    """The first refusal wins. Limits of queues hold anyway, and a share is no gate."""

    def may_keep(self, job: Job, tasks: Sequence[Task]) -> Refusal | None:
        """Return why the job must not get these tasks although earlier evictions made room for them, or None."""
        ...


@runtime_checkable
class VictimFilter(Protocol):
    """All must accept a candidate."""

    def may_evict(self, claim: Claim, tasks: Tasks, action: str) -> NDArray[np.bool_] | None:
        """Return bool[n]: which tasks may be evicted by this action, or None for all."""
        ...


@runtime_checkable
class ScenarioRule(Protocol):
    """The first refusal wins: checks a whole set of evictions together with the placement of the job."""

    def validate(self, claim: Claim, victims: Sequence[Task], action: str) -> Refusal | None:
        """Return why this plan must not be carried out, or None."""
        ...


@runtime_checkable
class JobReady(Protocol):
    """All must agree."""

    def job_ready(self, job: Job) -> bool:
        """Return whether enough tasks of the job have a node to bind them."""
        ...


@runtime_checkable
class MayReclaim(Protocol):
    """All must agree."""

    def may_reclaim(self, queue: int, claim: Claim) -> bool:
        """Return whether the queue may reclaim for this claim."""
        ...


@runtime_checkable
class JobStarving(Protocol):
    """Within the first tier that has any, all must agree."""

    def job_starving(self, job: Job) -> bool:
        """Return whether the job may evict others."""
        ...


@runtime_checkable
class JobPipelined(Protocol):
    """Votes: -1 refuses; a tier with a +1 accepts; otherwise the next tier is asked; accepted by default."""

    def job_pipelined(self, job: Job) -> int:
        """Return -1, 0 or +1."""
        ...


@runtime_checkable
class Enqueueable(Protocol):
    """Votes, as in `JobPipelined`."""

    def job_enqueueable(self, job: Job) -> int:
        """Return -1, 0 or +1."""
        ...


@runtime_checkable
class EnqueueListener(Protocol):
    """Follows the jobs that may start from now on."""

    def job_enqueued(self, job: Job) -> None:
        """Take notice that a job was enqueued."""
        ...


@runtime_checkable
class Shares(Protocol):
    """The amount that each queue may hold when others want more, too; the first policy that knows it is asked."""

    def queue_shares(self) -> Amounts:
        """Return float64[Q, R], computed when the session opened; NaN for resources that are not divided."""
        ...


@runtime_checkable
class Overused(Protocol):
    """Any is enough."""

    def overused(self, queue: int) -> bool:
        """Return whether the queue must get nothing more in this pass."""
        ...


@runtime_checkable
class Preemptable(Protocol):
    """Intersection within a tier; across tiers as the preset says."""

    def preemptable(self, claim: Claim, tasks: Tasks) -> NDArray[np.bool_] | None:
        """Return bool[n]: which tasks the claim may preempt; None for no opinion."""
        ...


@runtime_checkable
class Reclaimable(Protocol):
    """Intersection within a tier; across tiers as the preset says."""

    def reclaimable(self, claim: Claim, tasks: Tasks) -> NDArray[np.bool_] | None:
        """Return bool[n]: which tasks the claim may reclaim; None for no opinion."""
        ...


@runtime_checkable
class Listener(Protocol):
    """Follows every change of a task's state, undone ones included; for policies that keep sums of their own."""

    def moved(self, task: Task, old: TaskState, new: TaskState) -> None:
        """Take notice that the state of a task changed."""
        ...


#: By class of a policy and role: a check against a protocol is slow, and each pass asks again.
_ROLES: Final[dict[tuple[type, type], bool]] = {}


def plays(policy: object, role: type[Any]) -> bool:
    """Return whether a policy takes part in a role: a class above, all of whose members are methods."""
    key = (type(policy), role)
    found = _ROLES.get(key)
    if found is None:
        found = _ROLES[key] = isinstance(policy, role)
    return found
