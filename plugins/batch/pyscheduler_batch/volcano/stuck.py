"""Jobs that no node can help: too few of their pods fit on any node, even if all nodes were empty.

Differs from Volcano: such a job is not enqueued, and reserves nothing if it was enqueued before its pods came. In
Volcano it keeps the rest of its queue, and of the cluster, from all other jobs for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler.batch.contract import Predicate
from pyscheduler.batch.tasks import ALIVE, TaskState

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pyscheduler.batch.tasks import Job, Task
    from pyscheduler_batch.volcano.session import VolcanoSession

__all__ = ["find_stuck", "stuck_text"]


async def find_stuck(session: VolcanoSession) -> set[str]:
    """Return the uids of the enqueued jobs that are stuck; none in a replay of Volcano's decisions."""
    found: set[str] = set()
    if session.is_live and session.has_enqueue:
        for job in session.books.kept.declaring():
            if job.phase == "Inqueue" and stuck_text(session, job):
                found.add(job.uid)
            await session.turn()
    return found


def stuck_text(session: VolcanoSession, job: Job) -> str:
    """Return why a job is stuck; "" if it is not, or if missing or gated pods may yet make up its minimum."""
    spare = max(job.count(ALIVE) + job.counts[TaskState.SUCCEEDED] - job.min_member, 0)
    if job.counts[TaskState.PENDING] <= spare:
        return ""
    for task in job.tasks.values():
        if task.state == TaskState.PENDING and (why := _why_nowhere(session, task)):
            spare -= 1
            if spare < 0:
                return why
    return ""


def _why_nowhere(session: VolcanoSession, task: Task) -> str:
    """Return why no node can hold a task whatever ends there; "" if one can."""
    request, nodes = task.request, session.nodes

    def is_large(rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        return session.scale.fits(request, nodes.allocatable[rows])

    large: NDArray[np.bool_] = session.rows.get(("empty", request.tobytes()), is_large)
    if not large.any():
        return f"no node is large enough for {task.key}"
    # The policies are not prepared yet; only the filters of the profile count.
    if not any(session.by_tier(Predicate, "enablePredicate")):
        return ""
    if (session.placer.suitable(task) & large).any() or (session.placer.curable(task) & large).any():
        return ""
    return session.placer.why_not(task) or f"no node that is large enough accepts {task.key}"
