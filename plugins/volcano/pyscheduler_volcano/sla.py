"""Volcano's plugin `sla`: once a job has waited too long, admit it, unless another plugin refuses it.

Source: Volcano `plugins/sla`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pyscheduler_batch.model.values import duration
from pyscheduler_volcano.policy import VolcanoPolicy

if TYPE_CHECKING:
    from pyscheduler_batch.contract import Job, Key

__all__ = ["Sla"]


class Sla(VolcanoPolicy):
    """Order jobs by the end of their waiting time; admit jobs whose waiting time is over."""

    name: ClassVar[str] = "sla"

    def prepare(self) -> None:
        """Read the waiting time of jobs that set none."""
        self._default = duration(self.arguments.get("sla-waiting-time"), "sla-waiting-time", []) or None

    def _deadline(self, job: Job) -> float:
        waiting = self._default if job.waiting_time is None else job.waiting_time
        return float("inf") if waiting is None else job.created + waiting

    def job_key(self, job: Job) -> Key:
        """Order jobs by deadline; jobs without one come last."""
        return (self._deadline(job),)

    def job_enqueueable(self, job: Job) -> int:
        """Accept once the deadline has passed; no opinion before. A pass is due at the deadline."""
        deadline = self._deadline(job)
        if self.session.now >= deadline:
            return 1
        self.session.wake(deadline)
        return 0

    job_pipelined = job_enqueueable
