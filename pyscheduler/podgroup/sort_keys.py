"""The orders in which pods of groups are tried: keys for QueueSort plugins, smallest first.

Both keep the members of one group adjacent while their priorities are equal. A key is made of what the group is at the
moment; where that changes while pods are in the queue (a group failed, its object came or went), the queue has to be
told, see `groups.PodGroups`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias

from pyscheduler.podgroup.membership import created_at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler.api import Pod
    from pyscheduler.framework import QueuedPodInfo
    from pyscheduler.podgroup.directory import GroupDirectory
    from pyscheduler.podgroup.identity import GroupId

__all__ = ["SUB_PRIORITY_LABEL", "CoschedulingKey", "GangKey", "QueueOrder", "coscheduling_key", "gang_key"]


class QueueOrder(StrEnum):
    """Which of the orders."""

    COSCHEDULING = "coscheduling"
    GANG = "gang"


SUB_PRIORITY_LABEL: Final = "koordinator.sh/priority"
"""Orders pods of one priority, higher first; 0 where it is absent or no number."""

#: Priority, time, group, family, pod.
CoschedulingKey: TypeAlias = tuple[int, float, str, str, str]
#: Priority, sub-priority, time, gang group, family, gang, round, creation, pod.
GangKey: TypeAlias = tuple[int, int, float, str, str, str, int, float, str]


def coscheduling_key(
    info: QueuedPodInfo, directory: GroupDirectory, last_failed: Mapping[GroupId, float], *, epoch: float
) -> CoschedulingKey:
    """Return a pod's place by priority, then the time of its group, then the group, then its own name.

    The time of a group is that of its last failure, or else of its creation; a pod without a group, or with one that
    nobody declared, has the time of its own first attempt. `last_failed` holds wall time; `epoch` is the wall time at
    which the clock of `info` began. Source: `Coscheduling.Less` of scheduler-plugins, plus the group itself, without
    which two groups of one moment would mix.
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
    """Return a pod's place by priority, then the creation of its gang group, then gang group, gang and round.

    `rounds` says by uid how often a pod was tried within its gang. A pod without a gang has its own creation.
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
