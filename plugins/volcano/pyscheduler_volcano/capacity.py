"""Volcano's plugin `capacity`: each queue has a configured share (`deserved`) and a limit; queues may form a tree.

Source: Volcano `plugins/capacity`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pyscheduler_batch.contract import Refusal, Tasks
from pyscheduler_batch.model.values import go_boolean
from pyscheduler_batch.queue_problems import queue_text
from pyscheduler_volcano.capacity_tree import CapacityTable, flat_table, queue_shares, tree_table
from pyscheduler_volcano.device_quotas import DeviceQuotas
from pyscheduler_volcano.objects import ROOT_QUEUE
from pyscheduler_volcano.policy import number_argument
from pyscheduler_volcano.queue_policy import QueuePolicy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Amounts, Claim, Job, Key, Task, TaskState

__all__ = ["Capacity"]

#: How many queues and jobs a reason names.
_NAMED = 3


class Capacity(QueuePolicy):
    """Order queues by priority and share; keep limits of queues and of queues above; reclaim what exceeds `deserved`.

    Limits on devices of resource claims count, too. Argument `ancestorReclaimLevel`: up to how many levels above a
    queue its ancestors also permit and limit reclaim.
    """

    name: ClassVar[str] = "capacity"
    steps: ClassVar[Mapping[str, str]] = {**QueuePolicy.steps, "QueueTreeBroken": "queue"}

    def prepare(self) -> None:
        """Compute limits and shares."""
        session, queues = self.session, self.session.queues
        self.is_tree = session.switch(self, "enableHierarchy", default=False)
        self._levels = max(number_argument(self.arguments, "ancestorReclaimLevel", 0), 0)
        self.count_queues()
        root = queues.index.get(ROOT_QUEUE, -1)
        #: Why nothing is scheduled; None for a usable tree.
        self._broken = self._why_broken() if self.is_tree else None
        self.is_sound = self._broken is None
        if self.is_tree and self.is_sound:
            table = tree_table(queues, session.total, root, session.scale)
            self._add_up()
        elif self.is_tree:
            nothing = np.zeros_like(queues.quota)
            set_columns = ~np.isnan(queues.quota)
            table = CapacityTable(np.nan_to_num(queues.quota), nothing, nothing, set_columns)
        else:
            table = flat_table(queues, session.total, session.scale)
        self.deserved, self.guarantee, self.real_capability, self.is_set = table
        self._devices = self._device_quotas()
        #: float64[Q]: shares at the begin. In a tree those of inner queues stay during the session.
        self.shares = queue_shares(self.allocated, self.deserved, session.scale)
        if not self.is_sound:
            self.shares[:] = 0.0
        self._deserves = np.any(session.scale.significant(self.deserved) & session.scale.counted, axis=1).tolist()
        self._priority: list[float] = queues.priority.tolist()
        self._is_leaf: list[bool] = queues.is_leaf.tolist()
        #: By row: the rows from the top down to the queue.
        self._lines: list[list[int]] = [path[::-1].tolist() for path in queues.paths]

    def _why_broken(self) -> Refusal | None:
        """Return what is wrong with the tree of queues; None if nothing is."""
        queues = self.session.queues
        missing = queues.missing_parents
        # One sentence says it for all queues below the root.
        wrong = [] if ROOT_QUEUE in queues.index else [f'queue "{ROOT_QUEUE}" does not exist; create it']
        wrong += [
            queue_text(reason, name, missing=missing.get(name, ""))
            for name, reason in sorted(queues.problems.items())
            if missing.get(name) != ROOT_QUEUE
        ]
        inner = np.flatnonzero(self.sums.has_jobs & ~queues.is_leaf).tolist()
        for row in inner[:_NAMED]:
            jobs = sorted(job.key for job in self.session.books.jobs if job.queue_row == row)
            more = f" and {len(jobs) - _NAMED} more" if len(jobs) > _NAMED else ""
            text = f'queue "{queues.names[row]}" has child queues, but also the jobs {", ".join(jobs[:_NAMED])}{more}'
            wrong.append(f"{text}; put them into a queue without children")
        if not wrong:
            return None
        rest = f"; {len(wrong) - _NAMED} more queues have problems" if len(wrong) > _NAMED else ""
        return Refusal("QueueTreeBroken", f"nothing is scheduled in any queue: {'; '.join(wrong[:_NAMED])}{rest}")

    def _device_quotas(self) -> DeviceQuotas | None:
        """Return the limits on devices of claims; None if there are none, or the arguments turn them off."""
        session, said = self.session, self.arguments
        if not self.is_sound or go_boolean(str(said.get("capacity.DynamicResourceAllocationEnable", "true"))) is False:
            return None
        parts = go_boolean(str(said.get("capacity.DRAConsumableCapacityEnable", "")))
        has_dimensions = session.has_device_parts if parts is None else parts
        return DeviceQuotas.of(session, self._path, has_dimensions=has_dimensions)

    def moved(self, task: Task, old: TaskState, new: TaskState) -> None:
        """Follow what queues hold of devices; their shares are computed anew."""
        super().moved(task, old, new)
        if self._devices is not None:
            self._devices.moved(task, old, new)

    def _add_up(self) -> None:
        """Add the sums of the leaves to the queues above."""
        queues = self.session.queues
        leaves = np.flatnonzero(self.sums.has_jobs).tolist()
        for column in (self.sums.request, self.sums.inqueue, self.sums.elastic):
            for row in leaves:
                column[queues.paths[row][1:]] += column[row]

    # Order.

    def compute_share(self, queue: int) -> float:
        """Return the share of a leaf from what it holds now; that of an inner queue stays as it was."""
        if not self.is_sound or (self.is_tree and not self.session.queues.is_leaf[queue]):
            return float(self.shares[queue])
        rows = slice(queue, queue + 1)
        return float(queue_shares(self.allocated[rows], self.deserved[rows], self.session.scale)[0])

    def compare_queues(self, left: int, right: int) -> float:
        """Compare by priority, then by the shares of the queues below the lowest common ancestor."""
        priority = self._priority
        if priority[left] != priority[right]:
            return priority[right] - priority[left]
        if self.is_tree:
            if not self.is_sound:
                return 0.0
            if self._is_leaf[left] != self._is_leaf[right]:
                return -1.0 if self._is_leaf[left] else 1.0
            if self._is_leaf[left]:
                left, right = self._apart(left, right)
        first, second = self.share(left), self.share(right)
        if first != second:
            return first - second
        return float(self._deserves[right]) - float(self._deserves[left])

    def _apart(self, left: int, right: int) -> tuple[int, int]:
        """Return where the lines of two queues part: the rows below their lowest common ancestor, or the queues."""
        first, second = self._lines[left], self._lines[right]
        below = self._common_level(left, right) + 1
        return first[min(below, len(first) - 1)], second[min(below, len(second) - 1)]

    def _common_level(self, left: int, right: int) -> int:
        """Return the depth of the lowest common ancestor, 0 at the top."""
        first, second = self._lines[left], self._lines[right]
        level = 0
        for depth in range(min(len(first), len(second)) - 1):
            if first[depth] != second[depth]:
                break
            level = depth
        return level

    def victim_queue_key(self, queue: int, claim: Claim) -> Key:
        """Take first from the queues that are nearest to the claim's queue in the tree."""
        if not (self.is_tree and self.is_sound):
            return (0,)
        return (-self._common_level(queue, claim.job.queue_row),)

    # Gates.

    def allocatable(self, job: Job, tasks: Sequence[Task]) -> Refusal | None:
        """Refuse tasks that would take the queue, or a queue above, beyond its limit."""
        queue = job.queue_row
        queues = self.session.queues
        if closed := self.closed(queue):
            return closed
        if self._broken is not None:
            return self._broken
        if (refusal := self.keep("limit", queue, self.requested(tasks), self._beyond_limit)) is not None:
            return refusal
        for task in tasks:
            if self._devices is not None and (over := self._devices.exceeded(task)):
                return Refusal("QueueLimit", f"queue {queues.names[over[0]]} is full: {over[1]}")
        return None

    def _beyond_limit(self, queue: int, request: Amounts) -> Refusal | None:
        for row in self._path(queue):
            used = self.allocated[row] + request
            if not self.session.scale.within(used, self.real_capability[row], request):
                return self.over_limit(row, used, self.real_capability[row], request)
        return None

    def _path(self, queue: int) -> list[int]:
        path: list[int] = self.session.queues.paths[queue].tolist() if self.is_tree else [queue]
        return path

    def job_enqueueable(self, job: Job) -> int:
        """Accept a job whose minimum the queue and all queues above could hold."""
        queue = job.queue_row
        if self._broken is not None:
            self.session.record(job, self._broken.reason, self._broken.message)
            return -1
        if closed := self.closed(queue):
            self.session.record(job, closed.reason, closed.message)
            return -1
        minimum = job.min_resources
        for row in self._path(queue):
            if minimum is not None and not self.within_capability(row, minimum):
                self.refuse_enqueue(job, row, minimum)
                return -1
        if self._devices is not None and (over := self._devices.enqueue_exceeded(job)):
            text = f"queue resource quota insufficient: queue {self.session.queues.names[over[0]]}: {over[1]}"
            self.session.record(job, "QueueQuota", text)
            return -1
        return 1

    def job_enqueued(self, job: Job) -> None:
        """Reserve the job's minimum in its queue and in all queues above."""
        if self.is_sound:
            self.reserve(job, self._path(job.queue_row))
            if self._devices is not None:
                self._devices.reserve(job)

    # Reclaim.

    def may_reclaim(self, queue: int, claim: Claim) -> bool:
        """Return whether the queue stays within its limit and is below what it deserves in some requested resource."""
        if not self.is_sound or not self.is_open(queue):
            return False
        return self.keep("reclaim", queue, self.requested([] if claim.task is None else [claim.task]), self._may_take)

    def _may_take(self, queue: int, request: Amounts) -> bool:
        if not self.session.scale.within(self.allocated[queue] + request, self.real_capability[queue], request):
            return False
        return any(self._deserves_more(row, request) for row in (queue, *self._near_ancestors(queue)))

    def _deserves_more(self, queue: int, request: Amounts) -> bool:
        scale = self.session.scale
        used, deserved = self.allocated[queue] + request, self.deserved[queue]
        relevant = (request > 0) & scale.counted & (scale.significant(used) | scale.significant(deserved))
        return bool(np.any(relevant & (used - deserved < scale.tolerance)))

    def _near_ancestors(self, queue: int) -> list[int]:
        """Return the ancestors up to the configured level, the nearest first, without the root."""
        if not (self.is_tree and self._levels):
            return []
        names = self.session.queues.names
        return [row for row in self._path(queue)[1 : self._levels + 1] if names[row] != ROOT_QUEUE]

    def reclaimable(self, claim: Claim, tasks: Tasks) -> NDArray[np.bool_]:
        """Return bool[n]: tasks whose queue, less the tasks before, exceeds its share and keeps its guarantee.

        Tasks are considered in the order of eviction. A task without any resource of the claim is left alone; one of a
        queue that deserves none of the task's resources may always go.
        """
        chosen = np.zeros(len(tasks), dtype=np.bool_)
        if not self.is_sound or claim.task is None:
            return chosen
        rows = {task.uid: at for at, task in enumerate(tasks.tasks)}
        queue = self.session.victims.queue(tasks.tasks, claim)
        left: dict[int, Amounts] = {}
        while len(queue):
            task = queue.pop()
            checked = self._reclaimable_from(claim, claim.task, task, left)
            for row in checked:
                left[row] -= task.request
            chosen[rows[task.uid]] = bool(checked)
        return chosen

    def _reclaimable_from(self, claim: Claim, wanted: Task, task: Task, left: dict[int, Amounts]) -> list[int]:
        """Return the queues that lose the task, or nothing if it must stay."""
        scale, queue = self.session.scale, task.job.queue_row
        shared = scale.significant(task.request) & scale.significant(wanted.request) & scale.counted
        if not shared.any():
            return []
        held = left.setdefault(queue, self.allocated[queue].copy())
        if not scale.less_equal(self.guarantee[queue], held - task.request):
            return []
        if not self._has_relevant(task, queue):
            if self._shares_near_ancestor(claim.job.queue_row, queue) and not self._has_relevant(
                wanted, claim.job.queue_row
            ):
                return []
        elif not self._exceeds(queue, held, task):
            return []
        losing = [queue]
        for row in self._ancestors_to_check(claim.job.queue_row, queue):
            held = left.setdefault(row, self.allocated[row].copy())
            if self._has_relevant(task, row) and not self._exceeds(row, held, task):
                return []
            losing.append(row)
        return losing

    def _has_relevant(self, task: Task, queue: int) -> bool:
        significant = self.session.scale.significant
        return bool(np.any(significant(task.request) & significant(self.deserved[queue])))

    def _exceeds(self, queue: int, held: Amounts, task: Task) -> bool:
        """Return whether the queue holds more than it deserves of a resource that it has and the task requests."""
        scale, deserved = self.session.scale, self.deserved[queue]
        has = np.where(scale.native, scale.significant(deserved), self.is_set[queue])
        return bool(np.any(scale.exceeded(held, deserved, task.request) & has))

    def _shares_near_ancestor(self, left: int, right: int) -> bool:
        return not set(self._near_ancestors(left)).isdisjoint(self._near_ancestors(right))

    def _ancestors_to_check(self, claiming: int, losing: int) -> list[int]:
        """Return the losing queue's near ancestors that are not the claiming queue's at the same level."""
        if not (self.is_tree and self._levels):
            return []
        mine, theirs = self._path(claiming)[1:], self._path(losing)[1 : self._levels + 1]
        names = self.session.queues.names
        return [
            row
            for level, row in enumerate(theirs)
            if names[row] != ROOT_QUEUE and not (level < len(mine) and mine[level] == row)
        ]
