"""Count a gang's pods that have a node, and check whether the gang has reached its minimum."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import attrs

from pyscheduler_lab.audit.batch_objects import KAI, Group, LabelGroups, SubGroup

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyscheduler_lab.audit.core_objects import Pod

__all__ = ["GangState", "gang_state", "leaf_minima", "leaf_of", "next_tasks"]


@attrs.frozen
class GangState:
    """Members that hold a node, and what the gang lacks."""

    active: int
    #: What is missing, as one phrase; "" if the gang is whole.
    missing: str

    @property
    def partial(self) -> bool:
        """Return True if some members hold nodes, and the gang is not whole."""
        return self.active > 0 and bool(self.missing)


def gang_state(group: Group | None, pods: Iterable[Pod]) -> GangState:
    """Return the state of the gang; pods without a group form gangs of one.

    Succeeded members count as present. With Volcano and kube-batch pending members that request nothing count, too.
    """
    members = list(pods)
    active = sum(pod.active for pod in members)
    if group is None:
        return GangState(active, "" if active or any(pod.phase == "Succeeded" for pod in members) else "a member")
    present = [pod for pod in members if pod.active or pod.phase == "Succeeded"]
    if group.dialect != KAI:
        present += [pod for pod in members if pod.pending and pod.best_effort]
        return GangState(active, _volcano_missing(group, present))
    return GangState(active, _kai_missing(group, present))


def leaf_minima(group: Group | None) -> dict[str, int]:
    """Return the minimum of each leaf of KAI's tree; without sub-groups, of the leaf ""."""
    if group is None:
        return {"": 1}
    if not group.sub_groups:
        return {"": group.min_member}
    parents = {one.parent for one in group.sub_groups}
    return {one.name: one.min_member for one in group.sub_groups if one.name not in parents}


def leaf_of(group: Group | None, pod: Pod) -> str:
    """Return the leaf of KAI's tree to which the pod belongs."""
    return pod.sub_group if group is not None and group.sub_groups else ""


def _kai_missing(group: Group, present: Sequence[Pod]) -> str:
    counts = Counter(leaf_of(group, pod) for pod in present)
    minima = leaf_minima(group)
    if not group.sub_groups:
        return "" if counts[""] >= minima[""] else f"{counts['']} of {minima['']} members"
    for name, minimum in minima.items():
        if 0 < counts[name] < minimum:
            return f"{counts[name]} of {minimum} members of sub-group {name}"
    children: dict[str, list[SubGroup]] = defaultdict(list)
    for one in group.sub_groups:
        children[one.parent].append(one)

    def satisfied(node: SubGroup) -> bool:
        below = children.get(node.name)
        if not below:
            return counts[node.name] >= node.min_member
        needed = len(below) if node.min_sub_group is None else node.min_sub_group
        return sum(map(satisfied, below)) >= needed

    top = children[""]
    needed = len(top) if group.min_sub_group is None else group.min_sub_group
    reached = sum(map(satisfied, top))
    return "" if reached >= needed else f"{reached} of {needed} sub-groups"


def _volcano_missing(group: Group, present: Sequence[Pod]) -> str:
    if len(present) < group.min_member:
        return f"{len(present)} of {group.min_member} members"
    if group.min_member >= sum(group.roles.values()):
        counts = Counter(pod.role for pod in present)
        for role, minimum in group.roles.items():
            if counts[role] < minimum:
                return f"{counts[role]} of {minimum} members of task {role}"
    for entry in group.label_groups:
        missing = _label_group_missing(entry, present)
        if missing:
            return missing
    return ""


def _label_group_missing(entry: LabelGroups, present: Sequence[Pod]) -> str:
    counts = Counter(
        tuple(pod.labels.get(key, "") for key in entry.keys)
        for pod in present
        if entry.labels.items() <= pod.labels.items()
    )
    for values, count in counts.items():
        if count < entry.size:
            return f"{count} of {entry.size} members of sub-group {entry.name} {'/'.join(values)}"
    if len(counts) < entry.minimum:
        return f"{len(counts)} of {entry.minimum} sub-groups {entry.name}"
    return ""


def next_tasks(group: Group | None, pods: Iterable[Pod]) -> list[Pod]:
    """Return the pending pods that one decision places: the missing minimum, or one pod if nothing is missing.

    Older pods come first. Of sub-groups that are not all needed, the ones nearest to their minimum are taken.
    """
    members = list(pods)
    minima = leaf_minima(group) if group is None or group.dialect == KAI else {"": group.min_member}
    counts = Counter(leaf_of(group, pod) for pod in members if pod.active or pod.phase == "Succeeded")
    waiting: dict[str, list[Pod]] = defaultdict(list)
    for pod in sorted(members, key=lambda one: (one.created, one.uid)):
        if pod.pending and not pod.gated:
            waiting[leaf_of(group, pod)].append(pod)
    wanted = [name for name, minimum in minima.items() if counts[name] < minimum]
    wanted.sort(key=lambda name: (-counts[name] / minima[name], name))
    if group is not None and group.min_sub_group is not None and not any(one.parent for one in group.sub_groups):
        done = sum(counts[name] >= minimum for name, minimum in minima.items())
        wanted = wanted[: max(group.min_sub_group - done, 0)]
    chosen = [pod for name in wanted for pod in waiting[name][: minima[name] - counts[name]]]
    rest = [pod for name in sorted(waiting) for pod in waiting[name]]
    return chosen or rest[:1]
