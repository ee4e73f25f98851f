"""One cycle for all pods of a group: they are placed one after the other on one snapshot, and then all of them or none.

A plugin that wants this for its groups is a `GroupCyclePlugin`. First the members are placed in a trial (see
`framework.trial`): `state.trial` says in Permit which members have a node so far. As soon as Permit lets one member
pass, the group is feasible. Then the scheduler takes the trial back, and assumes and reserves the members for real;
Permit is called once more, with `state.trial` None.
Source: kube-scheduler 1.36, the pod group cycle (KEP-4671), which knows only the groups of `spec.schedulingGroup`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["GroupOutcome", "GroupVerdict", "PodGroupUnschedulableError"]


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
