"""`KaiSession`: the state of one scheduling round of KAI."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, ClassVar, Final

import attrs

from pyscheduler_batch.contract import ALIVE, Session, TaskState
from pyscheduler_batch.model.sub_groups import counts_by_part, has_minimum
from pyscheduler_kai.gang import DEFAULT_LEAF
from pyscheduler_kai.objects import SUB_GROUP_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyscheduler_batch.contract import Job, Task

__all__ = ["KaiSession"]

_NOT_READY: Final = "NotReady"
_PRESENT: Final = ALIVE - {TaskState.GATED}
#: How many pods a text names.
_NAMED: Final = 3


@attrs.define(eq=False, kw_only=True, slots=False)
class KaiSession(Session):
    """A pass over the jobs of KAI."""

    own_modules: ClassVar[tuple[str, ...]] = (*Session.own_modules, "pyscheduler_kai.")

    def why_waiting(self, job: Job) -> Mapping[str, str]:
        """Return which sub-groups lack pods, and which pods are in none."""
        if job.queue_error or (not job.sub_groups and job.alike is not None):
            return {}  # the error says it all, or no pod says anything about its sub-group
        children = Counter(each.parent for each in job.sub_groups.values())
        leaves = {each.name: each.min_member for each in job.sub_groups.values() if not children[each.name]}
        texts: list[str] = []
        if job.sub_groups:
            has_all, there = has_minimum(job, _PRESENT), counts_by_part(job, _PRESENT)
            texts += [
                f"{there[name]} of at least {least} pods of sub-group {name} are present"
                for name, least in leaves.items()
                if there[name] < least and (there[name] or not has_all)
            ]
        if job.sub_groups and not has_all:
            minima = {"": job.min_sub_group, **{each.name: each.min_sub_group for each in job.sub_groups.values()}}
            texts += [
                f"{f'sub-group {name}' if name else 'the job'} has {children[name]} of at least {least} sub-groups"
                for name, least in minima.items()
                if least is not None and children[name] < least
            ]
        known = leaves or {"": 0, DEFAULT_LEAF: 0}
        lost = [task for task in job.tasks.values() if task.state == TaskState.PENDING and task.sub_group not in known]
        if lost:
            texts.append(_lost(lost, leaves))
        return {_NOT_READY: "; ".join(texts)} if texts else {}


def _lost(tasks: Iterable[Task], leaves: Iterable[str]) -> str:
    """Return which pods are in no sub-group of their group, and which there are."""
    found = sorted((task.key, task.sub_group) for task in tasks)
    shown = ", ".join(f'{key} ("{name}")' if name else f"{key} (no label)" for key, name in found[:_NAMED])
    if len(found) > _NAMED:
        shown += f" and {len(found) - _NAMED} more"
    names = ", ".join(leaves)
    rest = f"name one of the sub-groups {names}" if names else "remove it, because the job has no sub-groups"
    return f"the label {SUB_GROUP_LABEL} of pods names no sub-group: {shown}; {rest}"
