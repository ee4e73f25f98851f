"""Find jobs that an action (a step of the scheduling round, such as `reclaim`) may skip.

A job is skipped if an earlier job with the same constraints and no larger requests found no room.

Source: KAI-Scheduler, `actions/common/minimal_job_comparison.go`, `api/pod_info/scheduling_constraints_signature.go`.
"""

from __future__ import annotations

from operator import le
from typing import TYPE_CHECKING

from pyscheduler_batch.contract import ACTIVE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyscheduler_batch.contract import Task, TaskState
    from pyscheduler_kai.gang import Gang

__all__ = ["LookAlikes"]


class LookAlikes:
    """The smallest failed job of each kind."""

    def __init__(self, signature_of: Callable[[Gang], object]) -> None:
        self._signature_of = signature_of
        self._failed: dict[object, Gang] = {}

    def is_easier(self, gang: Gang) -> bool:
        """Return whether a job may succeed although jobs of its kind failed."""
        failed = self._failed.get(self._signature_of(gang))
        return failed is None or _is_easier(_requests(gang.pending()), _requests(failed.pending()))

    def note(self, gang: Gang) -> None:
        """Remember that the search for a job failed."""
        key = self._signature_of(gang)
        known = self._failed.get(key)
        if known is None or _is_smaller(_requests(gang.pending()), _requests(known.pending())):
            self._failed[key] = gang


def signature(gang: Gang, state_of: Callable[[Task], TaskState]) -> object:
    """Return what must be equal for two jobs to be of one kind: the constraints of the tasks to be placed.

    `state_of` returns the state of a task that counts.
    """
    leaves = []
    for leaf in gang.leaves:
        waiting = [task for task in leaf.tasks if state_of(task) not in ACTIVE]
        if waiting:
            leaves.append((leaf.depth, *sorted(_constraints(task) for task in waiting)))
    if gang.has_topology():
        # Where its tasks run already decides where the others may run.
        return gang.job.uid
    return tuple(sorted(leaves, key=repr))


def _constraints(task: Task) -> str:
    """Return the constraints of a task as text."""
    if task.pod is None:
        return ""
    spec = task.pod.spec
    return repr((spec.node_selector, spec.affinity, spec.tolerations, spec.priority, spec.topology_spread_constraints))


def _requests(tasks: Sequence[Task]) -> list[tuple[float, ...]]:
    """Return what tasks request, the smallest first. Plain numbers: there are few, and they are compared one by one."""
    return sorted(tuple(task.request.tolist()) for task in tasks)


def _at_most(left: tuple[float, ...], right: tuple[float, ...]) -> bool:
    return all(map(le, left, right))


def _is_easier(first: Sequence[tuple[float, ...]], second: Sequence[tuple[float, ...]]) -> bool:
    """Return whether the first job has fewer tasks, or a smaller one where they differ."""
    if not first or not second:
        return False
    if len(second) > len(first):
        return True
    return any(_at_most(own, other) and not _at_most(other, own) for own, other in zip(first, second, strict=False))


def _is_smaller(first: Sequence[tuple[float, ...]], second: Sequence[tuple[float, ...]]) -> bool:
    """Return whether each task of the first job is at most as large as one of the second."""
    if not first or not second or len(first) > len(second):
        return False
    return all(_at_most(own, other) for own, other in zip(first, second, strict=False))
