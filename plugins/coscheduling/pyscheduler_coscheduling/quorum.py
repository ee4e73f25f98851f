"""Check whether a group has enough members, and whether enough of them have nodes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pyscheduler.podgroup.sub_groups import SUB_GROUP_LABEL

if TYPE_CHECKING:
    from pyscheduler.api import Pod
    from pyscheduler.podgroup import GroupState

__all__ = [
    "assigned",
    "conflict",
    "has_members",
    "is_satisfied",
    "is_small_gap",
    "may_start",
    "missing",
    "shortage",
    "siblings",
    "stray",
]

_NOTHING: Final[Mapping[str, object]] = MappingProxyType({})


def siblings(state: GroupState) -> int:
    """Return the number of members that count towards the minimum, gated ones included."""
    return state.child_count + state.succeeded_count


def assigned(state: GroupState) -> int:
    """Return the number of members with a node, in memory or in the API."""
    return state.assigned_count + state.succeeded_count


def has_members(state: GroupState) -> bool:
    """Return True if there are enough members, gated ones included."""
    enough = siblings(state) >= state.group.min
    return enough and (state.parts is None or not state.parts.lacking_members())


def is_satisfied(state: GroupState, placed: Mapping[str, object] = _NOTHING) -> bool:
    """Return True if the minimum of members has nodes, of the group and of its sub-groups.

    `placed` has, by UID, the members with a node in a trial.
    """
    return assigned(state) + len(placed) >= state.group.min and state.parts_have_minimum(placed)


def missing(state: GroupState, placed: Mapping[str, object] = _NOTHING) -> int:
    """Return how many more members need a node; 0 or less if the minimum has nodes."""
    return max(state.group.min - assigned(state) - len(placed), state.parts_missing(placed))


def may_start(state: GroupState, pod: Pod) -> bool:
    """Return True if a member of a satisfied group need not wait for other members of its sub-group."""
    return state.parts is None or state.parts.leaf(pod.uid) not in state.parts.without_minimum()


def is_small_gap(state: GroupState, percentage: int) -> bool:
    """Return True if the missing share of the minimum is at most `percentage`, computed in integers."""
    return missing(state) * 100 <= percentage * state.group.min


def shortage(state: GroupState, pod: Pod) -> str:
    """Return the message that the group has too few members; "" if it has enough."""
    minimum = state.group.min
    count = siblings(state)
    lacking = "" if state.parts is None else state.parts.lacking_members()
    if count < minimum or lacking:
        return (
            f"pre-filter pod {pod.name} cannot find enough sibling pods, "
            f"current pods number: {count}, minMember of group: {minimum}"
            + (f", sub-groups: {lacking}" if lacking else "")
        )
    gated = f"pre-filter pod {pod.name} cannot proceed due to gated pods in the same PodGroup"
    if count - len(state.gated) < minimum:
        return gated
    if state.parts is not None and state.gated and state.parts.lacking_members(without_gated=True):
        return gated
    return ""


def stray(state: GroupState, pod: Pod) -> str:
    """Return the message that the pod names none of the sub-groups of its group; "" if it need not, or names one."""
    if state.parts is None or not state.parts.is_stray(pod.uid):
        return ""
    named = state.parts.leaf(pod.uid)
    if not named:
        return f"PodGroup {state.id} has sub-groups, and pod {pod.name} names none; set its label {SUB_GROUP_LABEL}"
    return f'pod {pod.name} names the sub-group "{named}" with members, which PodGroup {state.id} does not have'


def conflict(state: GroupState, pod: Pod, profiles: frozenset[str]) -> str:
    """Return the message that unbound members name different ones of `profiles`; "" if they do not.

    Members of other schedulers are plain pods there, and count here once they are bound. The text is that of
    kube-scheduler's own groups.
    """
    if len(state.profiles) > 1:
        for place in (state.pending, state.waiting):
            for other in place.values():
                name = other.scheduler_name
                if name != pod.scheduler_name and name in profiles:
                    first, second = sorted((pod.scheduler_name, name))
                    return (
                        "all pods in a single pod group should have the same .spec.schedulerName set, "
                        f'got: "{first}" and "{second}"'
                    )
    return ""
