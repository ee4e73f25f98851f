"""Decide if a job and its sub-groups have enough tasks (pods), by the rules of KAI or Volcano."""

from __future__ import annotations

from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.podgroup import SubGroup as Node
from pyscheduler.podgroup.sub_groups import cut_off, missing, shortage
from pyscheduler_batch.model.tasks import NOTHING, TaskState

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from pyscheduler_batch.model.tasks import Job, Task

__all__ = [
    "COMPLETING",
    "broken_parts",
    "counts_by_part",
    "counts_by_role",
    "has_minimum",
    "has_what_it_reached",
    "is_whole",
    "minimum_by_role_applies",
    "parts_missing",
    "parts_shortage",
    "policies_of",
    "reached_minimums",
]

COMPLETING: Final[Mapping[str, int]] = MappingProxyType({"": 0})
"""`Job.reached` once a member has succeeded: nothing is needed any more."""


def policies_of(job: Job) -> Mapping[str, tuple[int, int]]:
    """Return for each policy of Volcano how many sub-groups it needs, and how many tasks each of them needs."""
    return {each.name: (each.min_sub_group or 0, each.min_member) for each in job.sub_groups.values() if each.is_policy}


def counts_by_part(job: Job, states: Collection[TaskState], pending: Collection[str] = ()) -> Counter[str]:
    """Return by name of the sub-group the number of tasks in the states, and of pending tasks with these uids."""
    return Counter(task.sub_group for task in _tasks(job, states, pending))


def counts_by_role(job: Job, states: Collection[TaskState], pending: Collection[str] = ()) -> Counter[str]:
    """Return by role the number of tasks in the states, and of pending tasks with these uids."""
    return Counter(task.role for task in _tasks(job, states, pending))


def _tasks(job: Job, states: Collection[TaskState], pending: Collection[str]) -> Iterator[Task]:
    for task in job.tasks.values():
        if task.state in states or (task.state == TaskState.PENDING and task.uid in pending):
            yield task


def minimum_by_role_applies(job: Job) -> bool:
    """Return whether the minimums by role count: they do unless they add up to more than the job's minimum."""
    return bool(job.min_task_member) and job.min_member >= sum(job.min_task_member.values())


def parts_missing(job: Job, counts: Mapping[str, int]) -> int:
    """Return how many more tasks the minimums of the sub-groups need at least; 0 for a job without sub-groups."""
    return missing(_tree(job, counts), counts) if job.sub_groups else 0


def has_minimum(job: Job, states: Collection[TaskState]) -> bool:
    """Return whether the tasks in the states are the minimum of a job with sub-groups.

    In KAI the minimum of such a job itself has no effect.
    """
    if policies_of(job) and job.count(states) < job.min_member:
        return False
    return not parts_missing(job, counts_by_part(job, states))


def is_whole(job: Job, states: Collection[TaskState]) -> bool:
    """Return whether the tasks in the states are the minimum of a job: of its sub-groups, or by number and role."""
    if job.sub_groups:
        return has_minimum(job, states)
    if job.count(states) < job.min_member:
        return False
    if not minimum_by_role_applies(job):
        return True
    counts = counts_by_role(job, states)
    return all(counts[role] >= least for role, least in job.min_task_member.items())


def parts_shortage(job: Job, counts: Mapping[str, int]) -> str:
    """Return which sub-groups are below their minimum, such as `decode 2/4`; "" if none is that the job needs."""
    return shortage(_tree(job, counts), counts) if job.sub_groups else ""


def reached_minimums(job: Job, before: Mapping[str, int], states: Collection[TaskState]) -> Mapping[str, int]:
    """Return by name of a sub-group, "" for the job, the smallest minimum that it had, or has with these states.

    `before`: the same of a moment ago. Empty for jobs that cannot be broken, and for those with policies of Volcano.
    """
    if job.counts[TaskState.SUCCEEDED] or before.get("") == 0:
        return COMPLETING
    if policies_of(job) or (job.min_member < 2 and not job.sub_groups):
        return NOTHING
    counts = _counts(job, states)
    found: dict[str, int] = {}

    def read(node: Node) -> bool:
        has_tasks = [read(child) for child in node.children] if node.children else [counts[node.name] > 0]
        if any(has_tasks) and not missing(node, counts):
            found[node.name] = node.needed
        elif node.name in before:
            found[node.name] = min(before[node.name], node.needed)
        return any(has_tasks)

    read(_tree(job, counts))
    return found


def has_what_it_reached(job: Job, states: Collection[TaskState]) -> bool:
    """Return whether the tasks in the states are the minimum that the job had: it may be lower than the present one."""
    if policies_of(job):
        return has_minimum(job, states)
    counts = _counts(job, states)
    return not missing(_lowered(_tree(job, counts), job.reached), counts)


def broken_parts(job: Job, counts: Mapping[str, int]) -> frozenset[str]:
    """Return the sub-groups, or "" for a job without any, that have tasks and are below the minimum that they had."""
    if job.reached.get("") == 0:
        return frozenset()
    names = cut_off(_lowered(_tree(job, counts), job.reached), counts)
    return frozenset(name for name in names if counts.get(name))


def _lowered(node: Node, reached: Mapping[str, int]) -> Node:
    children = tuple([_lowered(child, reached) for child in node.children])
    return attrs.evolve(node, minimum=min(node.needed, reached.get(node.name, node.needed)), children=children)


def _counts(job: Job, states: Collection[TaskState]) -> Counter[str]:
    return counts_by_part(job, states) if job.sub_groups else Counter({"": job.count(states)})


def _tree(job: Job, counts: Mapping[str, int]) -> Node:
    if not job.sub_groups:
        return Node("", job.min_member)
    policies = policies_of(job)
    if policies:
        nodes = [Node(name, needed, size=size) for name, (needed, size) in policies.items()]
        return Node("", None, tuple(nodes)).with_leaves(counts)
    below: dict[str, list[str]] = {}
    for group in job.sub_groups.values():
        below.setdefault(group.parent, []).append(group.name)

    def build(name: str) -> Node:
        group = job.sub_groups[name]
        children = tuple([build(child) for child in below.get(name, ())])
        return Node(name, group.min_sub_group if children else group.min_member, children)

    return Node("", job.min_sub_group, tuple([build(name) for name in below.get("", ())]))
