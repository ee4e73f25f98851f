"""Combine the answers of all policies (Volcano's plugins) into one, for example whether a job may be enqueued.

Source: Volcano `framework/session_plugins.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler_batch import contract

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyscheduler_batch.contract import Claim, Job, Refusal, Task
    from pyscheduler_volcano.tier_session import TierSession

__all__ = ["Gates"]


class Gates:
    """The answers of the policies about jobs (to be enqueued, allocated, bound) and about queues (to take more)."""

    def __init__(self, session: TierSession) -> None:
        self._session = session

    def job_valid(self, job: Job) -> Refusal | None:
        """Return the first refusal, or None."""
        for tier in self._session.by_tier(contract.JobValid):
            for policy in tier:
                refusal: Refusal | None = policy.job_valid(job)
                if refusal is not None:
                    return refusal
        return None

    def job_ready(self, job: Job) -> bool:
        """Return whether all policies agree to bind the job's tasks."""
        tiers = self._session.by_tier(contract.JobReady, "enableJobReady")
        return all(policy.job_ready(job) for tier in tiers for policy in tier)

    def job_starving(self, job: Job) -> bool:
        """Return whether all policies of the first tier that has any call the job starving."""
        for tier in self._session.by_tier(contract.JobStarving, "enableJobStarving"):
            if tier:
                return all(policy.job_starving(job) for policy in tier)
        return False

    def job_pipelined(self, job: Job) -> bool:
        """Return whether the job keeps what it was promised."""
        tiers = self._session.by_tier(contract.JobPipelined, "enableJobPipelined")
        return _accepted([policy.job_pipelined(job) for policy in tier] for tier in tiers)

    def job_enqueueable(self, job: Job) -> bool:
        """Return whether the job may be enqueued."""
        tiers = self._session.by_tier(contract.Enqueueable, "enableJobEnqueued")
        return _accepted([policy.job_enqueueable(job) for policy in tier] for tier in tiers)

    def job_enqueued(self, job: Job) -> None:
        """Notify the policies that a job was enqueued."""
        for tier in self._session.by_tier(contract.EnqueueListener, "enableJobEnqueued"):
            for policy in tier:
                policy.job_enqueued(job)

    def overused(self, queue: int) -> bool:
        """Return whether any policy calls the queue overused."""
        tiers = self._session.by_tier(contract.Overused, "enabledOverused")
        return any(policy.overused(queue) for tier in tiers for policy in tier)

    def allocatable(self, task: Task) -> bool:
        """Return whether the queue of the task may get it."""
        for tier in self._session.by_tier(contract.Allocatable, "enabledAllocatable"):
            for policy in tier:
                refusal = policy.allocatable(task.job, (task,))
                if refusal is not None:
                    self._session.record(task.job, refusal.reason, refusal.message)
                    return False
        return True

    def may_reclaim(self, queue: int, claim: Claim) -> bool:
        """Return whether all policies let the queue reclaim."""
        tiers = self._session.by_tier(contract.MayReclaim, "enablePreemptive")
        return all(policy.may_reclaim(queue, claim) for tier in tiers for policy in tier)


def _accepted(tiers: Iterable[Sequence[int]]) -> bool:
    """Return the outcome of votes by tier: one -1 refuses, a tier with a +1 accepts, nobody's vote accepts."""
    for votes in tiers:
        if any(vote < 0 for vote in votes):
            return False
        if any(vote > 0 for vote in votes):
            return True
    return True
