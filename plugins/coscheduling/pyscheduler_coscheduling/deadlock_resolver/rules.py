"""Decide whether groups are in a deadlock, which group gets nodes, and which groups give up nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler_coscheduling.deadlock_resolver.history import Releases
from pyscheduler_coscheduling.deadlock_resolver.plan import NeverFits

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from pyscheduler.api import Pod
    from pyscheduler_coscheduling.deadlock_resolver.plan import Plan
    from pyscheduler_coscheduling.deadlock_resolver.units import Contender, UnitKey

__all__ = ["CHECK_SECONDS", "Check", "DeadlockRules", "Lease", "in_deadlock"]

#: How often contenders are checked while members are tried.
CHECK_SECONDS: Final = 0.5


@attrs.frozen
class Check:
    """The outcome of a check: resolve the deadlock now, or check again at a time (None: wait for news)."""

    resolve: bool = False
    again_at: float | None = None


@attrs.define(kw_only=True, eq=False)
class Lease:
    """The time in which units that yielded are refused, and the freed nodes are nominated for the winner."""

    winner: Contender
    #: The units that yielded.
    yielded: Mapping[UnitKey, Contender]
    #: Units that could not be placed either, and would take the freed room before the winner.
    held_off: dict[UnitKey, Contender]
    #: The winner's missing members and their nodes.
    nodes: Sequence[tuple[Pod, str]]
    ends_at: float
    #: How many contenders there were.
    count: int

    def refuses(self, key: UnitKey | None) -> bool:
        """Return True if members of a unit must not be tried now."""
        return key in self.yielded or key in self.held_off


class DeadlockRules:
    """The state of units and their attempts, and the lease if there is one."""

    def __init__(self) -> None:
        self.history = Releases()
        self.never = NeverFits()
        self.lease: Lease | None = None
        #: When waiting units first had enough members, in seconds since 1970.
        self.first_pending: dict[UnitKey, float] = {}
        self.yields: dict[UnitKey, int] = {}
        #: Counts: resolutions, units that yielded, leases that expired, winners that were excluded.
        self.counts = dict.fromkeys(("resolved", "yielded", "expired", "excluded"), 0)
        #: Winners that were not complete in time, with the count of external changes at which they were excluded.
        self._excluded: dict[UnitKey, int] = {}
        #: Units that fitted without victims and were retried, with that count.
        self._nudged: dict[UnitKey, int] = {}
        #: How many more checks to make if there is no deadlock.
        self._checks = 0
        self._since: float | None = None
        #: The contenders for which no plan was found, so that they are not tried again.
        self._unsolved: Hashable = None

    # --- units

    def changed(self, key: UnitKey) -> None:
        """Drop what was found out about a unit whose members or declaration changed."""
        self.never.forget(key)
        self._excluded.pop(key, None)

    def completed(self, key: UnitKey) -> None:
        """Record that a unit is complete."""
        self.first_pending.pop(key, None)
        self._excluded.pop(key, None)

    def forget(self, key: UnitKey) -> None:
        """Drop a unit that is gone."""
        for known in (self.first_pending, self._excluded, self._nudged, self.yields):
            known.pop(key, None)
        self.never.forget(key)

    def is_excluded(self, key: UnitKey | None) -> bool:
        """Return True if a unit may not win before something outside changes."""
        return key is not None and self._excluded.get(key) == self.history.external

    def is_winner(self, key: UnitKey | None) -> bool:
        """Return True if a unit holds the lease."""
        return self.lease is not None and self.lease.winner.key == key

    # --- detection

    def expect(self) -> None:
        """Have two checks made: a member that is tried at the first may have failed by the second."""
        self._checks = 2

    def check(self, contenders: Sequence[Contender], now: float) -> Check:
        """Return what to do about contenders in a deadlock; none of them means that there is none."""
        self._checks -= 1
        if not contenders:
            self._since = None
            return Check(again_at=now + CHECK_SECONDS if self._checks > 0 else None)
        if self._since is None:
            self._since = now
        due = self._since + max(each.party.deadlock.grace_seconds for each in contenders)
        if now < due:
            return Check(again_at=due)
        self._since = None
        return Check(resolve=self._unsolved != self._fingerprint(contenders))

    # --- resolution

    def possible_winners(self, ranked: Iterable[Contender]) -> Iterator[Contender]:
        """Yield the contenders that may win, the first rank first; each is judged when its turn comes."""
        # A plan for one contender may show that the next one never fits.
        return (each for each in ranked if each.can_win and each not in self.never and not self.is_excluded(each.key))

    def is_worth_a_retry(self, winner: Contender) -> bool:
        """Return True if a contender that fits without victims was not retried for that since the last change."""
        return self._nudged.get(winner.key) != self.history.external

    def give_up(self, contenders: Sequence[Contender]) -> None:
        """Record that there is no plan for these contenders as they are."""
        self._unsolved = self._fingerprint(contenders)

    def apply(self, plan: Plan, contenders: Sequence[Contender], now: float) -> Lease | None:
        """Begin the lease of a plan and return it; None if nobody yields and the winner is only to be retried."""
        winner = plan.winner
        if not plan.victims:
            self._nudged[winner.key] = self.history.external
            return None
        self.counts["resolved"] += 1
        self.counts["yielded"] += len(plan.victims)
        for victim in plan.victims:
            self.yields[victim.key] = self.yields.get(victim.key, 0) + 1
        self.lease = Lease(
            winner=winner,
            yielded={each.key: each for each in plan.victims},
            held_off={each.key: each for each in contenders if _comes_before(each, plan)},
            nodes=plan.nodes,
            ends_at=now + winner.party.deadlock.yield_lease_seconds,
            count=len(contenders),
        )
        return self.lease

    def expire(self, lease: Lease) -> None:
        """Exclude a winner that is not complete at the end of its lease."""
        self.counts["expired"] += 1
        self.counts["excluded"] += 1
        self._excluded[lease.winner.key] = self.history.external

    def room_appeared(self) -> list[Contender]:
        """Record room from outside, which the lease does not cover; return the contenders to retry."""
        self.history.appeared()
        return self._release_held_off()

    def end_lease(self) -> list[Contender]:
        """End the lease; return the contenders to retry."""
        yielded = list(self.lease.yielded.values()) if self.lease is not None else []
        freed = [*yielded, *self._release_held_off()]
        self.lease = None
        return freed

    def _release_held_off(self) -> list[Contender]:
        if self.lease is None:
            return []
        released = list(self.lease.held_off.values())
        self.lease.held_off.clear()
        return released

    def _fingerprint(self, contenders: Sequence[Contender]) -> Hashable:
        return self.history.external, frozenset((each.key, each.members) for each in contenders)


def in_deadlock(contenders: Iterable[Contender]) -> list[Contender]:
    """Return the contenders of a deadlock, in order of rank; none if a holder has members left to try."""
    exhausted: list[Contender] = []
    for each in contenders:
        if each.is_exhausted:
            exhausted.append(each)
        elif each.holds:
            return []
    could_yield = [each for each in exhausted if each.can_yield]
    if len(exhausted) < 2 or not any(each.can_win and could_yield not in ([], [each]) for each in exhausted):
        return []
    return sorted(exhausted, key=lambda each: each.rank)


def _comes_before(contender: Contender, plan: Plan) -> bool:
    """Return True if members of a contender would take the freed room before the winner."""
    if contender is plan.winner or contender in plan.victims:
        return False
    lowest = min(pod.priority for pod, _ in plan.nodes)
    return any(pod.priority > lowest for pods in contender.candidates.values() for pod in pods)
