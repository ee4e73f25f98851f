"""kube-batch's plugin `proportion`: divide the cluster among queues by weight, but give no queue more than it requests.

Source: kube-batch `plugins/proportion`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pyscheduler_volcano.policy import VolcanoPolicy
from pyscheduler_volcano.reservations import QueueSums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Amounts, Claim, Job, Key, Tasks
    from pyscheduler_volcano.amounts import Scale

__all__ = ["Proportion", "divide_by_weight"]

_MOST_STEPS = 10_000


def divide_by_weight(total: Amounts, weight: NDArray[np.float64], request: Amounts, scale: Scale) -> Amounts:
    """Return float64[Q, R]: what each queue deserves.

    In each step the unmet queues get their part of what remains. A queue is met when it requests strictly less than
    that in every resource; it then keeps its request, and gives back the rest. So a queue that requests much of one
    resource keeps its part of all others. `total`: float64[R]; `weight`: float64[Q]; `request`: float64[Q, R].
    """
    deserved = np.zeros_like(request)
    unmet = np.ones(len(weight), dtype=np.bool_)
    remaining = np.where(np.isfinite(scale.tolerance), total, 0.0)
    for _ in range(_MOST_STEPS):
        heavy = weight[unmet].sum()
        if heavy == 0:
            break
        old = deserved[unmet]
        new = old + remaining * (weight[unmet] / heavy)[:, None]
        is_met = _requests_less(request[unmet], new, total > 0, scale)
        new[is_met] = np.minimum(new[is_met], request[unmet][is_met])
        deserved[unmet] = new
        remaining = remaining + (old - new).sum(axis=0)
        unmet[np.flatnonzero(unmet)[is_met]] = False
        if scale.is_empty(remaining):
            break
    return deserved


def _requests_less(request: Amounts, deserved: Amounts, offered: NDArray[np.bool_], scale: Scale) -> NDArray[np.bool_]:
    """Return bool[Q]: which requests are strictly less in every resource.

    Resources but cpu and memory are compared where the queue requests them. A queue that requests none of them must
    deserve more than the tolerance of each that the cluster offers.
    """
    extended = np.isfinite(scale.tolerance) & ~scale.native & offered
    asked = (request > 0) & extended
    less = request < deserved
    native = np.all(less | ~scale.native, axis=1)
    some = asked.any(axis=1)
    within = np.all(less | ~asked, axis=1)
    spare = np.all((deserved > scale.tolerance) | ~extended, axis=1)
    met: NDArray[np.bool_] = native & np.where(some, within, spare)
    return met


class Proportion(VolcanoPolicy):
    """Divide the cluster by weight; order queues by share; skip overused queues; reclaim what exceeds a share."""

    name: ClassVar[str] = "proportion"

    def prepare(self) -> None:
        """Divide the cluster among the queues that have a job."""
        session = self.session
        books, queues = session.books, session.queues
        sums = QueueSums(books, len(queues))
        # What jobs that are not valid hold counts as held and as requested.
        counted = np.zeros_like(sums.request)
        np.add.at(counted, [job.queue_row for job in books.jobs], books.allocated)
        request = sums.request + queues.allocated - counted
        self.deserved = np.zeros_like(request)
        active = sums.has_jobs
        self.deserved[active] = divide_by_weight(session.total, queues.weight[active], request[active], session.scale)
        self._counts = session.scale.significant(self.deserved)

    def queue_shares(self) -> Amounts:
        """Return float64[Q, R]: what each queue deserves."""
        return self.deserved

    def share(self, queue: int) -> float:
        """Return the largest part of its deserved amounts that the queue holds."""
        counts = self._counts[queue]
        if not counts.any():
            return 0.0
        held = self.session.queues.allocated[queue, counts]
        return max(float(np.max(held / self.deserved[queue, counts])), 0.0)

    def queue_key(self, queue: int, best_job: Job | None) -> Key:
        """Order queues by share, the smallest first."""
        return (self.share(queue),)

    def overused(self, queue: int) -> bool:
        """Return whether the queue holds what it deserves in every resource."""
        return self.session.scale.less_equal(self.deserved[queue], self.session.queues.allocated[queue])

    def reclaimable(self, claim: Claim, tasks: Tasks) -> NDArray[np.bool_]:
        """Return bool[n]: tasks whose queue, less them and the tasks before, still holds what it deserves."""
        left: dict[int, Amounts] = {}
        chosen = np.zeros(len(tasks), dtype=np.bool_)
        for at, task in enumerate(tasks.tasks):
            queue = task.job.queue_row
            held = left.get(queue)
            if held is None:
                held = left[queue] = self.session.queues.allocated[queue].copy()
            held -= task.request
            chosen[at] = self.session.scale.less_equal(self.deserved[queue], held)
        return chosen
