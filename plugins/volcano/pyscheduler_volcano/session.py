"""A session as Volcano runs it: how the answers of the policies in tiers are combined.

Source: Volcano `framework/session_plugins.go`.
"""

from __future__ import annotations

from collections import defaultdict, deque
from functools import cached_property, cmp_to_key, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import attrs
import numpy as np

from pyscheduler_batch import contract
from pyscheduler_batch.contract import PODS, Refusal, Session, Tasks, TaskState
from pyscheduler_batch.disruption_budgets import spared_of, within_budgets
from pyscheduler_batch.model.answers import mask_of, scores_of
from pyscheduler_batch.model.priority_queue import PriorityQueue
from pyscheduler_batch.model.row_cache import RowCache
from pyscheduler_batch.model.statement import Position
from pyscheduler_volcano.amounts import Scale
from pyscheduler_volcano.books import Books
from pyscheduler_volcano.job_facts import is_pending
from pyscheduler_volcano.kept_jobs import KeptJobs
from pyscheduler_volcano.refused_nodes import RefusedNodes
from pyscheduler_volcano.stuck import StuckJobs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import Pod
    from pyscheduler_batch.contract import Claim, Job, Policy, Statement, Task
    from pyscheduler_volcano.hyper_nodes import HyperNode
    from pyscheduler_volcano.kept_jobs import Kind
    from pyscheduler_volcano.network_topology import NetworkTopologyAware
    from pyscheduler_volcano.quota_limits import QuotaLimit

__all__ = ["VolcanoSession"]

#: A pod's name ends in its index if it has at least this many parts: job, task, index.
_NAME_PARTS = 3
#: Other tasks of the scheduler may run after so many jobs that are read.
_TURN_EVERY = 64


def _nothing(_: object) -> Mapping[str, Any]:
    return {}


_OVERUSED: Final = "QueueOverused"
_NOT_ENQUEUED: Final = {"NotEnqueued": "no pass has enqueued the job yet"}
_NOT_ENOUGH: Final = "NotEnoughResources"
_NO_ROOM: Final = {_NOT_ENOUGH: "no node has room for a pod of the job"}


