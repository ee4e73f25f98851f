"""The state of one gang: the round of attempts, the deadline, and the members that timed out.

A *round* limits the attempts of a gang that does not fit: each member is tried once. When a member fails in
Koordinator's mode `Strict`, the other members are refused until the next round.

Source: Koordinator's design documents for gang scheduling; Koordinator's current code has no rounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Set as AbstractSet

    from pyscheduler.api import Pod
    from pyscheduler.framework import Timer
    from pyscheduler.podgroup import Group, GroupId, GroupState

__all__ = ["GangRecord"]


@attrs.define(eq=False)
class GangRecord:
    """One gang. `state` belongs to the directory; times are the clock's, in seconds."""

    state: GroupState
    schedule_cycle: int = 1
    schedule_cycle_valid: bool = True
    #: The round of each member's last turn, by uid.
    rounds: dict[str, int] = attrs.Factory(dict)
    #: Unbound members that had their turn in this round. Ordered, as all sets of pods here.
    visited: dict[str, None] = attrs.Factory(dict)
    #: Members that failed or were refused, and may sleep until they are activated.
    asleep: dict[str, None] = attrs.Factory(dict)
    #: When the gang group activated members that were not tried since; see `rounds`.
    called: dict[str, float] = attrs.Factory(dict)
    #: Members that were tried in this pass; see `rounds`.
    tried: set[str] = attrs.Factory(set)
    #: Unbound members of a gang that timed out.
    timed_out: set[str] = attrs.Factory(set)
    #: A member of the gang group failed in this pass.
    spent: bool = False
    #: Begin another round when this one is complete.
    retry_requested: bool = False
    #: When the wait of the first waiting member ends; None if none waits.
    deadline: float | None = None
    timer: Timer | None = None
    #: `state.satisfied` at the last check.
    was_satisfied: bool = False
    #: The version of the group for which a Warning event was recorded.
    warned: Group | None = None
    #: See `AfterFailure.ignored_by`; one function for all members.
    ignored_by: Callable[[Pod], bool] | None = None
    #: The priority of the first member that was tried, and whether another member has a different one.
    priority: int | None = None
    is_mixed: bool = False

    @property
    def id(self) -> GroupId:
        """Return the gang's identity."""
        return self.state.id

    @property
    def child_count(self) -> int:
        """Return the number of members that count towards the minimum."""
        return self.state.child_count - len(self.timed_out)

    def countable(self, profiles: AbstractSet[str]) -> int:
        """Return how many members can have turns: unbound, ungated, not timed out, of a profile with the plugin."""
        state = self.state
        if not state.profiles.keys() <= profiles:
            return sum(self.is_countable(pod, profiles) for pod in self.unbound())
        gated = len(state.gated | self.timed_out) if state.gated else len(self.timed_out)
        return len(state.pending) + len(state.waiting) - gated

    def is_countable(self, pod: Pod, profiles: AbstractSet[str]) -> bool:
        """Return True if an unbound member can have turns."""
        return not pod.spec.scheduling_gates and pod.uid not in self.timed_out and pod.scheduler_name in profiles

    def unbound(self) -> list[Pod]:
        """Return the members without a node in the API."""
        return [*self.state.pending.values(), *self.state.waiting.values()]

    def round_size(self, profiles: AbstractSet[str]) -> int:
        """Return the number of turns in a round: the total, or fewer if fewer members can have turns."""
        return min(self.state.group.total, self.countable(profiles))

    def is_complete(self, profiles: AbstractSet[str]) -> bool:
        """Return True if the round can be closed."""
        return bool(self.visited) and len(self.visited) >= self.round_size(profiles)

    def close(self, profiles: AbstractSet[str]) -> None:
        """Close the round if it is complete, and begin the next one."""
        if not self.is_complete(profiles):
            return
        self.schedule_cycle += 1
        self.schedule_cycle_valid = True
        # The member that opens the next round activates the others.
        self.retry_requested = False
        self.asleep.update((uid, None) for uid in self.visited if uid in self.state.pending)
        self.visited.clear()

    def has_turn(self, uid: str) -> bool:
        """Return True if a member did not have its turn in this round yet."""
        return self.rounds.get(uid, 0) < self.schedule_cycle

    def visit(self, uid: str) -> int:
        """Count a member's turn in this round; return the round of its previous turn."""
        old = self.rounds.get(uid, 0)
        self.rounds[uid] = self.schedule_cycle
        self.visited[uid] = None
        self.asleep.pop(uid, None)
        return old

    def remove_from_rounds(self, uid: str) -> None:
        """Remove a member from the rounds: it is bound or timed out."""
        was_visited = self.visited.pop(uid, uid) is None
        if was_visited and not self.visited:
            # No member is left that made the round invalid, or could close it.
            self.schedule_cycle_valid = True
        self.asleep.pop(uid, None)
        self.called.pop(uid, None)
        self.tried.discard(uid)

    def forget(self, uid: str) -> None:
        """Forget a member that is gone."""
        self.remove_from_rounds(uid)
        self.rounds.pop(uid, None)
        self.timed_out.discard(uid)

    def clear_deadline(self) -> None:
        """Remove the deadline."""
        self.deadline = None
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def check_invariants(self) -> None:
        """Raise AssertionError if the record contradicts itself or the directory."""
        state = self.state
        unbound = state.pending.keys() | state.waiting.keys()
        members = unbound | state.bound.keys()
        assert self.rounds.keys() <= members, f"{self.id} counts rounds of strangers"
        assert self.visited.keys() <= unbound, f"{self.id}: a member that is bound or gone has had its turn"
        assert not self.visited.keys() & self.asleep.keys(), f"{self.id}: a member had its turn and sleeps"
        assert self.timed_out <= unbound, f"{self.id}: a member that is bound or gone has timed out"
        assert not self.timed_out & (self.visited.keys() | self.asleep.keys()), f"{self.id}: timed out, and to be tried"
        for uid in self.visited:
            assert self.rounds[uid] == self.schedule_cycle, f"{self.id}: pod {uid} had its turn in another round"
        assert (self.deadline is None) == (self.timer is None), (
            f"{self.id} has a deadline without a timer, or the reverse"
        )
