"""sla: a job that waited too long is enqueued and keeps its promise. Source: Volcano `plugins/sla`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from pyscheduler_batch.volcano.policy import VolcanoPolicy

if TYPE_CHECKING:
    from pyscheduler.batch.contract import Key
    from pyscheduler.batch.tasks import Job

__all__ = ["Sla", "parse_duration"]

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)")


def parse_duration(text: str) -> float | None:
    """Return the seconds of a duration like `1h30m`, or None if it is none or is not positive."""
    seconds, at = 0.0, 0
    for part in _PART.finditer(text):
        if part.start() != at:
            return None
        seconds += float(part[1]) * _UNITS[part[2]]
        at = part.end()
    return seconds if at == len(text) and seconds > 0 else None


class Sla(VolcanoPolicy):
    """Order jobs by the end of their waiting time; admit jobs whose waiting time is over."""

    name: ClassVar[str] = "sla"

    def prepare(self) -> None:
        """Read the waiting time of jobs that set none."""
        self._default = parse_duration(str(self.arguments.get("sla-waiting-time", "")))

    def _deadline(self, job: Job) -> float:
        waiting = self._default if job.waiting_time is None else job.waiting_time
        return float("inf") if waiting is None else job.created + waiting

    def job_key(self, job: Job) -> Key:
        """Order jobs by deadline; jobs without one come last."""
        return (self._deadline(job),)

    def job_enqueueable(self, job: Job) -> int:
        """Accept once the deadline has passed; no opinion before."""
        return int(self.session.now >= self._deadline(job))

    job_pipelined = job_enqueueable
