"""Volcano's plugin `overcommit`: admit jobs until they request a multiple (1.2 by default) of the cluster's resources.

Source: Volcano `plugins/overcommit`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pyscheduler_volcano.policy import VolcanoPolicy, number_argument
from pyscheduler_volcano.reservations import Reservers, is_settled, minimum_of, reserved_rest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler_batch.contract import Amounts, Job

__all__ = ["Overcommit"]

_DEFAULT_FACTOR = 1.2


class Overcommit(VolcanoPolicy):
    """Admit jobs while their minimums fit into the idle resources of a cluster `overcommit-factor` times as large.

    A factor below 1 counts as 1.2.
    """

    name: ClassVar[str] = "overcommit"
    steps: ClassVar[Mapping[str, str]] = {"ClusterOverused": "gates"}

    def prepare(self) -> None:
        """Add up what is idle and what is reserved."""
        session = self.session
        factor = number_argument(self.arguments, "overcommit-factor", _DEFAULT_FACTOR)
        used = (session.nodes.allocatable - session.nodes.idle).sum(axis=0)
        self._idle = session.total * (factor if factor >= 1.0 else _DEFAULT_FACTOR) - used
        self._inqueue = session.axis.zeros()
        self._reservers = Reservers()
        books = session.books
        for job in books.kept.declaring():
            if job.phase == "Inqueue" and job.uid not in session.stuck.uids:
                self._reserve(job, minimum_of(job, len(session.axis)))
            elif is_settled(job):
                self._reserve(job, reserved_rest(job, books.allocated[books.rows[job.uid]]))

    def job_enqueueable(self, job: Job) -> int:
        """Accept a job without minResources, or one that fits."""
        if job.min_resources is None:
            return 1
        used = self._inqueue + job.min_resources
        if self.session.scale.within(used, self._idle, job.min_resources):
            return 1
        over = self.session.scale.exceeded(used, self._idle, job.min_resources)
        names = [f"overused {self.session.axis.names[column]}" for column in np.flatnonzero(over).tolist()]
        text = f"resource in cluster is overused: {', '.join(names)}{self._reservers.text(0, over)}"
        self.session.record(job, "ClusterOverused", text)
        return -1

    def job_enqueued(self, job: Job) -> None:
        """Reserve the job's minimum."""
        self._reserve(job, minimum_of(job, len(self.session.axis)))

    def _reserve(self, job: Job, amounts: Amounts) -> None:
        self._inqueue += amounts
        self._reservers.add(job, (0,), amounts)
