"""The policy `drf`: dominant resource fairness among jobs and, with `enableHierarchy`, among queues.

Source: Volcano `plugins/drf`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pyscheduler_volcano.hierarchy import HierarchyTree, TreeState
from pyscheduler_volcano.policy import VolcanoPolicy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Amounts, Claim, Job, Key, Task, Tasks, TaskState

__all__ = ["Drf", "dominant_share"]

_SHARE_DELTA = 1e-6
#: Figures of so many jobs are computed at once.
_MOST_FIGURES = 16_384
#: The row of a job, and what one of its tasks requests: equal tasks of a job leave the same behind.
_Kind = tuple[int, bytes]


def dominant_share(allocated: Amounts, total: Amounts, counts: NDArray[np.bool_]) -> float:
    """Return the largest part of the total that is allocated, over the resources that count (bool[R])."""
    if not counts.any():
        return 0.0
    return max(float(np.max(allocated[counts] / total[counts])), 0.0)


class Drf(VolcanoPolicy):
    """Order jobs by dominant share; with `enableHierarchy` also order a hierarchy of queues, and reclaim in it."""

    name: ClassVar[str] = "drf"

    def prepare(self) -> None:
        """Read the totals; build the tree if the hierarchy is on."""
        session = self.session
        self._counts = session.scale.significant(session.total)
        self._shares: dict[str, float] = {}
        self.tree: HierarchyTree | None = None
        self._state: TreeState | None = None
        #: The task that reclaims, and whether the queues of other tasks come after its queue even without them.
        self._claim = ""
        self._comes_after: dict[_Kind, bool] = {}
        if session.switch(self, "enableHierarchy", default=False):
            books = session.books
            paths = [session.queues.hierarchy[job.queue_row] for job in books.jobs]
            #: int64[n]: the rows of the jobs.
            self._rows = np.array([*books.rows.values()], dtype=np.int64)
            self.tree = HierarchyTree(paths, session.total, books.total_request[self._rows], session.scale)

    def share(self, job: Job) -> float:
        """Return the dominant share of a job."""
        share = self._shares.get(job.uid)
        if share is None:
            books = self.session.books
            row = books.rows.get(job.uid)
            # In kube-batch, a job that is not valid takes no part: only `kubectl queue explain` asks for its place.
            share = 0.0 if row is None else dominant_share(books.allocated[row], self.session.total, self._counts)
            self._shares[job.uid] = share
        return share

    def job_key(self, job: Job) -> Key:
        """Order jobs by share, the smallest first."""
        return (self.share(job),)

    def preemptable(self, claim: Claim, tasks: Tasks) -> NDArray[np.bool_]:
        """Return bool[n]: tasks whose job, less the tasks before, still has the share of the claim or more."""
        books, total = self.session.books, self.session.total
        wanted = books.allocated[books.rows[claim.job.uid]]
        if claim.task is not None:
            wanted = wanted + claim.task.request
        mine = dominant_share(wanted, total, self._counts)
        left = [books.allocated[books.rows[job.uid]].copy() for job in tasks.jobs]
        chosen = np.zeros(len(tasks), dtype=np.bool_)
        for at, (task, job) in enumerate(zip(tasks.tasks, tasks.job_of.tolist(), strict=True)):
            left[job] -= task.request
            theirs = dominant_share(left[job], total, self._counts)
            chosen[at] = mine < theirs or abs(mine - theirs) <= _SHARE_DELTA
        return chosen

    # The hierarchy.

    def moved(self, task: Task, old: TaskState, new: TaskState) -> None:
        """Forget the share of the job, and the figures of the tree."""
        self._shares.pop(task.job.uid, None)
        self._state = None
        self._claim = ""

    def state(self) -> TreeState | None:
        """Return the present figures of the tree, or None without a hierarchy."""
        if self.tree is not None and self._state is None:
            self._state = self.tree.states(self.session.books.allocated[self._rows, None])
        return self._state

    def compare_queues(self, left: int, right: int) -> float:
        """Compare the paths of two queues."""
        state = self.state()
        if self.tree is None or state is None:
            return 0.0
        paths = self.session.queues.hierarchy
        return self.tree.compare(state, paths[left][0], paths[right][0])

    def reclaimable(self, claim: Claim, tasks: Tasks) -> NDArray[np.bool_] | None:
        """Return bool[n]: tasks whose queue comes after the claim's queue even without them; None without hierarchy."""
        if self.tree is None or claim.task is None:
            return None
        books, uid = self.session.books, claim.task.uid
        if self._claim != uid:
            self._claim = uid
            self._comes_after.clear()
        kinds = [(books.rows[task.job.uid], task.request.tobytes()) for task in tasks.tasks]
        asked = {kind: task for kind, task in zip(kinds, tasks.tasks, strict=True) if kind not in self._comes_after}
        if asked:
            self._answer(claim, asked)
        return np.array([self._comes_after[kind] for kind in kinds], dtype=np.bool_)

    def _answer(self, claim: Claim, asked: dict[_Kind, Task]) -> None:
        """Find out which tasks come after the claim's queue, of these kinds and of some that may be asked for next."""
        assert self.tree is not None, "the hierarchy is on"
        assert claim.task is not None, "only tasks reclaim"
        books, paths = self.session.books, self.session.queues.hierarchy
        most = _MOST_FIGURES // max(len(self._rows), 1)
        for at in np.flatnonzero(books.residents.running & (books.residents.queue != claim.job.queue_row)).tolist():
            if len(asked) >= most:
                break
            task = books.residents.tasks[at]
            kind = (books.rows[task.job.uid], task.request.tobytes())
            if kind not in self._comes_after:
                asked.setdefault(kind, task)
        allocated = np.repeat(books.allocated[:, None], len(asked), axis=1)
        allocated[books.rows[claim.job.uid]] += claim.task.request
        for situation, ((row, _), task) in enumerate(asked.items()):
            allocated[row, situation] -= task.request
        state = self.tree.states(allocated[self._rows])
        mine = paths[claim.job.queue_row][0]
        for situation, (kind, task) in enumerate(asked.items()):
            theirs = paths[task.job.queue_row][0]
            self._comes_after[kind] = self.tree.compare(state, mine, theirs, situation) < 0
