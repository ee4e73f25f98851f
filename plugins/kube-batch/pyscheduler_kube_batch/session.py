"""The state and the rules of one scheduling round (session) of kube-batch.

Differs from Volcano's session:

- A job with fewer pods than its minimum does not take part in the round.
- When enough pods of a job have nodes, each further pod is bound immediately.

Source: kube-batch `framework/session.go`, `framework/session_plugins.go`.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import numpy as np

from pyscheduler_batch import contract
from pyscheduler_batch.contract import PODS
from pyscheduler_batch.disruption_budgets import spared_of
from pyscheduler_batch.model.answers import mask_of
from pyscheduler_batch.model.priority_queue import PriorityQueue
from pyscheduler_kube_batch.predicates import Predicates
from pyscheduler_volcano.amounts import Scale
from pyscheduler_volcano.books import Books
from pyscheduler_volcano.orders import Orders
from pyscheduler_volcano.session import VolcanoSession
from pyscheduler_volcano.victim_rules import VictimRules

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Claim, Task, Tasks

__all__ = ["KubeBatchSession"]

_MEBIBYTE = 1024.0 * 1024.0


def _no_nodes(_: str) -> Iterable[str]:
    return ()


class _Orders(Orders):
    """The order of tasks without the index in a pod's name."""

    def task_less(self, left: Task, right: Task) -> bool:
        """Return whether `left` is placed first; ties by age, then UID."""
        order = self.compare_tasks(left, right)
        return order < 0 if order else (left.created, left.uid) < (right.created, right.uid)


class _Victims(VictimRules):
    """The tasks that a session may evict, in the order of tasks alone."""

    def queue(self, victims: Collection[Task], claim: Claim) -> PriorityQueue[Task]:
        """Return the victims, the task that would be placed last first."""
        spared = spared_of(self._session, victims)

        def less(left: Task, right: Task) -> bool:
            if spared and (left.uid in spared) != (right.uid in spared) and not self._orders.compare_tasks(left, right):
                return right.uid in spared
            return not self._orders.task_less(left, right)

        return PriorityQueue(less, victims)

    def combine(self, tiers: Sequence[Sequence[Any]], claim: Claim, tasks: Tasks) -> NDArray[np.bool_]:
        """Return the intersection of the first tier that leaves any victim.

        The intersection is never begun afresh: once it is empty, no later policy and no later tier adds a victim.
        """
        victims: NDArray[np.bool_] | None = None
        for tier in tiers:
            for answer in tier:
                said = answer(claim, tasks)
                if said is not None:
                    mask = mask_of(said, len(tasks), answer)
                    victims = mask if victims is None else victims & mask
            if victims is not None and victims.any():
                return victims
        return np.zeros(len(tasks), dtype=np.bool_)


@attrs.define(eq=False, kw_only=True, slots=False)
class KubeBatchSession(VolcanoSession):
    """A session with kube-batch's rules for tiers."""

    own_modules: ClassVar[tuple[str, ...]] = (*VolcanoSession.own_modules, "pyscheduler_kube_batch.")

    #: Returns the names of the nodes that have a condition, such as `DiskPressure`.
    nodes_with: Callable[[str], Iterable[str]] = _no_nodes

    @cached_property
    def orders(self) -> Orders:
        """Return the orders of jobs, queues and tasks."""
        return _Orders(self)

    @cached_property
    def victims(self) -> VictimRules:
        """Return the rules for victims."""
        return _Victims(self, self.orders)

    @cached_property
    def scale(self) -> Scale:
        """Return the tolerances of the axis; pods count nowhere."""
        return Scale(self.axis, cpu=10.0, memory=10 * _MEBIBYTE, pods=np.inf, other=0.01)

    @cached_property
    def books(self) -> Books:
        """Return the sums by job; jobs without a queue, and jobs that are not valid, do not take part."""
        jobs = []
        for job in self.jobs.values():
            refusal = self.gates.job_valid(job)
            if refusal is not None:
                self.record(job, refusal.reason, refusal.message)
            elif job.queue_row >= 0:
                jobs.append(job)
        return Books.of(jobs, self.scale)

    def _follow(self) -> Iterable[None]:
        """Read nothing: the sums begin anew in each pass."""
        return ()

    @cached_property
    def _leaving_at_open(self) -> NDArray[np.float64]:
        """Return float64[N]: the pods that were being deleted when the session was opened."""
        leaving: NDArray[np.float64] = self.nodes.releasing[:, self.axis.index[PODS]].copy()
        return leaving

    async def open(self) -> None:
        """Count the pods that are being deleted, then prepare sums and policies."""
        _ = self._leaving_at_open
        await super().open()

    def accepted(self, task: Task) -> NDArray[np.bool_]:
        """Return bool[N]: the nodes that the predicates accept, whatever room the task would need there."""
        policies = [policy for tier in self.policies(contract.Predicate, "enablePredicate") for policy in tier]
        if not policies:
            return np.ones(len(self.nodes), dtype=np.bool_)
        # Pods that were being deleted before the session count until they are gone; evicted ones do not.
        column = self.axis.index[PODS]
        has_place: NDArray[np.bool_] = self.nodes.future[:, column] - self._leaving_at_open >= 1
        mask = has_place & self.placer.curable(task)
        for policy in policies:
            if isinstance(policy, Predicates):
                mask = policy.keep_calm(task, mask)
        return mask

    def bind_on(self, task: Task, node: int) -> None:
        """Allocate a task; send all allocated tasks of its job to binding if the job is ready. Nothing undoes it."""
        self.statement().allocate(task, node)
        if self.gates.job_ready(task.job):
            self.dispatch(task.job)
