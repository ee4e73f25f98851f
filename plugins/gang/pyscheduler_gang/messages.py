"""What users are told about their gangs, in Koordinator's words.

Sources: its `coscheduling/core`. A gang is called by its id, `namespace/name`; a pod by `namespace/name`, or by its
name where Koordinator does so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler.api.durations import format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.api import Pod
    from pyscheduler.podgroup import GroupId

__all__ = [
    "GANG_NOT_FOUND",
    "cannot_find",
    "different_schedulers",
    "moved",
    "no_gang",
    "not_collected",
    "not_init",
    "not_valid",
    "partners_fail",
    "rejected_by_member",
    "rejected_in_unreserve",
    "rejected_itself",
    "timed_out",
    "too_large",
    "waited_too_long",
]

GANG_NOT_FOUND = "Gang not found"
"""Permit, where nothing is known of the gang."""


def _both(gang: GroupId, pod: Pod) -> str:
    return f"gangName: {gang}, podName: {pod.key}"


def cannot_find(gang: GroupId, pod: Pod) -> str:
    """PreFilter: nothing is known of the gang."""
    return f"can't find gang, {_both(gang, pod)}"


def not_init(gang: GroupId, pod: Pod) -> str:
    """PreFilter: pods name the gang, and nobody says how many it takes."""
    return f"gang has not init, {_both(gang, pod)}"


def not_enough_placed(gang: GroupId) -> str:
    """Members that have a node in a group cycle in which too few have one."""
    return f"gang {gang} has not found nodes for enough of its pods"


def timed_out(gang: GroupId, pod: Pod) -> str:
    """PreFilter: the pod's gang was given up, for good."""
    return f"gang has timed out, {_both(gang, pod)}"


def not_collected(gang: GroupId, pod: Pod) -> str:
    """PreFilter: too few members."""
    return f"gang child pod not collect enough, {_both(gang, pod)}"


def partners_fail(ids: Sequence[str], failing: Sequence[str], what: str, gang: GroupId, pod: Pod) -> str:
    """PreFilter: another gang of the gang group is not ready; `what` says in which way."""
    members = " ".join(failing)
    return (
        f"gangGroup [{' '.join(ids)}] basic check: memberGangs [{members}] {what}, "
        f"current gang: {gang}, podName: {pod.key}"
    )


def not_valid(gang: GroupId, pod: Pod) -> str:
    """PreFilter: a member failed in this round, so that the others need not be tried."""
    return f"gang scheduleCycle not valid, {_both(gang, pod)}"


def too_large(gang: GroupId, pod: Pod, *, pod_cycle: int, gang_cycle: int) -> str:
    """PreFilter: the pod had its turn in this round."""
    return f"pod's schedule cycle too large, {_both(gang, pod)}, podCycle: {pod_cycle}, gangCycle: {gang_cycle}"


def different_schedulers(first: str, second: str) -> str:
    """PreFilter: members of one gang belong to different profiles; the text is that of the in-tree plugin."""
    return f'all pods in a single pod group should have the same .spec.schedulerName set, got: "{first}" and "{second}"'


def no_gang(pod: Pod, gang: GroupId) -> str:
    """PostFilter: nothing is known of the gang."""
    return f'Pod "{pod.key}" cannot find Gang "{gang}"'


def rejected_itself(gang: GroupId) -> str:
    """PostFilter: what the failing member itself is told."""
    return f'Gang "{gang}" gets rejected due to pod is unschedulable'


def rejected_by_member(gang: GroupId, pod: Pod, reason: str) -> str:
    """PostFilter: what waiting members are told."""
    return f'Gang "{gang}" gets rejected due to member Pod "{pod.name}" is unschedulable with reason "{reason}"'


def rejected_in_unreserve(gang: GroupId, pod: Pod) -> str:
    """Unreserve: what waiting members are told where one of them gave up its place."""
    return f'Gang "{gang}" gets rejected due to Pod "{pod.name}" in Unreserve'


def waited_too_long(seconds: float, plugin: str) -> str:
    """Tell the member that waited the longest that its gang's time is over; the framework's own words."""
    return f"rejected due to timeout after waiting {format_duration(seconds)} at plugin {plugin}"


def moved(gang: GroupId, pod: Pod) -> str:
    """Tell a waiting pod that it does not belong to its gang any more."""
    return f"pod left its gang while it waited, {_both(gang, pod)}"
