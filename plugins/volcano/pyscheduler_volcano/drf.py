"""Volcano's plugin `drf`: dominant resource fairness among jobs and, with `enableHierarchy`, among queues.

Source: Volcano `plugins/drf`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pyscheduler_volcano.hierarchy import HierarchyTree, TreeState
from pyscheduler_volcano.policy import VolcanoPolicy

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        #: The task that reclaims, and whether it may have other tasks, each alone.
        self._claim = ""
        self._may_have: dict[_Kind, bool] = {}
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
        """Return bool[n]: tasks whose queue holds enough even without the victims; None without hierarchy."""
        if self.tree is None or claim.task is None:
            return None
        if self._claim != claim.task.uid:
            self._claim = claim.task.uid
            self._may_have.clear()
        kinds = [self._kind(task) for task in tasks.tasks]
        asked = {kind: task for kind, task in zip(kinds, tasks.tasks, strict=True) if kind not in self._may_have}
        if asked:
            self._answer(claim, asked)
        chosen = np.array([self._may_have[kind] for kind in kinds], dtype=np.bool_)
        if self.session.is_live and np.count_nonzero(chosen) > 1:
            self._spare(claim, tasks, chosen)
        return chosen

    def _kind(self, task: Task) -> _Kind:
        return self.session.books.rows[task.job.uid], task.request.tobytes()

    def _answer(self, claim: Claim, asked: dict[_Kind, Task]) -> None:
        """Find out which tasks the claim may have, each alone: of these kinds and of some that come next."""
        books = self.session.books
        most = self._most_situations()
        for at in np.flatnonzero(books.residents.running & (books.residents.queue != claim.job.queue_row)).tolist():
            if len(asked) >= most:
                break
            task = books.residents.tasks[at]
            if self._kind(task) not in self._may_have:
                asked.setdefault(self._kind(task), task)
        allocated = np.repeat(self._with_claim(claim)[:, None], len(asked), axis=1)
        for situation, ((row, _), task) in enumerate(asked.items()):
            allocated[row, situation] -= task.request
        self._may_have.update(zip(asked, self._allows(claim, [*asked.values()], allocated), strict=True))

    def _spare(self, claim: Claim, tasks: Tasks, chosen: NDArray[np.bool_]) -> None:
        """Take the tasks from `chosen` (bool[n]) that the claim may not have after those chosen before."""
        books, most = self.session.books, self._most_situations()
        left = self._with_claim(claim)
        line = np.flatnonzero(chosen).tolist()
        while line:
            part = [tasks.tasks[at] for at in line[:most]]
            allocated = np.repeat(left[:, None], len(part), axis=1)
            for situation, task in enumerate(part):
                allocated[books.rows[task.job.uid], situation:] -= task.request
            allows = self._allows(claim, part, allocated)
            kept = allows.index(False) if False in allows else len(part)
            if kept:
                left = allocated[:, kept - 1]
            line = line[kept:]
            if kept < len(part):
                # The queue keeps all its other tasks with this request, too: without one of them it would hold as much.
                spared = part[kept]
                alike = [at for at in line if _is_alike(tasks.tasks[at], spared)]
                chosen[alike] = False
                line = [at for at in line if chosen[at]]

    def _most_situations(self) -> int:
        return max(_MOST_FIGURES // max(len(self._rows), 1), 1)

    def _with_claim(self, claim: Claim) -> Amounts:
        """Return float64[J, R]: what the jobs hold once the claim's task has its room."""
        assert claim.task is not None, "only tasks reclaim"
        books = self.session.books
        allocated: Amounts = books.allocated.copy()
        allocated[books.rows[claim.job.uid]] += claim.task.request
        return allocated

    def _allows(self, claim: Claim, victims: Sequence[Task], allocated: Amounts) -> list[bool]:
        """Return for each victim whether the claim may have it, in the situation of the same number.

        `allocated`: float64[J, S, R], what the jobs hold in each situation.
        """
        assert self.tree is not None, "the hierarchy is on"
        paths, state = self.session.queues.hierarchy, self.tree.states(allocated[self._rows])
        mine, theirs = paths[claim.job.queue_row][0], [paths[victim.job.queue_row][0] for victim in victims]
        if self.session.is_live:
            return [self.tree.may_take(state, mine, path, at) for at, path in enumerate(theirs)]
        return [self.tree.compare(state, mine, path, at) < 0 for at, path in enumerate(theirs)]


def _is_alike(task: Task, other: Task) -> bool:
    """Return True if the tasks are of one queue and request the same."""
    return task.job.queue_row == other.job.queue_row and np.array_equal(task.request, other.request)
