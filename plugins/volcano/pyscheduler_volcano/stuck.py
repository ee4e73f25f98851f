"""Find jobs that can never start: even if all nodes were empty, too few of their pods would find a node.

Differs from Volcano: such a job is not enqueued and reserves nothing. In Volcano, it reserves resources for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from pyscheduler_batch.contract import ALIVE, TaskState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Job, Policy, Session, Task
    from pyscheduler_batch.model.row_cache import RowCache
    from pyscheduler_volcano.amounts import Scale

__all__ = ["StuckJobs"]


@attrs.define(eq=False)
class StuckJobs:
    """The stuck jobs among those that are enqueued. Policies are not prepared yet; only the profile's filters count."""

    session: Session
    scale: Scale
    rows: RowCache
    #: By tier; without a policy of that role, filters do not count.
    predicates: Sequence[Sequence[Policy]]
    uids: set[str] = attrs.field(factory=set, init=False)

    async def find(self, jobs: Iterable[Job]) -> None:
        """Find the stuck jobs among some."""
        for job in jobs:
            if job.phase == "Inqueue" and self.why(job):
                self.uids.add(job.uid)
            await self.session.turn()

    def why(self, job: Job) -> str:
        """Return why a job is stuck; "" if it is not, or if missing or gated pods may yet make up its minimum."""
        spare = max(job.count(ALIVE) + job.counts[TaskState.SUCCEEDED] - job.min_member, 0)
        if job.counts[TaskState.PENDING] <= spare:
            return ""
        for task in job.tasks.values():
            if task.state == TaskState.PENDING and (why := self._why_nowhere(task)):
                spare -= 1
                if spare < 0:
                    return why
        return ""

    def _why_nowhere(self, task: Task) -> str:
        """Return why no node can hold a task whatever ends there; "" if one can."""
        request, nodes, placer = task.request, self.session.nodes, self.session.placer

        def is_large(rows: NDArray[np.int64]) -> NDArray[np.bool_]:
            return self.scale.fits(request, nodes.allocatable[rows])

        large: NDArray[np.bool_] = self.rows.get(("empty", request.tobytes()), is_large)
        if not large.any():
            return f"no node is large enough for {task.key}"
        if not any(self.predicates) or (placer.suitable(task) & large).any() or (placer.curable(task) & large).any():
            return ""
        return placer.why_not(task) or f"no node that is large enough accepts {task.key}"
