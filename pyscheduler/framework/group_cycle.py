"""Group cycles: one scheduling cycle decides about all pending members of a group, on one snapshot.

First, the scheduler looks for a node for each member, and places the members in memory only. Permit decides whether
enough members have a node. Then the scheduler undoes these placements. If enough members had a node, it reserves the
nodes for real, and calls Permit again.

The groups of a plugin that inherits `GroupCyclePlugin` are scheduled in this way.
Source: kube-scheduler 1.36, the pod group cycle (KEP-4671).
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["GroupOutcome", "GroupVerdict", "MemberTree", "PodGroupUnschedulableError"]


class GroupOutcome(StrEnum):
    """The outcome of a group cycle; the `result` label of scheduler_podgroup_schedule_attempts_total."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    WAITING_ON_PREEMPTION = "waiting_on_preemption"
    ERROR = "error"


@attrs.frozen
class GroupVerdict:
    """The outcome of a group cycle, and the reason; the message is empty where the group was scheduled."""

    outcome: GroupOutcome
    message: str = ""


@attrs.frozen(kw_only=True)
class MemberTree:
    """A group whose parts have minimums of their own, or one part of it.

    The scheduler places the minimum of a part as a whole or not at all. Members that no part names are placed one by
    one, once the group has its minimum.
    """

    name: str = ""
    #: How many members must have a node; with `children`, how many of them must have their minimum.
    minimum: int = 0
    children: tuple[MemberTree, ...] = ()
    #: UIDs of the members without a node.
    members: frozenset[str] = frozenset()
    #: How many members have a node.
    placed: int = 0


class PodGroupUnschedulableError(Exception):
    """Behind the rejection of a pod that has nothing wrong with it: its group cannot be placed.

    `rejectors` are the plugins that stand in the way of the group; without any it is tried again after a backoff.
    """

    def __init__(self, rejectors: Collection[str] = ()) -> None:
        super().__init__("pod group is unschedulable")
        self.rejectors = frozenset(rejectors)
