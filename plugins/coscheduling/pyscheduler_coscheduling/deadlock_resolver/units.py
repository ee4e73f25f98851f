"""Types for groups in a deadlock, and the methods that the resolver calls on group plugins.

A unit is one group, or several that start together. A `Contender` is a unit of which too few members have a node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework import Handle, WaitingPod
    from pyscheduler.podgroup.identity import GroupId
    from pyscheduler.podgroup.membership import GroupState
    from pyscheduler_coscheduling.deadlock_resolver.history import Releases

__all__ = ["Contender", "DeadlockArgs", "DeadlockParty", "UnitKey", "first_complete"]

#: The family, and the keys of the groups that are satisfied together, sorted.
UnitKey: TypeAlias = "tuple[str, tuple[str, ...]]"


@attrs.frozen(kw_only=True)
class DeadlockArgs:
    """When groups in a deadlock must yield: the `deadlock` args of group plugins."""

    enabled: bool = True
    #: How long a deadlock must last before a group yields.
    grace_seconds: int = 2
    #: How long groups that yielded are refused, unless the winner is complete before.
    yield_lease_seconds: int = 30
    #: The priority of a group counts one more for each so many seconds that it waits; 0 switches that off.
    aging_seconds: int = 0

    def negatives(self) -> Iterator[tuple[str, int]]:
        """Yield the keys and values that are below 0, which is an error."""
        for key, seconds in (
            ("deadlock.graceSeconds", self.grace_seconds),
            ("deadlock.yieldLeaseSeconds", self.yield_lease_seconds),
            ("deadlock.agingSeconds", self.aging_seconds),
        ):
            if seconds < 0:
                yield key, seconds


class DeadlockParty(Protocol):
    """The methods of a group plugin that the resolver calls; one object for each profile with the plugin."""

    @property
    def handle(self) -> Handle:
        """Return the handle of the profile."""

    @property
    def deadlock(self) -> DeadlockArgs:
        """Return the args."""

    def unit(self, state: GroupState) -> tuple[UnitKey, Sequence[GroupState]]:
        """Return the key of a group's unit, and the known groups of the unit, including the group."""

    def is_ready(self, unit: Sequence[GroupState]) -> bool:
        """Return True if all groups of a unit are known, declared, and have enough members, gated ones included."""

    def missing(self, state: GroupState) -> int:
        """Return how many members without a node a group still needs; 0 for a complete group."""

    def candidates(self, state: GroupState) -> Sequence[Pod]:
        """Return the pending members that can be tried, in the order of the queue."""

    def may_yield(self, state: GroupState) -> bool:
        """Return True if a group keeps its nodes when a member does not fit, so that it may have to yield."""

    def yield_places(self, unit: Sequence[GroupState], reason: Callable[[GroupState], str]) -> None:
        """Reject all waiting members; the groups have not failed, and no deadline runs on."""

    def retry(self, unit: Sequence[GroupState]) -> None:
        """Retry the pending members, even if the groups are refused at the moment."""


@attrs.frozen(kw_only=True, eq=False)
class Contender:
    """A unit that is not complete, at one moment."""

    key: UnitKey
    states: Sequence[GroupState]
    party: DeadlockParty
    #: The highest priority of its unbound members, plus what it gained by waiting.
    priority: int
    #: When it first had enough members, in seconds since 1970.
    first_pending: float
    #: Members that wait at Permit, the longest wait first.
    holds: Sequence[WaitingPod]
    #: How many members each group lacks.
    missing: dict[GroupId, int]
    #: The pending members of each group that can be tried, in order.
    candidates: dict[GroupId, Sequence[Pod]]
    #: Whether it has enough candidates to be complete.
    can_win: bool
    #: Whether it holds nodes and may have to give them up.
    can_yield: bool
    #: Whether none of its members fits as the cluster is.
    is_exhausted: bool

    @property
    def name(self) -> str:
        """Return the name for users: the groups of the unit, joined by commas."""
        return ",".join(self.key[1])

    @property
    def rank(self) -> tuple[int, float, str]:
        """Return the sort key: the first contender is served first."""
        return (-self.priority, self.first_pending, self.name)

    @property
    def members(self) -> frozenset[tuple[str, str]]:
        """Return the waiting members and the candidates; if these change, it is another deadlock."""
        waiting = (("waiting", held.pod.uid) for held in self.holds)
        pending = (("pending", pod.uid) for pods in self.candidates.values() for pod in pods)
        return frozenset((*waiting, *pending))

    @classmethod
    def of(
        cls,
        key: UnitKey,
        states: Sequence[GroupState],
        party: DeadlockParty,
        *,
        holds: Sequence[WaitingPod],
        past: Releases,
        first_pending: float,
        now: float,
    ) -> Contender | None:
        """Return a unit as a contender; None if it lacks nothing, or can neither win nor yield.

        Times are in seconds since 1970.
        """
        missing = {state.id: party.missing(state) for state in states}
        if not any(missing.values()):
            return None
        candidates = {state.id: party.candidates(state) for state in states}
        enough = all(len(candidates[group]) >= count for group, count in missing.items())
        can_win = enough and party.is_ready(states)
        if not can_win and not holds:
            return None
        holding = [state for state in states if state.waiting]
        return cls(
            key=key,
            states=states,
            party=party,
            priority=_priority(states, party, now - first_pending),
            first_pending=first_pending,
            holds=holds,
            missing=missing,
            candidates=candidates,
            can_win=can_win,
            can_yield=bool(holds) and all(party.may_yield(state) for state in holding),
            is_exhausted=_is_exhausted(key, [pod for pods in candidates.values() for pod in pods], holds, party, past),
        )


def _is_exhausted(
    key: UnitKey, pods: Sequence[Pod], holds: Sequence[WaitingPod], party: DeadlockParty, past: Releases
) -> bool:
    """Return True if all pods were tried, and failed, since room may have appeared last.

    Unschedulable pods count as failed: the queue has checked every event since their attempt.
    """
    news = past.news_for(key)
    was_tried = bool(holds)
    for pod in pods:
        tried = past.tried_at(pod.uid)
        was_tried = was_tried or tried is not None
        place = party.handle.queue_place(pod.uid)
        if place != "unschedulable" and (place != "backoff" or tried is None or news.since(tried)):
            return False
    return was_tried


def _priority(states: Sequence[GroupState], party: DeadlockParty, waited_seconds: float) -> int:
    unbound = (pod for state in states for pod in (*state.pending.values(), *state.waiting.values()))
    highest = max((pod.priority for pod in unbound), default=0)
    aging = party.deadlock.aging_seconds
    return highest + int(max(waited_seconds, 0.0) // aging) if aging else highest


def first_complete(states: Sequence[GroupState], created: Callable[[Pod], float]) -> float:
    """Return when a unit had its minimum of members, by the creation times of its members."""
    times = []
    for state in states:
        ages = sorted(created(pod) for pod in state.children())
        count = min(max(state.group.min, 1), len(ages))
        times.append(ages[count - 1] if ages else state.group.created)
    return max(times, default=0.0)
