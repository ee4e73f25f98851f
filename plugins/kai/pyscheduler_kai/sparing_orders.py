"""Prefer victims whose eviction violates no PodDisruptionBudget; KAI itself reads no budgets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler_batch.disruption_budgets import DisruptionBudgets
    from pyscheduler_kai.gang import Gang, Quantities
    from pyscheduler_kai.job_queue import JobKey, Orders
    from pyscheduler_kai.proportion import QueueKey

__all__ = ["SparingOrders"]


@attrs.frozen
class SparingOrders:
    """The orders of KAI for victims, of which the last comes first: before age, a violated budget decides."""

    orders: Orders
    budgets: DisruptionBudgets

    def job_key(self, gang: Gang) -> JobKey:
        """Return the key of a job, with whether the next unit of it can be evicted."""
        *key, created, uid = self.orders.job_key(gang)
        return (*key, 0.0 if any(self.budgets.violating(gang.to_evict())) else 1.0, created, uid)

    def queue_key(self, queue: int, adds: Quantities, removes: Quantities) -> QueueKey:
        """Return the key of a queue."""
        return self.orders.queue_key(queue, adds, removes)

    @property
    def parents(self) -> Sequence[int]:
        """Return the row of each queue's parent."""
        return self.orders.parents
