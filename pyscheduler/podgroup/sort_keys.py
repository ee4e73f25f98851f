"""Sort keys for QueueSort plugins: they order pods by priority, and keep the members of a group adjacent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from pyscheduler.podgroup.membership import created_at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler.api import Pod
    from pyscheduler.framework import QueuedPodInfo
    from pyscheduler.podgroup.directory import GroupDirectory
    from pyscheduler.podgroup.identity import GroupId

__all__ = ["SUB_PRIORITY_LABEL", "CoschedulingKey", "GangKey", "coscheduling_key", "gang_key"]


SUB_PRIORITY_LABEL: Final = "koordinator.sh/priority"
"""Orders pods of equal priority, higher values first; 0 if it is absent or no number."""

#: Priority, time, group, family, pod.
CoschedulingKey: TypeAlias = tuple[int, float, str, str, str]
#: Priority, sub-priority, time, gang group, family, gang, round, creation, pod.
GangKey: TypeAlias = tuple[int, int, float, str, str, str, int, float, str]


def coscheduling_key(
    info: QueuedPodInfo, directory: GroupDirectory, last_failed: Mapping[GroupId, float], *, epoch: float
) -> CoschedulingKey:
    """Return the key of a pod: priority, then the time of its group, then the group, then the name of the pod.

    The time of a group is that of its last failure, or else of its creation. For a pod without a declared group it is
    the time of its own first attempt. `last_failed` holds wall time; `epoch` is the wall time at which the clock of
    `info` began. Source: `Coscheduling.Less` of scheduler-plugins, plus the group, which keeps two groups of the same
    time apart.
    """
    pod = info.pod
    state = directory.of(pod)
    if state is None or not state.group.is_declared:
        first = info.first_attempt_at if info.first_attempt_at is not None else info.enqueued_at
        return (-pod.priority, epoch + first, pod.key, "", pod.key)
    group = state.id
    time = last_failed.get(group, state.group.created)
    return (-pod.priority, time, group.key, group.family, pod.key)


def gang_key(info: QueuedPodInfo, directory: GroupDirectory, rounds: Mapping[str, int]) -> GangKey:
    """Return the key of a pod: priority, sub-priority, creation of its gang group, gang group, gang, round, creation.

    `rounds` has, by uid, the last round in which a pod was tried. For a pod without a gang its own creation counts.
    Source: Koordinator's documents on gang scheduling.
    """
    pod = info.pod
    created = created_at(pod)
    state = directory.of(pod)
    if state is None:
        return (-pod.priority, -_sub_priority(pod), created, pod.key, "", pod.key, 0, created, pod.key)
    known = [partner.group.created for _, partner in directory.partners(state) if partner is not None]
    return (
        -pod.priority,
        -_sub_priority(pod),
        min(known),
        state.group.gang_group_id,
        state.id.family,
        state.id.key,
        rounds.get(pod.uid, 0),
        created,
        pod.key,
    )


def _sub_priority(pod: Pod) -> int:
    text = pod.labels.get(SUB_PRIORITY_LABEL, "")
    return int(text) if text.isascii() and text.isdecimal() else 0
