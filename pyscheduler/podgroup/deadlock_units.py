"""Who takes part in a deadlock: gang groups as the resolver sees them, and what it asks of the plugin that serves them.

A unit is what is satisfied together: a gang group, or a single group. A contender is a unit that lacks members, with
what it holds and whom it could still place, as of one moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework import Handle, WaitingPod
    from pyscheduler.podgroup.deadlock_history import Releases
    from pyscheduler.podgroup.identity import GroupId
    from pyscheduler.podgroup.membership import GroupState

__all__ = ["Contender", "DeadlockArgs", "DeadlockParty", "UnitKey", "first_complete", "unit_name"]

#: The family, and the keys of the groups that are satisfied together, sorted.
UnitKey: TypeAlias = "tuple[str, tuple[str, ...]]"


@attrs.frozen(kw_only=True)
class DeadlockArgs:
    """When groups that each hold a part of the room are told to yield; the `deadlock` args of group plugins."""

    enabled: bool = True
    #: How long nobody can get any further before somebody yields.
    grace_seconds: int = 2
    #: How long those who yielded are refused, unless the one they yielded to is complete before.
    yield_lease_seconds: int = 30
    #: For every so many seconds that a group waits, its priority counts one more here; 0 switches that off.
    aging_seconds: int = 0

    def negatives(self) -> Iterator[tuple[str, int]]:
        """Yield the keys, and values, of what must not be below 0 and is."""
        for key, seconds in (
            ("deadlock.graceSeconds", self.grace_seconds),
            ("deadlock.yieldLeaseSeconds", self.yield_lease_seconds),
            ("deadlock.agingSeconds", self.aging_seconds),
        ):
            if seconds < 0:
                yield key, seconds


class DeadlockParty(Protocol):
    """A group plugin, as far as deadlocks of its groups go; one for each profile that has the plugin."""

    @property
    def handle(self) -> Handle:
        """Return the handle of the profile."""
        ...

    @property
    def deadlock(self) -> DeadlockArgs:
        """Return the args."""
        ...

    def unit(self, state: GroupState) -> tuple[UnitKey, Sequence[GroupState]]:
        """Return with whom a group is satisfied, and those of them that are known, itself among them."""
        ...

    def is_ready(self, unit: Sequence[GroupState]) -> bool:
        """Tell whether all groups of a unit are known, declared, and have members enough, gated ones included."""
        ...

    def missing(self, state: GroupState) -> int:
        """Return how many members a group lacks, those left out that hold a node or are bound; 0 for a complete one."""
        ...

    def candidates(self, state: GroupState) -> Sequence[Pod]:
        """Return the pending members that can be tried, in the order in which the queue would try them."""
        ...

    def may_yield(self, state: GroupState) -> bool:
        """Tell whether a group keeps its places when a member fits nowhere, and so may be told to give them up."""
        ...

    def yield_places(self, unit: Sequence[GroupState], reason: Callable[[GroupState], str]) -> None:
        """Reject all who wait; nobody is annotated or refused for that, and no deadline runs on."""
        ...

    def retry(self, unit: Sequence[GroupState]) -> None:
        """Have the pending members tried again, whatever the groups were refused for."""
        ...


@attrs.frozen(kw_only=True, eq=False)
class Contender:
    """A unit that is not complete, as of one moment."""

    key: UnitKey
    states: Sequence[GroupState]
    party: DeadlockParty
    #: The highest among its unbound members, and what it has gained by waiting.
    priority: int
    #: When it had its members together first, in seconds since the epoch.
    first_pending: float
    #: Members that wait at Permit, the longest wait first.
    holds: Sequence[WaitingPod]
    #: By group: how many members it lacks.
    missing: dict[GroupId, int]
    #: By group: the pending members that can be tried, in order.
    candidates: dict[GroupId, Sequence[Pod]]
    #: Whether there are candidates enough to complete it.
    can_win: bool
    #: Whether it holds something, and may be told to give it up.
    can_yield: bool
    #: Whether nobody of it can be placed as things are.
    is_exhausted: bool

    @property
    def name(self) -> str:
        """Return what users call it."""
        return unit_name(self.key)

    @property
    def rank(self) -> tuple[int, float, str]:
        """Return a sort key: who comes first is served first."""
        return (-self.priority, self.first_pending, self.name)

    @property
    def members(self) -> frozenset[tuple[str, str]]:
        """Return who waits and who could be tried; what has changed when that has is another deadlock."""
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
        """Look at a unit; None where nothing is missing, or nobody is there to be placed or to yield.

        Times are in seconds since the epoch.
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
    """Tell whether all were tried, and failed, since room may have appeared last.

    Whoever sleeps among the unschedulable pods counts as such: the queue has asked about every event since then.
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


def unit_name(key: UnitKey) -> str:
    """Return what users call a unit: its groups, joined by commas."""
    return ",".join(key[1])


def _priority(states: Sequence[GroupState], party: DeadlockParty, waited_seconds: float) -> int:
    unbound = (pod for state in states for pod in (*state.pending.values(), *state.waiting.values()))
    highest = max((pod.priority for pod in unbound), default=0)
    aging = party.deadlock.aging_seconds
    return highest + int(max(waited_seconds, 0.0) // aging) if aging else highest


def first_complete(states: Sequence[GroupState], created: Callable[[Pod], float]) -> float:
    """Return when a unit had as many members as it takes, by the creation of those that it has."""
    times = []
    for state in states:
        ages = sorted(created(pod) for pod in state.children())
        count = min(max(state.group.min, 1), len(ages))
        times.append(ages[count - 1] if ages else state.group.created)
    return max(times, default=0.0)
