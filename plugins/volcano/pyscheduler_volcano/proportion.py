"""Volcano's plugin `proportion`: divide the cluster among queues by weight, request and guarantee.

Source: Volcano `plugins/proportion`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs
import numpy as np

from pyscheduler_batch.contract import Refusal
from pyscheduler_volcano.queue_policy import QueuePolicy, own_capability, share_limit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Amounts, Claim, Job, Key, Task, Tasks
    from pyscheduler_volcano.amounts import Scale

__all__ = ["Proportion", "divide_by_weight"]

#: Steps of the division; each one meets a queue or moves a smaller rest on.
_MOST_STEPS = 10_000


def divide_by_weight(
    total: Amounts,
    weight: NDArray[np.float64],
    request: Amounts,
    guarantee: Amounts,
    capability: Amounts,
    scale: Scale,
) -> Amounts:
    """Return float64[Q, R]: what each queue deserves.

    In each step the unmet queues get their part of what remains, cut by capability and request and raised to the
    guarantee. A queue is met when it has its request, or when a step gave it nothing. What a queue gave back or did not
    take remains for the next step. `total`: float64[R]; `weight`: float64[Q]; the others float64[Q, R].

    The steps run in Volcano's own units: in others, rounding could leave a queue a trifle below a whole amount.
    """
    units = scale.units
    total, request, guarantee, capability = total * units, request * units, guarantee * units, capability * units
    tolerance = scale.tolerance * units
    deserved = np.zeros_like(request)
    unmet = np.ones(len(weight), dtype=np.bool_)
    remaining = total.copy()
    for step in range(_MOST_STEPS):
        heavy = weight[unmet].sum()
        if heavy == 0:
            break
        old = deserved[unmet]
        part = remaining * (weight[unmet] / heavy)[:, None]
        new = np.minimum(np.minimum(old + part, capability[unmet]), request[unmet])
        new = np.maximum(new, guarantee[unmet])
        deserved[unmet] = new
        is_met = np.all(request[unmet] - new < tolerance, axis=1)
        if step:
            is_met |= np.all(new == old, axis=1)
        change = new - old
        rest = remaining + np.maximum(-change, 0.0).sum(axis=0) - np.maximum(change, 0.0).sum(axis=0)
        rest = np.maximum(rest, 0.0)
        unmet[np.flatnonzero(unmet)[is_met]] = False
        if scale.is_empty(rest / units) or np.array_equal(rest, remaining):
            break
        remaining = rest
    return deserved / units


class Proportion(QueuePolicy):
    """Divide the cluster by weight; order queues by priority and share; refuse and reclaim what exceeds a share."""

    name: ClassVar[str] = "proportion"

    def prepare(self) -> None:
        """Divide the cluster among the queues that have a job."""
        session, queues = self.session, self.session.queues
        self.count_queues()
        guarantee = np.nan_to_num(queues.guarantee)
        self.real_capability = own_capability(session.total, queues.guarantee, queues.limit, session.scale.native)
        active = self.sums.has_jobs
        self.deserved = np.zeros_like(self.real_capability)
        self.deserved[active] = divide_by_weight(
            session.total,
            queues.weight[active],
            self.sums.request[active],
            guarantee[active],
            share_limit(session.total, queues.guarantee, self.real_capability, session.scale.native)[active],
            session.scale,
        )
        self._counts = session.scale.significant(self.deserved)

    def compute_share(self, queue: int) -> float:
        """Return the largest part of its deserved amounts that the queue holds."""
        counts = self._counts[queue]
        if not counts.any():
            return 0.0
        return max(float(np.max(self.allocated[queue, counts] / self.deserved[queue, counts])), 0.0)

    def queue_key(self, queue: int, best_job: Job | None) -> Key:
        """Order queues by priority, the highest first, then by share."""
        return (-float(self.session.queues.priority[queue]), self.share(queue))

    def overused(self, queue: int) -> bool:
        """Return whether the queue holds what it deserves in every resource, pods included."""
        return self.session.scale.less_equal(self.deserved[queue], self.allocated[queue])

    def _refusal(self, queue: int, tasks: Sequence[Task]) -> Refusal | None:
        if closed := self.closed(queue):
            return closed
        return self.keep("share", queue, self.requested(tasks), self._beyond_share)

    def _beyond_share(self, queue: int, request: Amounts) -> Refusal | None:
        used = self.allocated[queue] + request
        if self.session.scale.within(used, self.deserved[queue], request):
            return None
        refusal = self.over_limit(queue, used, self.deserved[queue], request)
        # A gang that is larger than the share would wait for ever beside idle nodes.
        text = f"{refusal.message}, its share by weight; a larger weight or a guarantee of the queue raises it"
        return attrs.evolve(refusal, message=text)

    def allocatable(self, job: Job, tasks: Sequence[Task]) -> Refusal | None:
        """Refuse tasks that would take the queue beyond what it deserves."""
        return self._refusal(job.queue_row, tasks)

    def may_reclaim(self, queue: int, claim: Claim) -> bool:
        """Return whether the queue stays within what it deserves."""
        return self._refusal(queue, [] if claim.task is None else [claim.task]) is None

    def reclaimable(self, claim: Claim, tasks: Tasks) -> NDArray[np.bool_]:
        """Return bool[n]: tasks while their queue, less the tasks before, holds more than it deserves."""
        left: dict[int, Amounts] = {}
        chosen = np.zeros(len(tasks), dtype=np.bool_)
        for at, task in enumerate(tasks.tasks):
            queue = task.job.queue_row
            held = left.get(queue)
            if held is None:
                held = left[queue] = self.allocated[queue].copy()
            if not self.session.scale.less_equal(held, self.deserved[queue]):
                held -= task.request
                chosen[at] = True
        return chosen

    def job_enqueueable(self, job: Job) -> int:
        """Accept a job whose minimum the queue could hold; refuse others, and all if the queue is closed."""
        queue = job.queue_row
        if closed := self.closed(queue):
            self.session.record(job, closed.reason, closed.message)
            return -1
        if job.min_resources is None or self.within_capability(queue, job.min_resources):
            return 1
        self.refuse_enqueue(job, queue, job.min_resources)
        return -1

    def job_enqueued(self, job: Job) -> None:
        """Reserve the job's minimum."""
        self.reserve(job, [job.queue_row])
