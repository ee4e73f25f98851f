"""A session (scheduling round) of Volcano, with Volcano's rules for tiers (groups of plugins).

Source: Volcano `framework/session_plugins.go`.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import attrs
import numpy as np

from pyscheduler_batch import contract
from pyscheduler_batch.contract import TaskState
from pyscheduler_batch.model.statement import Position
from pyscheduler_volcano.gates import Gates
from pyscheduler_volcano.job_facts import is_pending
from pyscheduler_volcano.orders import Orders
from pyscheduler_volcano.places import Places
from pyscheduler_volcano.refused_nodes import RefusedNodes
from pyscheduler_volcano.stuck import StuckJobs
from pyscheduler_volcano.tier_session import TierSession
from pyscheduler_volcano.victim_rules import VictimRules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import Pod
    from pyscheduler_batch.contract import Job, Task
    from pyscheduler_volcano.hyper_nodes import HyperNode
    from pyscheduler_volcano.kept_jobs import Kind
    from pyscheduler_volcano.network_topology import NetworkTopologyAware
    from pyscheduler_volcano.quota_limits import QuotaLimit

__all__ = ["VolcanoSession"]

#: Other tasks of the scheduler may run after so many jobs that are read.
_TURN_EVERY = 64


def _nothing(_: object) -> Mapping[str, Any]:
    return {}


_OVERUSED: Final = "QueueOverused"
_NOT_ENQUEUED: Final = {"NotEnqueued": "no pass has enqueued the job yet"}
_NOT_ENOUGH: Final = "NotEnoughResources"
_NO_ROOM: Final = {_NOT_ENOUGH: "no node has room for a pod of the job"}


@attrs.define(eq=False, kw_only=True, slots=False)
class VolcanoSession(TierSession):
    """A session with Volcano's rules for tiers."""

    steps: ClassVar[Mapping[str, str]] = {_NOT_ENOUGH: "nodes", _OVERUSED: "gates", "NotEnqueued": "gates"}

    #: By job uid, the uids of the tasks that fitted no node in this session.
    fit_failures: defaultdict[str, set[str]] = attrs.Factory(lambda: defaultdict(set))
    #: Whether the actions of the session include enqueue; without it pending jobs may start at once.
    has_enqueue: bool = False
    #: By number of a kind of look-alikes, the reasons that all of them have; None if they were given several ones.
    spread_reasons: dict[int | None, Mapping[str, str] | None] = attrs.Factory(dict)
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
    def orders(self) -> Orders:
        """Return the orders of jobs, queues and tasks."""
        return Orders(self)

    @cached_property
    def gates(self) -> Gates:
        """Return the answers of the policies about jobs and queues."""
        return Gates(self)

    @cached_property
    def places(self) -> Places:
        """Return the choice of nodes."""
        return Places(self)

    @cached_property
    def victims(self) -> VictimRules:
        """Return the rules for victims."""
        return VictimRules(self, self.orders)

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

    def why_waiting(self, job: Job) -> Mapping[str, str]:
        """Return why a job waits without a recorded reason: its turn did not come, or no node had room."""
        if self.has_enqueue and is_pending(job):
            return _NOT_ENQUEUED
        row = job.queue_row
        if row < 0:
            return {}  # its queue is in the way, and the error of the queue says so
        if row not in self._overused_at_end:
            self._overused_at_end[row] = self.gates.overused(row)
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
