"""The order of jobs, queues and tasks (pods) in a scheduling round, as Volcano's plugins define it.

Source: Volcano `framework/session_plugins.go`.
"""

from __future__ import annotations

from functools import cached_property, cmp_to_key, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from pyscheduler_batch import contract

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyscheduler_batch.contract import Job, Task
    from pyscheduler_volcano.tier_session import TierSession

__all__ = ["Orders"]

#: A pod's name ends in its index if it has at least this many parts: job, task, index.
_NAME_PARTS: Final = 3


class Orders:
    """The order in which a session serves jobs, queues and tasks."""

    def __init__(self, session: TierSession) -> None:
        self._session = session

    def compare_jobs(self, left: Job, right: Job) -> int:
        """Return -1, 0 or 1 by the policies alone; a gang that lost members comes before all of them."""
        if left.is_broken != right.is_broken:
            return -1 if left.is_broken else 1
        if self._session.has_own_policies_only:
            mine, other = self._keys_of(left), self._keys_of(right)
            return (mine > other) - (mine < other)
        keys = ((policy.job_key(left), policy.job_key(right)) for policy in self._job_orders)
        return next((-1 if first < second else 1 for first, second in keys if first != second), 0)

    def _keys_of(self, job: Job) -> tuple[contract.Key, ...]:
        """Return the keys of a job by the policies of this distribution: they depend on its own tasks alone."""
        known = self._job_keys.get(job.uid)
        if known is None or known[0] != job.changes:
            known = self._job_keys[job.uid] = (job.changes, tuple(policy.job_key(job) for policy in self._job_orders))
        return known[1]

    @cached_property
    def _job_orders(self) -> list[Any]:
        return [policy for tier in self._session.policies(contract.JobOrder, "enableJobOrder") for policy in tier]

    @cached_property
    def _job_keys(self) -> dict[str, tuple[int, tuple[contract.Key, ...]]]:
        """Return by uid how often the job had changed, and its keys."""
        return {}

    def order_key(self, job: Job) -> contract.Key:
        """Return the keys that `compare_jobs` compares; the smallest is served first, ties by age, then UID."""
        return (not job.is_broken, *(policy.job_key(job) for policy in self._job_orders))

    def job_less(self, left: Job, right: Job) -> bool:
        """Return whether `left` is served first; ties by age, then UID."""
        order = self.compare_jobs(left, right)
        if order:
            return order < 0
        return (left.created, left.uid) < (right.created, right.uid)

    def queue_less(self, left: int, right: int) -> bool:
        """Return whether queue `left` (a row) is served first; ties by age, then name."""
        for compare in self._queue_orders:
            order = compare(left, right)
            if order:
                return order < 0
        queues = self._session.queues
        return bool((queues.created[left], queues.names[left]) < (queues.created[right], queues.names[right]))

    @cached_property
    def _queue_orders(self) -> list[Callable[[int, int], float]]:
        """Return the comparisons of queues in the order of tiers."""
        orders: list[Callable[[int, int], float]] = []
        for entry in (entry for tier in self._session.tiers for entry in tier if entry.is_on("enableQueueOrder")):
            if isinstance(entry.policy, contract.QueueComparison):
                orders.append(entry.policy.compare_queues)
            elif isinstance(entry.policy, contract.QueueOrder):
                orders.append(partial(_by_key, entry.policy.queue_key))
        return orders

    def task_less(self, left: Task, right: Task) -> bool:
        """Return whether `left` is placed first; ties by the index in the pod's name, then age, then UID."""
        order = self.compare_tasks(left, right)
        if order:
            return order < 0
        first_index, second_index = _index_of(left), _index_of(right)
        if first_index is not None and second_index is not None and first_index != second_index:
            return first_index < second_index
        return (left.created, left.uid) < (right.created, right.uid)

    def compare_tasks(self, left: Task, right: Task) -> int:
        """Return -1, 0 or 1 by the policies alone."""
        policies = chain.from_iterable(self._session.by_tier(contract.TaskOrder, "enableTaskOrder"))
        keys = ((policy.task_key(left), policy.task_key(right)) for policy in policies)
        return next((-1 if first < second else 1 for first, second in keys if first != second), 0)

    def sorted_tasks(self, tasks: Iterable[Task]) -> list[Task]:
        """Return the tasks in the order of placement."""
        first: Callable[[Task, Task], int] = lambda left, right: -1 if self.task_less(left, right) else 1  # noqa: E731 - typed
        return sorted(tasks, key=cmp_to_key(first))


def _by_key(key: Callable[[int, Job | None], contract.Key], left: int, right: int) -> int:
    """Compare two queues by their keys."""
    first, second = key(left, None), key(right, None)
    if first == second:
        return 0
    return -1 if first < second else 1


def _index_of(task: Task) -> int | None:
    parts = task.key.rpartition("/")[2].split("-")
    try:
        return int(parts[-1]) if len(parts) >= _NAME_PARTS else None
    except ValueError:
        return None
