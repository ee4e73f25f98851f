"""One cycle for all pods of a group: they are placed one after the other on one snapshot, and then all of them or none.

A plugin that wants this for its groups is a `GroupCyclePlugin`. While the cycle decides it holds nothing: a member that
found a node is on it in thought only, and its Permit is asked with a `GroupCycle` in the state, which says who else has
found one. As soon as Permit lets one member pass, the group is feasible. Then, and only then, the members are assumed
and reserved in earnest, and Permit is asked once more, without a `GroupCycle`.
Source: kube-scheduler 1.36, the pod group cycle (KEP-4671), which knows only the groups of `spec.schedulingGroup`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.framework.cycle_state import StateKey

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Mapping

__all__ = ["GROUP_CYCLE", "GroupCycle", "GroupOutcome", "GroupVerdict", "PodGroupUnschedulableError"]


class GroupOutcome(StrEnum):
    """What came of a group cycle; the `result` label of scheduler_podgroup_schedule_attempts_total."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    WAITING_ON_PREEMPTION = "waiting_on_preemption"
    ERROR = "error"


@attrs.frozen
class GroupVerdict:
    """What came of a group cycle, and why; the message is empty where the group was scheduled."""

    outcome: GroupOutcome
    message: str = ""


class PodGroupUnschedulableError(Exception):
    """Behind the rejection of a pod that has nothing wrong with it: its group cannot be placed.

    `rejectors` are the plugins that stand in the way of the group; without any it is tried again after a backoff.
    """

    def __init__(self, rejectors: Collection[str] = ()) -> None:
        super().__init__("pod group is unschedulable")
        self.rejectors = frozenset(rejectors)


class GroupCycle:
    """Stands in the state of each member while a group cycle decides: who has found a node so far.

    `placed(group)` are node names by uid, the pod in question among them from Reserve on. Nothing of it is real yet.
    """

    __slots__ = ("_placed",)

    def __init__(self) -> None:
        self._placed: dict[Hashable, dict[str, str]] = {}

    def placed(self, group: Hashable) -> Mapping[str, str]:
        """Return the members of a group that have found a node in this cycle, with its name."""
        return self._placed.get(group, {})

    def place(self, group: Hashable, uid: str, node_name: str) -> None:
        """Note that a member found a node; for the scheduler."""
        self._placed.setdefault(group, {})[uid] = node_name

    def take_back(self, group: Hashable, uid: str) -> None:
        """Note that a member has none after all; for the scheduler."""
        self._placed.get(group, {}).pop(uid, None)

    def clone(self) -> GroupCycle:
        """Return itself: what-if copies of a state share it."""
        return self


#: Where `GroupCycle` stands; a state without one is that of a pod that is scheduled by itself, or in earnest.
GROUP_CYCLE: Final[StateKey[GroupCycle]] = StateKey("pyscheduler/group-cycle")
