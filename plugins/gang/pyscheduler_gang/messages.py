"""The messages to users about their gangs, in Koordinator's words.

Source: its `coscheduling/core`. A gang appears as `namespace/name`; a pod as `namespace/name`, or by its name where
Koordinator does so.
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
"""Permit: the gang is not known."""


def _both(gang: GroupId, pod: Pod) -> str:
    return f"gangName: {gang}, podName: {pod.key}"


def cannot_find(gang: GroupId, pod: Pod) -> str:
    """PreFilter: the gang is not known."""
    return f"can't find gang, {_both(gang, pod)}"


def not_init(gang: GroupId, pod: Pod) -> str:
    """PreFilter: pods name the gang, and nobody declares its minimum."""
    return f"gang has not init, {_both(gang, pod)}"


def not_enough_placed(gang: GroupId) -> str:
    """Permit: too few members have a node in this group cycle."""
    return f"gang {gang} has not found nodes for enough of its pods"


def timed_out(gang: GroupId, pod: Pod) -> str:
    """PreFilter: the pod's gang timed out."""
    return f"gang has timed out, {_both(gang, pod)}"


def not_collected(gang: GroupId, pod: Pod) -> str:
    """PreFilter: too few members."""
    return f"gang child pod not collect enough, {_both(gang, pod)}"


def partners_fail(ids: Sequence[str], failing: Sequence[str], what: str, gang: GroupId, pod: Pod) -> str:
    """PreFilter: other gangs of the gang group are not ready; `what` says why."""
    members = " ".join(failing)
    return (
        f"gangGroup [{' '.join(ids)}] basic check: memberGangs [{members}] {what}, "
        f"current gang: {gang}, podName: {pod.key}"
    )


def not_valid(gang: GroupId, pod: Pod) -> str:
    """PreFilter: a member failed in this round, so the others are not tried."""
    return f"gang scheduleCycle not valid, {_both(gang, pod)}"


def too_large(gang: GroupId, pod: Pod, *, pod_cycle: int, gang_cycle: int) -> str:
    """PreFilter: the pod had its turn in this round."""
    return f"pod's schedule cycle too large, {_both(gang, pod)}, podCycle: {pod_cycle}, gangCycle: {gang_cycle}"


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


def moved(gang: GroupId, pod: Pod) -> str:
    """For a waiting pod that left its gang."""
    return f"pod left its gang while it waited, {_both(gang, pod)}"
