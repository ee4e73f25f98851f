"""Volcano's Job: one pod group, in which each task (a pod template of the job) may be a sub-group.

Source of `minMember`: Volcano, `pkg/controllers/job`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler_podgrouper.contract import GroupPlan, Owner, SubGroupPlan
from pyscheduler_podgrouper.fields import GroupingError, int32, integer, items
from pyscheduler_podgrouper.generic import generic

if TYPE_CHECKING:
    from pyscheduler.api import Pod
    from pyscheduler_podgrouper.contract import Lookup

__all__ = ["volcano_job"]

_TASK: Final = "volcano.sh/task-spec"


def volcano_job(top: Owner, _chain: Sequence[Owner], pod: Pod, lookup: Lookup) -> GroupPlan:
    """Return one group for the job; each task is a sub-group if the minima of the tasks add up to that of the job."""
    plan = generic(top, (), pod, lookup)
    tasks = [each for each in items(top.body, "spec", "tasks") or () if isinstance(each, Mapping)]
    minima = {str(task.get("name") or f"default{index}"): _minimum(task) for index, task in enumerate(tasks)}
    total = sum(minima.values())
    # Volcano's webhook completes 0 in the same way.
    minimum = integer(top.body, "spec", "minAvailable") or total
    plan = attrs.evolve(plan, min_member=int32(minimum, "spec.minAvailable") if minimum > 0 else 1)
    if len(minima) < 2 or minimum != total or 0 in minima.values():
        return plan
    task = pod.labels.get(_TASK) or pod.annotations.get(_TASK, "")
    if task not in minima:
        raise GroupingError(f'pod {pod.namespace}/{pod.name} has no task of the job in the label "{_TASK}"')
    members = {name: (pod.name,) if name == task else () for name in minima}
    return attrs.evolve(
        plan,
        sub_groups=tuple(
            SubGroupPlan(name=name, min_member=least, pods=members[name]) for name, least in minima.items()
        ),
    )


def _minimum(task: Mapping[str, object]) -> int:
    """Return how many pods of a task the gang needs; all of them by default."""
    least = integer(task, "minAvailable")
    return max(integer(task, "replicas") or 0 if least is None else least, 0)
