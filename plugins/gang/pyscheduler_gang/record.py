"""What the plugin knows of one gang besides its members: the schedule cycle, the deadline, who timed out.

The schedule cycle keeps a gang that cannot be placed from being tried member by member. Every member has its turn once
a round; when one of them fails, the round is no longer valid and the others are refused, each counting as having had
its turn. When all had it, the next round may begin. A round is closed late, at the next PreFilter: closed with its last
member, it would be the fresh round that this member's failure makes invalid.
Source: Koordinator's design of gang scheduling (its program has dropped these fields since).
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
    """One gang. `state` is the directory's, whose counts it uses; times are the clock's, in seconds."""

    state: GroupState
    schedule_cycle: int = 1
    schedule_cycle_valid: bool = True
    #: In which round each member had its turn last, by uid; a new member has had none.
    rounds: dict[str, int] = attrs.Factory(dict)
    #: Members that had their turn in this round and can have one in the next. Ordered, as all sets of pods here.
    visited: dict[str, None] = attrs.Factory(dict)
    #: Members that were tried or refused before, and may sleep until somebody activates them.
    asleep: dict[str, None] = attrs.Factory(dict)
    #: Members that their own gang group activated since their last turn, and when; see `passes`.
    called: dict[str, float] = attrs.Factory(dict)
    #: Members that used a turn since an event brought one here; see `passes`.
    tried: set[str] = attrs.Factory(set)
    #: Members whose gang was given up while they were unbound.
    timed_out: set[str] = attrs.Factory(set)
    #: A member of the gang group failed in this pass.
    spent: bool = False
    #: An event brought a member back that had its turn in this round already.
    retry_requested: bool = False
    #: When the wait of the first waiting member ends; None while nobody waits.
    deadline: float | None = None
    timer: Timer | None = None
    #: What `satisfied` was when the gang was last looked at.
    was_satisfied: bool = False
    #: The version of the group about which users were told what is wrong with it.
    told: Group | None = None
    #: Which pods a rollback of the gang group is no news to; one for all members.
    ignored_by: Callable[[Pod], bool] | None = None
    #: The priority of the first member that was tried, and whether another one had a different one.
    priority: int | None = None
    is_mixed: bool = False

    @property
    def id(self) -> GroupId:
        """Return the gang's identity."""
        return self.state.id

    @property
    def child_count(self) -> int:
        """Return how many members count towards the minimum."""
        return self.state.child_count - len(self.timed_out)

    def countable(self, profiles: AbstractSet[str]) -> int:
        """Return how many can ever have a turn: unbound, ungated, not timed out, of a profile with the plugin."""
        state = self.state
        if not state.profiles.keys() <= profiles:
            return sum(self.is_countable(pod, profiles) for pod in self.unbound())
        gated = len(state.gated | self.timed_out) if state.gated else len(self.timed_out)
        return len(state.pending) + len(state.waiting) - gated

    def is_countable(self, pod: Pod, profiles: AbstractSet[str]) -> bool:
        """Tell whether an unbound member can ever have a turn."""
        return not pod.spec.scheduling_gates and pod.uid not in self.timed_out and pod.scheduler_name in profiles

    def unbound(self) -> list[Pod]:
        """Return the members without a node in the API."""
        return [*self.state.pending.values(), *self.state.waiting.values()]

    def round_size(self, profiles: AbstractSet[str]) -> int:
        """Return how many turns make a round. The total alone would never be reached once a member is gone."""
        return min(self.state.group.total, self.countable(profiles))

    def is_complete(self, profiles: AbstractSet[str]) -> bool:
        """Tell whether the round can be closed."""
        return bool(self.visited) and len(self.visited) >= self.round_size(profiles)

    def close(self, profiles: AbstractSet[str]) -> None:
        """Close the round if everybody had a turn, and begin the next one."""
        if not self.is_complete(profiles):
            return
        self.schedule_cycle += 1
        self.schedule_cycle_valid = True
        # Whoever opens the next round brings the others along.
        self.retry_requested = False
        self.asleep.update((uid, None) for uid in self.visited if uid in self.state.pending)
        self.visited.clear()

    def visit(self, uid: str) -> int:
        """Give a member its turn in this round; return the round of its last one."""
        old = self.rounds.get(uid, 0)
        self.rounds[uid] = self.schedule_cycle
        self.visited[uid] = None
        self.asleep.pop(uid, None)
        return old

    def settle(self, uid: str) -> None:
        """Take a member out that is bound, or timed out: it will have no turn any more."""
        was_visited = self.visited.pop(uid, uid) is None
        if was_visited and not self.visited:
            # Of those that made the round invalid, or were refused for it, nobody is left to close it.
            self.schedule_cycle_valid = True
        self.asleep.pop(uid, None)
        self.called.pop(uid, None)
        self.tried.discard(uid)

    def forget(self, uid: str) -> None:
        """Take a member out that is gone."""
        self.settle(uid)
        self.rounds.pop(uid, None)
        self.timed_out.discard(uid)

    def clear_deadline(self) -> None:
        """Wait for nobody any more."""
        self.deadline = None
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def check_invariants(self) -> None:
        """Raise AssertionError where the record contradicts itself or the directory."""
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
