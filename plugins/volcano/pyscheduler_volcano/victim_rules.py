"""Find the tasks (pods) that a scheduling round may evict, and sort them.

Volcano's plugins are in groups, the tiers. The plugins of a tier are asked only if the tiers before it found no victim.
Source: Volcano `framework/session_plugins.go`.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from pyscheduler_batch import contract
from pyscheduler_batch.contract import Refusal, Tasks, TaskState
from pyscheduler_batch.disruption_budgets import spared_of, within_budgets
from pyscheduler_batch.model.answers import mask_of
from pyscheduler_batch.model.priority_queue import PriorityQueue

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Claim, Job, Statement, Task
    from pyscheduler_volcano.orders import Orders
    from pyscheduler_volcano.tier_session import TierSession

__all__ = ["VictimRules"]


class VictimRules:
    """The tasks that a session may evict, and their order."""

    def __init__(self, session: TierSession, orders: Orders) -> None:
        self._session, self._orders = session, orders
        self._protected_from_others: frozenset[str] | None = None

    def queue(self, victims: Collection[Task], claim: Claim) -> PriorityQueue[Task]:
        """Return the victims in the order of eviction.

        Of one job the last task goes first; of one queue the last job; across queues as `VictimQueueOrder` says, else
        the queue that would be served last.
        """
        spared = spared_of(self._session, victims)

        def less(left: Task, right: Task) -> bool:
            first, second = left.job, right.job
            if first is not second:
                if first.queue_row != second.queue_row:
                    return self._queue_less(first.queue_row, second.queue_row, claim)
                order = self._orders.compare_jobs(first, second)
                if order:
                    return order > 0
            if spared and (left.uid in spared) != (right.uid in spared) and not self._orders.compare_tasks(left, right):
                return right.uid in spared
            return not self._orders.task_less(left, right)

        return PriorityQueue(less, victims)

    def _queue_less(self, left: int, right: int, claim: Claim) -> bool:
        for policy in chain.from_iterable(self._session.by_tier(contract.VictimQueueOrder)):
            first, second = policy.victim_queue_key(left, claim), policy.victim_queue_key(right, claim)
            if first != second:
                return bool(first < second)
        return not self._orders.queue_less(left, right)

    def protected_from(self, job: Job) -> frozenset[str]:
        """Return the uids of the jobs that must not be evicted for a job; jobs without a past have the same answer."""
        if job.uid in self._session.with_past():
            return frozenset(self._session.protected(job))
        if self._protected_from_others is None:
            self._protected_from_others = frozenset(self._session.protected(job))
        return self._protected_from_others

    def preemptable(self, claim: Claim, tasks: Tasks) -> NDArray[np.bool_]:
        """Return bool[n]: which tasks the claim may preempt."""
        tiers = self._session.by_tier(contract.Preemptable, "enablePreemptable")
        victims = self.combine([[policy.preemptable for policy in tier] for tier in tiers], claim, tasks)
        return self._spare(victims, tasks)

    def reclaimable(self, claim: Claim, tasks: Tasks) -> NDArray[np.bool_]:
        """Return bool[n]: which tasks the claim may reclaim."""
        tiers = self._session.by_tier(contract.Reclaimable, "enableReclaimable")
        victims = self.combine([[policy.reclaimable for policy in tier] for tier in tiers], claim, tasks)
        return self._spare(victims, tasks)

    def combine(self, tiers: Sequence[Sequence[Any]], claim: Claim, tasks: Tasks) -> NDArray[np.bool_]:
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

    def _spare(self, victims: NDArray[np.bool_], tasks: Tasks) -> NDArray[np.bool_]:
        """Return the victims that budgets allow, without critical pods if a policy of another distribution has a say.

        The policies of Volcano decide as Volcano does, which leaves critical pods to `conformance`.
        """
        victims = within_budgets(self._session, victims, tasks)
        if self._session.has_own_policies_only:
            return victims
        return victims & ~np.array([task.critical for task in tasks.tasks], dtype=np.bool_)

    def note_plan(
        self, action: str, claim: Claim, node: int, victims: Sequence[Task], candidates: Sequence[Task]
    ) -> None:
        """Note that the victims on a node hold too little, and which policies spare other candidates."""
        if self._session.plan_log is None:
            return
        role, switch, name = (
            (contract.Preemptable, "enablePreemptable", "preemptable")
            if action == "preempt"
            else (contract.Reclaimable, "enableReclaimable", "reclaimable")
        )
        tasks, spared = Tasks.of(candidates), []
        for policy in (policy for tier in self._session.by_tier(role, switch) for policy in tier):
            mask = getattr(policy, name)(claim, tasks)
            if mask is not None and not mask.all():
                spared.append(f"{policy.name} spares {len(mask) - int(mask.sum())}")
        text = (
            f"on node {self._session.nodes.names[node]} {len(victims)} of {len(candidates)} candidates may be evicted"
        )
        if spared:
            refusal = Refusal("VictimsSpared", f"{text}, which is too little: {', '.join(spared)}")
        else:
            refusal = Refusal("NoRoomAfterEvictions", f"{text}, which is too little")
        self._session.plan_log.note(claim.job, action, victims, refusal)

    def note_gate(self, job: Job, action: str, refusal: Refusal) -> None:
        """Note why an action tries nothing for a job, or takes back what it tried."""
        if self._session.plan_log is not None:
            self._session.plan_log.note(job, action, (), refusal)

    def note_discarded(self, job: Job, action: str, statement: Statement) -> None:
        """Note that an action takes evictions back, because they make room for too few pods of the job."""
        if self._session.plan_log is None or not statement.changes:
            return
        victims = [change.task for change in statement.changes if change.new.state == TaskState.RELEASING]
        placed = job.counts[TaskState.PIPELINED]
        text = f"this makes room for {placed} pods, but the job needs {job.min_member} at once"
        self._session.plan_log.note(job, action, victims, Refusal("GangIncomplete", text), placed=placed)
