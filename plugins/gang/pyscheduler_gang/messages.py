"""The messages to users about their gangs, in Koordinator's words.

Source: Koordinator's `coscheduling/core`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kube_objects.durations import format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.api import Pod
    from pyscheduler.podgroup import GroupId

__all__ = [
    "CANNOT_FIND",
    "GANG_NOT_FOUND",
    "MOVED",
    "NOT_COLLECTED",
    "NOT_INIT",
    "NOT_VALID",
    "TIMED_OUT",
    "about",
    "different_schedulers",
    "no_gang",
    "not_enough_placed",
    "partners_fail",
    "rejected_by_member",
    "rejected_in_unreserve",
    "rejected_itself",
    "too_large",
    "waited_too_long",
]

GANG_NOT_FOUND = "Gang not found"
"""Permit: the gang is not known."""

#: PreFilter: the gang is not known.
CANNOT_FIND = "can't find gang"
#: PreFilter: pods name the gang, and nobody declares its minimum.
NOT_INIT = "gang has not init"
#: PreFilter: the pod's gang timed out.
TIMED_OUT = "gang has timed out"
#: PreFilter: too few members.
NOT_COLLECTED = "gang child pod not collect enough"
#: PreFilter: a member failed in this round, so the others are not tried.
NOT_VALID = "gang scheduleCycle not valid"
#: For a waiting pod that left its gang.
MOVED = "pod left its gang while it waited"


def about(what: str, gang: GroupId, pod: Pod) -> str:
    """Return one of the texts above with the gang and the pod."""
    return f"{what}, gangName: {gang}, podName: {pod.key}"


def not_enough_placed(gang: GroupId) -> str:
    """Permit: too few members have a node in this group cycle."""
    return f"gang {gang} has not found nodes for enough of its pods"


def partners_fail(ids: Sequence[str], failing: Sequence[str], what: str, gang: GroupId, pod: Pod) -> str:
    """PreFilter: other gangs of the gang group are not ready; `what` says why."""
    members = " ".join(failing)
    return (
        f"gangGroup [{' '.join(ids)}] basic check: memberGangs [{members}] {what}, "
        f"current gang: {gang}, podName: {pod.key}"
    )


def too_large(gang: GroupId, pod: Pod, *, pod_cycle: int, gang_cycle: int) -> str:
    """PreFilter: the pod had its turn in this round."""
    text = about("pod's schedule cycle too large", gang, pod)
    return f"{text}, podCycle: {pod_cycle}, gangCycle: {gang_cycle}"


def different_schedulers(first: str, second: str) -> str:
    """PreFilter: members of one gang belong to different profiles; the text is that of the in-tree plugin."""
    return f'all pods in a single pod group should have the same .spec.schedulerName set, got: "{first}" and "{second}"'


def no_gang(pod: Pod, gang: GroupId) -> str:
    """PostFilter: the gang is not known."""
    return f'Pod "{pod.key}" cannot find Gang "{gang}"'


def rejected_itself(gang: GroupId) -> str:
    """PostFilter: for the member that failed."""
    return f'Gang "{gang}" gets rejected due to pod is unschedulable'


def rejected_by_member(gang: GroupId, pod: Pod, reason: str) -> str:
    """PostFilter: for the waiting members."""
    return f'Gang "{gang}" gets rejected due to member Pod "{pod.name}" is unschedulable with reason "{reason}"'


def rejected_in_unreserve(gang: GroupId, pod: Pod) -> str:
    """Unreserve: for the waiting members, when one of them gave up its node."""
    return f'Gang "{gang}" gets rejected due to Pod "{pod.name}" in Unreserve'


def waited_too_long(seconds: float, plugin: str) -> str:
    """For the member that waited longest when its gang timed out; the words of the framework."""
    return f"rejected due to timeout after waiting {format_duration(seconds)} at plugin {plugin}"
