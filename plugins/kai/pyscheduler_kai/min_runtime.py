"""KAI's plugin `minruntime`: protect jobs that started a short time ago.

A queue sets how long its jobs must run before other jobs may evict them.

Source: KAI-Scheduler, `plugins/minruntime`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pyscheduler_batch.contract import Policy, TaskState
from pyscheduler_kai.gang import DEFAULT_LEAF

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyscheduler_batch.contract import Job, Session, Task
    from pyscheduler_kai.gang import Gang, Leaf

__all__ = ["MinRuntime"]

_PREEMPT = "preempt"
_RECLAIM = "reclaim"
_SURE = frozenset({TaskState.BOUND, TaskState.RUNNING})


class MinRuntime(Policy):
    """Protect jobs for a while after their start."""

    name: ClassVar[str] = "minruntime"

    def __init__(self, arguments: Mapping[str, str] | None = None) -> None:
        super().__init__(arguments)
        self.default_preempt = max(float(self.arguments.get("defaultPreemptMinRuntime", "0")), 0.0)
        self.default_reclaim = max(float(self.arguments.get("defaultReclaimMinRuntime", "0")), 0.0)
        self.from_leaf = self.arguments.get("reclaimResolveMethod") == "queue"

    def open_session(self, session: Session) -> None:
        """Take the settings of all queues."""
        self._now, self._wake = session.now, session.wake
        self._is_live = session.is_live
        self._paths = session.queues.paths
        self._preempt = session.queues.preempt_min_runtime.tolist()
        self._reclaim = session.queues.reclaim_min_runtime.tolist()
        self._known: dict[tuple[str, int, int], float] = {}

    @property
    def is_set(self) -> bool:
        """Return whether any job may be protected for a while."""
        values = (*self._preempt, *self._reclaim, self.default_preempt, self.default_reclaim)
        return any(value > 0 for value in values)

    def close_session(self, session: Session) -> None:
        """Let go of the session: it holds much memory."""
        del self._wake

    def protects(self, action: str, claimant: Job, victim: Job) -> bool:
        """Return whether a victim has not run long enough for this action."""
        return self._now < self.protected_until(action, claimant, victim)

    def protected_until(self, action: str, claimant: Job, victim: Job) -> float:
        """Return when a victim has run long enough for this action, in seconds since 1970."""
        if victim.last_start is None or action not in {_PREEMPT, _RECLAIM}:
            return -math.inf
        key = (action, claimant.queue_row if action == _RECLAIM else -1, victim.queue_row)
        seconds = self._known.get(key)
        if seconds is None:
            seconds = self._seconds(action, claimant.queue_row, victim.queue_row)
            self._known[key] = seconds
        end = victim.last_start + seconds
        self._wake(end)
        return end

    def _seconds(self, action: str, claimant: int, victim: int) -> float:
        path = self._paths[victim].tolist()
        if action == _PREEMPT:
            return _first_set(self._preempt, path, self.default_preempt)
        if self.from_leaf:
            return _first_set(self._reclaim, path, self.default_reclaim)
        other = self._paths[claimant].tolist()
        common = len(set(path) & set(other))
        if common == 0:
            # Under different top queues, only the victim's top queue counts.
            return _first_set(self._reclaim, path[-1:], self.default_reclaim)
        # From the child of the lowest common ancestor on the victim's side up to the top.
        return _first_set(self._reclaim, path[max(len(path) - common - 1, 0) :], self.default_reclaim)

    def allows_victim(self, action: str, claimant: Job, victim: Gang) -> bool:
        """Return whether a job may be a victim; the surplus of a protected job is judged by `keeps_minimum`."""
        return victim.is_elastic() or not self.protects(action, claimant, victim.job)

    def keeps_minimum(self, action: str, claimant: Job, victim: Gang, tasks: Sequence[Task]) -> bool:
        """Return whether a victim keeps its minimum without these tasks, if it is protected."""
        if not victim.is_elastic() or not self.protects(action, claimant, victim.job):
            return True
        victim.used  # noqa: B018 - counts the leaves anew
        lost = {task.sub_group or DEFAULT_LEAF for task in tasks}
        return all(leaf.minimum <= self._left(leaf, tasks) for leaf in victim.leaves if leaf.name in lost)

    def _left(self, leaf: Leaf, tasks: Sequence[Task]) -> int:
        """Return how many tasks of a leaf remain without these tasks of its job."""
        if not self._is_live:
            return leaf.used - sum((task.sub_group or DEFAULT_LEAF) == leaf.name for task in tasks)
        # KAI-Scheduler counts also pods that are leaving, and those that this pass has placed and may not bind.
        lost = {task.uid for task in tasks}
        return sum(task.state in _SURE and task.uid not in lost for task in leaf.tasks)


def _first_set(values: Sequence[float], rows: Sequence[int], default: float) -> float:
    """Return the first value that is set (not NaN) along a path of queues."""
    for row in rows:
        if not np.isnan(values[row]):
            return values[row]
    return default
