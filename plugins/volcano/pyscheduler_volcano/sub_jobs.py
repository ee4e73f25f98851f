"""The sub-groups that `subGroupPolicy` defines for a job; a sub-group starts with its minimum of pods or not at all.

Source: Volcano `actions/allocate`, `api/sub_job_info.go`, and the plugins gang and priority.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from pyscheduler_batch.contract import TaskState
from pyscheduler_batch.model.sub_groups import counts_by_part, parts_missing, parts_shortage, policies_of
from pyscheduler_volcano.job_facts import READY, priority_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pyscheduler_batch.contract import Job, Task
    from pyscheduler_volcano.session import VolcanoSession

__all__ = ["PROMISED", "SubJob", "SubJobs", "parts_exist", "parts_reach", "parts_short"]

PROMISED = READY | {TaskState.PIPELINED}
"""States of the tasks that count as ready or pipelined."""


def parts_exist(job: Job) -> bool:
    """Return whether as many sub-groups have tasks as the policies need, whatever their size."""
    names = {task.sub_group for task in job.tasks.values()}
    return all(
        sum(name.startswith(f"{policy}/") for name in names) >= needed
        for policy, (needed, _) in policies_of(job).items()
    )


def parts_reach(job: Job, states: Collection[TaskState], best_effort: Collection[str]) -> bool:
    """Return whether enough sub-groups have their size of tasks in the states, or pending ones that request nothing."""
    return not job.sub_groups or not parts_missing(job, counts_by_part(job, states, best_effort))


def parts_short(job: Job, best_effort: Collection[str]) -> str:
    """Return which sub-groups lack ready tasks, such as `tp: 1 of 2 sub-groups (tp/1 3/4)`; "" if enough have them."""
    counts = counts_by_part(job, READY, best_effort)
    counts.update(dict.fromkeys([task.sub_group for task in job.tasks.values()], 0))
    return parts_shortage(job, counts)


class SubJob:
    """One sub-group with its tasks to place, in order; the one without a name has the tasks that no policy matches."""

    __slots__ = ("_best_effort", "failures", "is_required", "key", "members", "name", "size", "tasks")

    def __init__(
        self, name: str, size: int, members: list[Task], tasks: Iterable[Task], best_effort: Collection[str]
    ) -> None:
        self.name = name
        self.size = size
        self.tasks = deque(tasks)
        self.members = members
        self._best_effort = best_effort
        self.is_required = False
        #: UIDs of the tasks that fitted nowhere in this turn.
        self.failures: set[str] = set()
        index = name.rpartition("/")[2].partition("-")[0]
        #: By priority, then by the first label of the policy if that is a number, then by name.
        self.key = (-max(map(priority_of, members)), int(index) if index.isdecimal() else 0, name)

    def _has(self, states: Collection[TaskState]) -> int:
        return sum(
            task.state in states or (task.state == TaskState.PENDING and task.uid in self._best_effort)
            for task in self.members
        )

    def is_ready(self) -> bool:
        """Return whether its size of tasks is ready."""
        return self._has(READY) >= self.size

    def is_pipelined(self) -> bool:
        """Return whether its size of tasks is ready or pipelined."""
        return self._has(PROMISED) >= self.size

    def may_go_on(self, job: Job) -> bool:
        """Return whether it could still become ready after a task that fitted nowhere."""
        return job.min_member != len(job.tasks) and self.size < len(self.members)


class SubJobs:
    """The sub-groups of a job that have tasks to place: required ones first, then those that are not ready."""

    def __init__(self, session: VolcanoSession, job: Job, tasks: Iterable[Task]) -> None:
        policies = policies_of(job)
        members: dict[str, list[Task]] = {}
        for task in job.tasks.values():
            members.setdefault(task.sub_group, []).append(task)
        wanted: dict[str, list[Task]] = {}
        for task in tasks:
            wanted.setdefault(task.sub_group, []).append(task)
        best_effort = session.books.best_effort
        parts = [
            SubJob(name, policies.get(name.rpartition("/")[0], (0, 1))[1], each, wanted.get(name, ()), best_effort)
            for name, each in members.items()
        ]
        counts = dict.fromkeys(policies, 0)
        for part in sorted(parts, key=lambda part: (not part.is_ready(), part.key)):
            policy = part.name.rpartition("/")[0]
            if policy in policies and counts[policy] < policies[policy][0]:
                counts[policy] += 1
                part.is_required = not part.is_ready()
        self._parts = [part for part in parts if part.tasks]

    def pop(self) -> SubJob | None:
        """Return the first one, and take it out; None if none is left."""
        if not self._parts:
            return None
        first = min(self._parts, key=lambda part: (not part.is_required, part.is_ready(), part.key))
        self._parts.remove(first)
        return first

    def push(self, part: SubJob) -> None:
        """Put one back that is ready and has tasks left."""
        self._parts.append(part)

    def tasks(self) -> Iterable[Task]:
        """Yield the tasks of those that are left."""
        for part in self._parts:
            yield from part.tasks
