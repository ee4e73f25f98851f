"""Whether a group has enough members, and enough members with nodes. Pure functions of the group's state.

Ended members do not count. In kube-batch groups, members that succeeded count if the living ones cannot reach the
minimum any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyscheduler.api import Pod
    from pyscheduler.podgroup import GroupState

__all__ = ["assigned", "conflict", "is_satisfied", "is_small_gap", "shortage", "siblings"]


def siblings(state: GroupState) -> int:
    """Return the number of members that count towards the minimum, gated ones included."""
    living = state.child_count
    return living + len(state.succeeded) if state.count_succeeded and living < state.group.min else living


def assigned(state: GroupState) -> int:
    """Return the number of members with a node, in memory or in the API."""
    placed = state.assigned_count
    return placed + len(state.succeeded) if state.count_succeeded and state.child_count < state.group.min else placed


def is_satisfied(state: GroupState) -> bool:
    """Return True if the minimum of members has nodes."""
    return assigned(state) >= state.group.min


def is_small_gap(state: GroupState, percentage: int) -> bool:
    """Return True if the missing share of the minimum is at most `percentage`, computed in integers."""
    minimum = state.group.min
    return (minimum - assigned(state)) * 100 <= percentage * minimum


def shortage(state: GroupState, pod: Pod) -> str:
    """Return the message that the group has too few members; "" if it has enough."""
    minimum = state.group.min
    count = siblings(state)
    if count < minimum:
        return (
            f"pre-filter pod {pod.name} cannot find enough sibling pods, "
            f"current pods number: {count}, minMember of group: {minimum}"
        )
    if count - len(state.gated) < minimum:
        return f"pre-filter pod {pod.name} cannot proceed due to gated pods in the same PodGroup"
    return ""


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
