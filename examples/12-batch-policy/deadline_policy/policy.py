"""The policy `deadline`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from pyscheduler_batch.contract import JobOrder, Policy, VictimFilter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Claim, Job, Session, Tasks

__all__ = ["ANNOTATION", "Deadline", "deadline_of"]

ANNOTATION: Final = "acme.example/deadline"


class Deadline(Policy, JobOrder, VictimFilter):
    """Serve the jobs first whose deadline is near, and evict no job shortly before its deadline.

    Arguments: `annotation`, of a job's pods, seconds since 1970 (default `acme.example/deadline`); `spareSeconds`
    before the deadline in which a job keeps its nodes (default 3600).
    """

    name: ClassVar[str] = "deadline"
    argument_names = ("annotation", "spareSeconds")

    def __init__(self, arguments: Mapping[str, str] | None = None) -> None:
        super().__init__(arguments)
        self._annotation = self.arguments.get("annotation", ANNOTATION)
        self._spare = float(self.arguments.get("spareSeconds", "3600"))
        self._now = 0.0

    def open_session(self, session: Session) -> None:
        """Remember the time of the pass."""
        self._now = session.now

    def job_key(self, job: Job) -> tuple[float]:
        """Return the deadline: the smallest key comes first."""
        return (deadline_of(job, self._annotation),)

    def may_evict(self, claim: Claim, tasks: Tasks, action: str) -> NDArray[np.bool_] | None:
        """Return bool[n]: False for the tasks of jobs in their last hour."""
        left = np.array([deadline_of(job, self._annotation) for job in tasks.jobs]) - self._now
        return (left > self._spare)[tasks.job_of]


def deadline_of(job: Job, annotation: str) -> float:
    """Return the earliest deadline of the job's pods, in seconds since 1970; infinity if none has one."""
    pods = (task.pod for task in job.tasks.values() if task.pod is not None)
    texts = (pod.annotations.get(annotation, "") for pod in pods)
    return min((float(text) for text in texts if text.isdigit()), default=math.inf)
