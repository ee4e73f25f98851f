"""The methods of `Coscheduling` for resolving deadlocks, in which groups hold nodes that other groups need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from pyscheduler_coscheduling import quorum

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence, Set as AbstractSet

    from pyscheduler.api import Pod
    from pyscheduler.framework import Handle
    from pyscheduler.podgroup import GroupState
    from pyscheduler_coscheduling.deadlock_resolver.units import DeadlockArgs, UnitKey
    from pyscheduler_coscheduling.members import Members

__all__ = ["DeadlockSide"]


@attrs.frozen(kw_only=True)
class DeadlockSide:
    """The methods that the resolver calls, for one profile; see `DeadlockParty`."""

    handle: Handle
    deadlock: DeadlockArgs
    members: Members
    profiles: AbstractSet[str]

    def unit(self, state: GroupState) -> tuple[UnitKey, Sequence[GroupState]]:
        """Return the group alone: the plugin does not combine groups."""
        return (state.id.family, (state.id.key,)), (state,)

    def is_ready(self, unit: Sequence[GroupState]) -> bool:
        """Return True if the group is declared and has enough members, all of one profile."""
        (state,) = unit
        pod = state.unbound_member
        if pod is None or not state.group.is_declared or not quorum.has_members(state):
            return False
        return not quorum.conflict(state, pod, frozenset(self.profiles))

    def missing(self, state: GroupState) -> int:
        """Return how many members with a node the minimum still needs."""
        return max(quorum.missing(state), 0) if state.group.is_declared else 0

    def candidates(self, state: GroupState) -> Sequence[Pod]:
        """Return the pending members without gates, in the order of the plugin."""
        pods = [
            pod for uid, pod in state.pending.items() if uid not in state.gated and pod.scheduler_name in self.profiles
        ]
        return sorted(pods, key=lambda pod: (-pod.priority, pod.key))

    def may_yield(self, state: GroupState) -> bool:
        """Return True: a group keeps nodes if it misses few members, or if the profile has no PostFilter."""
        return True

    def yield_places(self, unit: Sequence[GroupState], reason: Callable[[GroupState], str]) -> None:
        """Reject all waiting members; the group has not failed, so it is not refused."""
        for state in unit:
            self.members.roll_back(state, reason(state))

    def retry(self, unit: Sequence[GroupState]) -> None:
        """Retry the members, and end the refusal of the groups."""
        for state in unit:
            self.members.failures.forgive(state.id)
            self.members.wake(state.id)
