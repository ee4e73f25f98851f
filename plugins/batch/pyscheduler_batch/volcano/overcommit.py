"""overcommit: enqueue jobs up to a multiple of the cluster. Source: Volcano `plugins/overcommit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pyscheduler_batch.volcano.policy import VolcanoPolicy, float_argument
from pyscheduler_batch.volcano.reservations import is_settled, minimum_of, reserved_rest

if TYPE_CHECKING:
    from pyscheduler.batch.tasks import Job

__all__ = ["Overcommit"]

_DEFAULT_FACTOR = 1.2


class Overcommit(VolcanoPolicy):
    """Admit jobs while their minimums fit into the idle resources of a cluster `overcommit-factor` times as large.

    A factor below 1 counts as 1.2.
    """

    name: ClassVar[str] = "overcommit"

    def prepare(self) -> None:
        """Add up what is idle and what is reserved."""
        session = self.session
        factor = float_argument(self.arguments, "overcommit-factor", _DEFAULT_FACTOR)
        used = (session.nodes.allocatable - session.nodes.idle).sum(axis=0)
        self._idle = session.total * (factor if factor >= 1.0 else _DEFAULT_FACTOR) - used
        self._inqueue = session.axis.zeros()
        books = session.books
        for job in books.kept.declaring():
            if job.phase == "Inqueue":
                self._inqueue += minimum_of(job, len(session.axis))
            elif is_settled(job):
                self._inqueue += reserved_rest(job, books.allocated[books.rows[job.uid]])

    def job_enqueueable(self, job: Job) -> int:
        """Accept a job without minResources, or one that fits."""
        if job.min_resources is None:
            return 1
        used = self._inqueue + job.min_resources
        if self.session.scale.within(used, self._idle, job.min_resources):
            return 1
        over = self.session.scale.exceeded(used, self._idle, job.min_resources).tolist()
        names = [f"overused {name}" for name, is_over in zip(self.session.axis.names, over, strict=True) if is_over]
        self.session.record(job, "ClusterOverused", f"resource in cluster is overused: {', '.join(names)}")
        return -1

    def job_enqueued(self, job: Job) -> None:
        """Reserve the job's minimum."""
        self._inqueue += minimum_of(job, len(self.session.axis))
