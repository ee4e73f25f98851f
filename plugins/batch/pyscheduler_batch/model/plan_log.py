"""Keep the best rejected eviction plan of each job and action (such as `reclaim`), for `pyscheduler explain job`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler_batch.contract import Refusal
    from pyscheduler_batch.model.tasks import Job, Task

__all__ = ["PlanLog", "RejectedPlan"]


@attrs.frozen
class RejectedPlan:
    """A plan of an action for a job: whom it would evict, how many tasks it would place, and why it was rejected."""

    victims: tuple[str, ...]
    placed: int
    refusal: Refusal


@attrs.define(eq=False)
class PlanLog:
    """The rejected plans of one pass."""

    #: By uid of a job and action, the best plan.
    plans: dict[tuple[str, str], RejectedPlan] = attrs.Factory(dict)

    def note(self, job: Job, action: str, victims: Sequence[Task], refusal: Refusal, *, placed: int = 0) -> None:
        """Take notice that a plan was rejected.

        A plan that places more tasks is better; of two such plans, the one that evicts fewer pods. Of plans that place
        nothing, the one that evicts more pods says more.
        """
        before = self.plans.get((job.uid, action))
        plan = RejectedPlan(tuple(dict.fromkeys(task.key for task in victims)), placed, refusal)
        if before is None or _rank(plan) > _rank(before):
            self.plans[job.uid, action] = plan


def _rank(plan: RejectedPlan) -> tuple[int, int]:
    count = len(plan.victims)
    return (plan.placed, -count if plan.placed else count)