@attrs.define(eq=False, kw_only=True, slots=False)
class VolcanoSession(Session):
    """A session with Volcano's rules for tiers."""

    own_modules: ClassVar[tuple[str, ...]] = (*Session.own_modules, "pyscheduler_volcano.")
    steps: ClassVar[Mapping[str, str]] = {_NOT_ENOUGH: "nodes", _OVERUSED: "gates", "NotEnqueued": "gates"}

    #: By job uid, the uids of the tasks that fitted no node in this session.
    fit_failures: defaultdict[str, set[str]] = attrs.Factory(lambda: defaultdict(set))
    #: Whether the actions of the session include enqueue; without it pending jobs may start at once.
    has_enqueue: bool = False
    #: By number of a kind of look-alikes, the reasons that all of them have; None if they were given several ones.
    spread_reasons: dict[int | None, Mapping[str, str] | None] = attrs.Factory(dict)
    _protected_from_others: frozenset[str] | None = None
    #: By row of a queue, whether it is overused at the end of the pass.
    _overused_at_end: dict[int, bool] = attrs.field(factory=dict, init=False)
    #: The groups of nodes that are near each other, if the profile has the policy `network-topology-aware`.
    hyper_nodes: Sequence[HyperNode] = ()
    #: Returns by resource the tightest quota of a namespace, if the profile has the policy `resourcequota`.
    quotas: Callable[[str], Mapping[str, QuotaLimit]] = _nothing
    #: Returns by claim what the resource claims of a pod request, as in `device_quotas`.
    claims_of: Callable[[Pod], Mapping[str, Mapping[str, float]]] = _nothing
    #: Whether parts of devices count if the configuration does not say.
    has_device_parts: bool = True

    @cached_property
    def scale(self) -> Scale:
        """Return the tolerances of the axis."""
        return Scale(self.axis)

    @cached_property
    def books(self) -> Books:
        """Return the sums by job; jobs without a queue do not take part."""
        deque(self._follow(), maxlen=0)
        return Books(self._kept)

    def _follow(self) -> Iterable[None]:
        """Read the jobs that changed since the last pass, one after the other."""
        return self._kept.follow(self.jobs)

    @cached_property
    def _kept(self) -> KeptJobs:
        return self.memory.get(KeptJobs, lambda: KeptJobs(self.scale))

    def grouped(self, *, by_kind: bool = True) -> tuple[list[Job], list[Kind]]:
        """Return the jobs that an action may work on: single ones, and look-alikes by kind; in the order of jobs.

        Policies of others may look at anything; with one of them, or without `by_kind`, all jobs are single.
        """
        if not by_kind or not self.has_own_policies_only:
            return [*self.books.jobs], []
        return self.books.kept.grouped(self.moved_jobs())

    def moved_jobs(self) -> Iterable[Job]:
        """Return the jobs with a task that the pass moved; some more than once."""
        return (task.job for task, _ in self.ledger.moved.values())

    @cached_property
    def rows(self) -> RowCache:
        """Return what is kept per node."""
        return RowCache(len(self.nodes))

    @cached_property
    def stuck(self) -> StuckJobs:
        """Return the enqueued jobs that reserve nothing, because no node can hold their pods."""
        return StuckJobs(self, self.scale, self.rows, self.by_tier(contract.Predicate, "enablePredicate"))

    @cached_property
    def refused(self) -> RefusedNodes:
        """Return the nodes where evictions did not help."""
        return RefusedNodes(self)

    @cached_property
    def network_topology(self) -> NetworkTopologyAware | None:
        """Return the policy that places jobs into HyperNodes; None if it is off."""
        named = (entry for tier in self.tiers for entry in tier if entry.policy.name == "network-topology-aware")
        placing = (entry.policy for entry in named if entry.is_on("enabledHyperNodeGradient"))
        return cast("NetworkTopologyAware | None", next(placing, None))

    @cached_property
    def total(self) -> NDArray[np.float64]:
        """Return float64[R]: what all nodes offer."""
        total: NDArray[np.float64] = self.nodes.allocatable.sum(axis=0)
        return total

    def listeners(self) -> list[contract.Listener]:
        """Return who follows the changes of statements; the sums by job come first, policies may use them."""
        return [self.books, self.rows, self.refused, *super().listeners()]

    async def open(self) -> None:
        """Prepare the sums, then the policies."""
        for at, _ in enumerate(self._follow()):
            if at % _TURN_EVERY == 0:
                await self.turn()
        _ = self.books, self.ledger
        await self.stuck.find(self.books.kept.declaring() if self.is_live and self.has_enqueue else ())
        await super().open()

    def switch(self, policy: Policy, name: str, *, default: bool) -> bool:
        """Return a switch of a policy in the configuration, such as `enableHierarchy`."""
        for tier in self.tiers:
            for entry in tier:
                if entry.policy is policy:
                    return entry.is_on(name, default=default)
        return default

    def by_tier(self, role: type[Any], switch: str = "") -> list[list[Any]]:
        """Return by tier the policies of a role that are switched on; kept for the session."""
        found = self._roles.get((role, switch))
        if found is None:
            found = self._roles[role, switch] = self.policies(role, switch)
        return found

    @cached_property
    def _roles(self) -> dict[tuple[type[Any], str], list[list[Any]]]:
        return {}

    # Orders.

    def compare_jobs(self, left: Job, right: Job) -> int:
        """Return -1, 0 or 1 by the policies alone; a gang that lost members comes before all of them."""
        if left.is_broken != right.is_broken:
            return -1 if left.is_broken else 1
        if self.has_own_policies_only:
            mine, other = self._keys_of(left), self._keys_of(right)
            return (mine > other) - (mine < other)
        keys = ((policy.job_key(left), policy.job_key(right)) for policy in self._job_orders)
        return next((-1 if first < second else 1 for first, second in keys if first != second), 0)

    def _keys_of(self, job: Job) -> tuple[contract.Key, ...]:
        """Return the keys of a job by the policies of this distribution: they depend on its own tasks alone."""
        known = self._job_keys.get(job.uid)
        if known is None or known[0] != job.changes:
            known = self._job_keys[job.uid] = (job.changes, tuple(policy.job_key(job) for policy in self._job_orders))
        return known[1]

    @cached_property
    def _job_orders(self) -> list[Any]:
        return [policy for tier in self.policies(contract.JobOrder, "enableJobOrder") for policy in tier]

    @cached_property
    def _job_keys(self) -> dict[str, tuple[int, tuple[contract.Key, ...]]]:
        """Return by uid how often the job had changed, and its keys."""
        return {}

    @cached_property
    def has_own_policies_only(self) -> bool:
        """Return whether all policies are of the system itself."""
        return all(self.is_own(entry.policy) for tier in self.tiers for entry in tier)

    def order_key(self, job: Job) -> contract.Key:
        """Return the keys that `compare_jobs` compares; the smallest is served first, ties by age, then UID."""
        return (not job.is_broken, *(policy.job_key(job) for policy in self._job_orders))

    def job_less(self, left: Job, right: Job) -> bool:
        """Return whether `left` is served first; ties by age, then UID."""
        order = self.compare_jobs(left, right)
        if order:
            return order < 0
        return (left.created, left.uid) < (right.created, right.uid)

    def queue_less(self, left: int, right: int) -> bool:
        """Return whether queue `left` (a row) is served first; ties by age, then name."""
        for compare in self._queue_orders:
            order = compare(left, right)
            if order:
                return order < 0
        queues = self.queues
        return bool((queues.created[left], queues.names[left]) < (queues.created[right], queues.names[right]))

    @cached_property
    def _queue_orders(self) -> list[Callable[[int, int], float]]:
        """Return the comparisons of queues in the order of tiers."""
        orders: list[Callable[[int, int], float]] = []
        for entry in (entry for tier in self.tiers for entry in tier if entry.is_on("enableQueueOrder")):
            if isinstance(entry.policy, contract.QueueComparison):
                orders.append(entry.policy.compare_queues)
            elif isinstance(entry.policy, contract.QueueOrder):
                orders.append(partial(_by_key, entry.policy.queue_key))
        return orders

    def task_less(self, left: Task, right: Task) -> bool:
        """Return whether `left` is placed first; ties by the index in the pod's name, then age, then UID."""
        order = self._task_order(left, right)
        if order:
            return order < 0
        first_index, second_index = _index_of(left), _index_of(right)
        if first_index is not None and second_index is not None and first_index != second_index:
            return first_index < second_index
        return (left.created, left.uid) < (right.created, right.uid)

    def _task_order(self, left: Task, right: Task) -> int:
        """Return -1, 0 or 1 by the policies alone."""
        policies = chain.from_iterable(self.by_tier(contract.TaskOrder, "enableTaskOrder"))
        keys = ((policy.task_key(left), policy.task_key(right)) for policy in policies)
        return next((-1 if first < second else 1 for first, second in keys if first != second), 0)

    def sorted_tasks(self, tasks: Iterable[Task]) -> list[Task]:
        """Return the tasks in the order of placement."""
        first: Callable[[Task, Task], int] = lambda left, right: -1 if self.task_less(left, right) else 1  # noqa: E731 - typed
        return sorted(tasks, key=cmp_to_key(first))

    def victim_queue(self, victims: Collection[Task], claim: Claim) -> PriorityQueue[Task]:
        """Return the victims in the order of eviction.

        Of one job the last task goes first; of one queue the last job; across queues as `VictimQueueOrder` says, else
        the queue that would be served last.
        """
        spared = spared_of(self, victims)

        def less(left: Task, right: Task) -> bool:
            first, second = left.job, right.job
            if first is not second:
                if first.queue_row != second.queue_row:
                    return self._victim_queue_less(first.queue_row, second.queue_row, claim)
                order = self.compare_jobs(first, second)
                if order:
                    return order > 0
            if spared and (left.uid in spared) != (right.uid in spared) and not self._task_order(left, right):
                return right.uid in spared
            return not self.task_less(left, right)

        return PriorityQueue(less, victims)

    def _victim_queue_less(self, left: int, right: int, claim: Claim) -> bool:
        for policy in chain.from_iterable(self.by_tier(contract.VictimQueueOrder)):
            first, second = policy.victim_queue_key(left, claim), policy.victim_queue_key(right, claim)
            if first != second:
                return bool(first < second)
        return not self.queue_less(left, right)

    # Gates.

    def job_valid(self, job: Job) -> Refusal | None:
        """Return the first refusal, or None."""
        for tier in self.by_tier(contract.JobValid):
            for policy in tier:
                refusal: Refusal | None = policy.job_valid(job)
                if refusal is not None:
                    return refusal
        return None

    def job_ready(self, job: Job) -> bool:
        """Return whether all policies agree to bind the job's tasks."""
        tiers = self.by_tier(contract.JobReady, "enableJobReady")
        return all(policy.job_ready(job) for tier in tiers for policy in tier)

    def job_starving(self, job: Job) -> bool:
        """Return whether all policies of the first tier that has any call the job starving."""
        for tier in self.by_tier(contract.JobStarving, "enableJobStarving"):
            if tier:
                return all(policy.job_starving(job) for policy in tier)
        return False

    def job_pipelined(self, job: Job) -> bool:
        """Return whether the job keeps what it was promised."""
        tiers = self.by_tier(contract.JobPipelined, "enableJobPipelined")
        return _accepted([policy.job_pipelined(job) for policy in tier] for tier in tiers)

    def job_enqueueable(self, job: Job) -> bool:
        """Return whether the job may be enqueued."""
        tiers = self.by_tier(contract.Enqueueable, "enableJobEnqueued")
        return _accepted([policy.job_enqueueable(job) for policy in tier] for tier in tiers)

    def job_enqueued(self, job: Job) -> None:
        """Notify the policies that a job was enqueued."""
        for tier in self.by_tier(contract.EnqueueListener, "enableJobEnqueued"):
            for policy in tier:
                policy.job_enqueued(job)

    def why_waiting(self, job: Job) -> Mapping[str, str]:
        """Return why a job waits without a recorded reason: its turn did not come, or no node had room."""
        if self.has_enqueue and is_pending(job):
            return _NOT_ENQUEUED
        row = job.queue_row
        if row < 0:
            return {}  # its queue is in the way, and the error of the queue says so
        if row not in self._overused_at_end:
            self._overused_at_end[row] = self.overused(row)
        if self._overused_at_end[row]:
            return {_OVERUSED: f"queue {self.queues.names[row]} holds its share already"}
        if why := self.why_no_domain(job):
            return {_NOT_ENOUGH: why}
        # Room only shrinks in a pass: of jobs that look alike only the first one is tried.
        return _NO_ROOM if job.uid in self.fit_failures or job.look_alike is not None else {}

    def note_unfit(self, task: Task) -> None:
        """Note that a task fits on no node, and why if the filters refused all nodes."""
        self.fit_failures[task.job.uid].add(task.uid)
        if why := self.placer.why_not(task):
            self.record(task.job, _NOT_ENOUGH, why)

    def why_no_domain(self, job: Job) -> str:
        """Return why no HyperNode took a job that must run in one; "" if none was tried or it need not."""
        failed, topology = self.fit_failures.get(job.uid), self.network_topology
        return topology.why_no_domain(job, failed) if failed and topology is not None else ""

    def overused(self, queue: int) -> bool:
        """Return whether any policy calls the queue overused."""
        tiers = self.by_tier(contract.Overused, "enabledOverused")
        return any(policy.overused(queue) for tier in tiers for policy in tier)

    def allocatable(self, task: Task) -> bool:
        """Return whether the queue of the task may get it."""
        for tier in self.by_tier(contract.Allocatable, "enabledAllocatable"):
            for policy in tier:
                refusal = policy.allocatable(task.job, (task,))
                if refusal is not None:
                    self.record(task.job, refusal.reason, refusal.message)
                    return False
        return True

    def may_reclaim(self, queue: int, claim: Claim) -> bool:
        """Return whether all policies let the queue reclaim."""
        tiers = self.by_tier(contract.MayReclaim, "enablePreemptive")
        return all(policy.may_reclaim(queue, claim) for tier in tiers for policy in tier)

    # Victims.

    def protected_from(self, job: Job) -> frozenset[str]:
        """Return the uids of the jobs that must not be evicted for a job; jobs without a past have the same answer."""
        if job.uid in self.with_past():
            return frozenset(self.protected(job))
        if self._protected_from_others is None:
            self._protected_from_others = frozenset(self.protected(job))
        return self._protected_from_others

    def preemptable(self, claim: Claim, tasks: Tasks) -> NDArray[np.bool_]:
        """Return bool[n]: which tasks the claim may preempt."""
        tiers = self.by_tier(contract.Preemptable, "enablePreemptable")
        victims = self.combine_victims([[policy.preemptable for policy in tier] for tier in tiers], claim, tasks)
        return self._spare(victims, tasks)

    def reclaimable(self, claim: Claim, tasks: Tasks) -> NDArray[np.bool_]:
        """Return bool[n]: which tasks the claim may reclaim."""
        tiers = self.by_tier(contract.Reclaimable, "enableReclaimable")
        victims = self.combine_victims([[policy.reclaimable for policy in tier] for tier in tiers], claim, tasks)
        return self._spare(victims, tasks)

    def _spare(self, victims: NDArray[np.bool_], tasks: Tasks) -> NDArray[np.bool_]:
        """Return the victims that budgets allow, without critical pods if a policy of another distribution has a say.

        The policies of Volcano decide as Volcano does, which leaves critical pods to `conformance`.
        """
        victims = within_budgets(self, victims, tasks)
        if self.has_own_policies_only:
            return victims
        return victims & ~np.array([task.critical for task in tasks.tasks], dtype=np.bool_)

    def note_plan(
        self, action: str, claim: Claim, node: int, victims: Sequence[Task], candidates: Sequence[Task]
    ) -> None:
        """Note that the victims on a node hold too little, and which policies spare other candidates."""
        if self.plan_log is None:
            return
        role, switch, name = (
            (contract.Preemptable, "enablePreemptable", "preemptable")
            if action == "preempt"
            else (contract.Reclaimable, "enableReclaimable", "reclaimable")
        )
        tasks, spared = Tasks.of(candidates), []
        for policy in (policy for tier in self.by_tier(role, switch) for policy in tier):
            mask = getattr(policy, name)(claim, tasks)
            if mask is not None and not mask.all():
                spared.append(f"{policy.name} spares {len(mask) - int(mask.sum())}")
        text = f"on node {self.nodes.names[node]} {len(victims)} of {len(candidates)} candidates may be evicted"
        if spared:
            refusal = Refusal("VictimsSpared", f"{text}, which is too little: {', '.join(spared)}")
        else:
            refusal = Refusal("NoRoomAfterEvictions", f"{text}, which is too little")
        self.plan_log.note(claim.job, action, victims, refusal)

    def note_gate(self, job: Job, action: str, refusal: Refusal) -> None:
        """Note why an action tries nothing for a job, or takes back what it tried."""
        if self.plan_log is not None:
            self.plan_log.note(job, action, (), refusal)

    def note_discarded(self, job: Job, action: str, statement: Statement) -> None:
        """Note that an action takes evictions back, because they make room for too few pods of the job."""
        if self.plan_log is None or not statement.changes:
            return
        victims = [change.task for change in statement.changes if change.new.state == TaskState.RELEASING]
        placed = job.counts[TaskState.PIPELINED]
        text = f"this makes room for {placed} pods, but the job needs {job.min_member} at once"
        self.plan_log.note(job, action, victims, Refusal("GangIncomplete", text), placed=placed)

    def combine_victims(self, tiers: Sequence[Sequence[Any]], claim: Claim, tasks: Tasks) -> NDArray[np.bool_]:
        """Return the intersection of the first tier that leaves any victim.

        An empty answer ends the tier. After an empty intersection the next policy of the tier starts afresh.
        """
        for tier in tiers:
            victims: NDArray[np.bool_] | None = None
            for answer in tier:
                said = answer(claim, tasks)
                if said is None:
                    continue
                mask = mask_of(said, len(tasks), answer)
                if not mask.any():
                    victims = None
                    break
                both = mask if victims is None else victims & mask
                victims = both if both.any() else None
            if victims is not None:
                return victims
        return np.zeros(len(tasks), dtype=np.bool_)

    # Nodes.

    def fits_now(self, task: Task) -> NDArray[np.bool_]:
        """Return bool[N]: the nodes whose idle room holds the task; not to be changed."""
        request, idle = task.request, self.nodes.idle
        fits: NDArray[np.bool_] = self.rows.get(
            ("now", request.tobytes()), lambda rows: self.scale.fits(request, idle[rows])
        )
        return fits

    def fits_later(self, task: Task) -> NDArray[np.bool_]:
        """Return bool[N]: the nodes that will have room for the task; not to be changed."""
        request, nodes = task.request, self.nodes

        def compute(rows: NDArray[np.int64]) -> NDArray[np.bool_]:
            room = nodes.idle[rows] + nodes.releasing[rows] - nodes.pipelined[rows]
            return self.scale.fits(request, room)

        fits: NDArray[np.bool_] = self.rows.get(("later", request.tobytes()), compute)
        return fits

    def has_place(self) -> NDArray[np.bool_]:
        """Return bool[N]: the nodes that take one more pod; not to be changed.

        A pod that was leaving when the session began keeps its place until it is gone. A pod that the session evicts
        frees its place at once. Source: Volcano `plugins/predicates`.
        """
        nodes, residents, pods = self.nodes, self.books.residents, self.axis.index[PODS]

        def compute(rows: NDArray[np.int64]) -> NDArray[np.bool_]:
            free = nodes.idle[rows, pods] - nodes.pipelined[rows, pods]
            if (free < 1).any():
                free += np.bincount(residents.node[~residents.placed], minlength=len(nodes))[rows]
            return np.asarray(free >= 1, dtype=np.bool_)

        has_place: NDArray[np.bool_] = self.rows.get("place", compute)
        return has_place

    def bindable(self, task: Task, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return those of the feasible nodes `rows` that accept the task while leaving tasks are still there."""
        nodes = self.nodes
        leaving: NDArray[np.bool_] = self.rows.get("leaving", lambda some: np.any(nodes.releasing[some] != 0, axis=1))[
            rows
        ]
        if not leaving.any():
            return rows
        accepted: NDArray[np.bool_] = ~leaving
        for at in np.flatnonzero(leaving).tolist():
            accepted[at] = self.placer.feasible_now(task, int(rows[at]))
        kept: NDArray[np.int64] = rows[accepted]
        return kept

    def feasible(self, task: Task) -> NDArray[np.bool_]:
        """Return bool[N]: the nodes that all predicates accept; amounts are not compared."""
        accepted = np.ones(len(self.nodes), dtype=np.bool_)
        for tier in self.by_tier(contract.Predicate, "enablePredicate"):
            for policy in tier:
                mask = policy.filter_nodes(task)
                if mask is not None:
                    accepted &= mask_of(mask, len(accepted), policy.filter_nodes)
        return accepted

    def scores(self, task: Task, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return float64[n]: the sum of the scores of these nodes."""
        total = np.zeros(len(rows))
        for tier in self.by_tier(contract.NodeOrder, "enableNodeOrder"):
            for policy in tier:
                scores = policy.score_nodes(task, rows)
                if scores is not None:
                    total += scores_of(scores, len(rows), policy.score_nodes)
        return total

    def best_node(self, task: Task, rows: NDArray[np.int64]) -> int:
        """Return the row with the best score, a random one of equals; a single row is not scored."""
        if len(rows) == 1:
            return int(rows[0])
        scores = self.scores(task, rows)
        best = np.flatnonzero(scores == scores.max())
        return int(rows[best[0] if len(best) == 1 else best[self.rng.randrange(len(best))]])

    def dispatch(self, job: Job) -> None:
        """Send the allocated tasks of a job to binding, whichever statement allocated them.

        A task stays allocated if its node has no room for it before evicted pods are gone.
        """
        for task in list(job.tasks.values()):
            if task.state != TaskState.ALLOCATED:
                continue
            if not self._has_room_now(task):
                self.record(job, _NOT_ENOUGH, "the node of a placed pod has no room for it at present")
            else:
                is_bound = self.effects.bind(task, task.node)
                self.ledger.move(
                    task, Position(TaskState.BINDING, task.node) if is_bound else Position(TaskState.PENDING)
                )

    def _has_room_now(self, task: Task) -> bool:
        """Return whether the node of an allocated task has room for it beside all that is there or was sent there."""
        idle = self.nodes.idle[task.node]
        if np.all(idle >= 0):
            return True
        moved = (each for each, _ in self.ledger.moved.values() if each.node == task.node)
        unsent = [each.request for each in moved if each.state == TaskState.ALLOCATED]
        # What the task does not request may be overused there for long: a node can shrink below its pods.
        lacks = task.request - (idle + np.sum(unsent, axis=0)) >= self.scale.tolerance
        return not np.any(lacks & (task.request > 0))


def _by_key(key: Callable[[int, Job | None], contract.Key], left: int, right: int) -> int:
    """Compare two queues by their keys."""
    first, second = key(left, None), key(right, None)
    if first == second:
        return 0
    return -1 if first < second else 1


def _accepted(tiers: Iterable[Sequence[int]]) -> bool:
    """Return the outcome of votes by tier: one -1 refuses, a tier with a +1 accepts, nobody's vote accepts."""
    for votes in tiers:
        if any(vote < 0 for vote in votes):
            return False
        if any(vote > 0 for vote in votes):
            return True
    return True


def _index_of(task: Task) -> int | None:
    parts = task.key.rpartition("/")[2].split("-")
    try:
        return int(parts[-1]) if len(parts) >= _NAME_PARTS else None
    except ValueError:
        return None
