"""The resolver of deadlocks: groups that each hold a part of the room, so that none can be complete.

A contender lacks members, and none of its members fits as the cluster is. There is a deadlock if, for the grace time,
two or more contenders exist, one of them holds nodes that it may have to give up, and no holder has a member left to
try. Without a resolver all of them would wait until they time out. The winner is the contender with the first rank
(highest priority, then longest wait) that fits with the room of lower ranks: those yield, one after the other, until it
fits. During a lease they are refused, and the room is nominated for the winner.

Only nodes held in memory are given up. The rank of a group does not change while it waits, so the oldest contender that
can be complete is always the next winner. A winner that was not complete in time may not win again before something
outside changes. So between two such changes each resolution completes a unit or excludes one, and resolutions end.

One resolver serves all profiles and group plugins of a scheduler: `PodGroups.deadlocks`. A plugin joins with a
`DeadlockParty`, reports attempts and nodes taken or given back, and asks whether a group is refused.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from pyscheduler.api import Node, Pod
from pyscheduler.framework.changes import node_changes, pod_changes
from pyscheduler.framework.events import ActionType
from pyscheduler.podgroup.deadlock_history import Releases
from pyscheduler.podgroup.deadlock_lease import Lease
from pyscheduler.podgroup.deadlock_plan import NeverFits, Planner
from pyscheduler.podgroup.deadlock_units import Contender, first_complete
from pyscheduler.podgroup.directory import ChangeKind
from pyscheduler.podgroup.membership import created_at

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from pyscheduler.framework import Clock, Handle, Timer, WaitingIndex, WaitingPod, WaitVerdict
    from pyscheduler.podgroup.deadlock_plan import Plan
    from pyscheduler.podgroup.deadlock_units import DeadlockParty, UnitKey
    from pyscheduler.podgroup.directory import GroupChange, GroupDirectory
    from pyscheduler.podgroup.membership import GroupState

__all__ = ["Deadlocks"]

_log = logging.getLogger(__name__)

#: How often contenders are checked while members are tried, in seconds.
_LOOK_SECONDS: Final = 0.5
#: A unit whose last member is older had its members before this program started.
_PRECISE_SECONDS: Final = 2.0

METRIC: Final = "pyscheduler_podgroup_deadlocks_total"


class Deadlocks:
    """The resolver of one scheduler."""

    def __init__(self, directory: GroupDirectory, clock: Clock, server_of: Callable[[GroupState], str]) -> None:
        self._directory = directory
        self._clock = clock
        self._server_of = server_of
        self._parties: dict[tuple[str, str], DeadlockParty] = {}
        self._waiting: WaitingIndex | None = None
        self._past = Releases()
        self._never = NeverFits()
        #: When waiting units first had enough members, in seconds since 1970.
        self._first_pending: dict[UnitKey, float] = {}
        #: Winners that were not complete in time, with the count of external changes at which they were excluded.
        self._excluded: dict[UnitKey, int] = {}
        #: Units that fitted without victims and were retried, with that count.
        self._nudged: dict[UnitKey, int] = {}
        self._yields: dict[UnitKey, int] = {}
        self._lease: Lease | None = None
        self._timer: Timer | None = None
        self._looked_at = -_LOOK_SECONDS
        #: How many more checks to make if there is no deadlock.
        self._looks = 0
        self._since: float | None = None
        self._resolving = False
        #: The contenders for which no plan was found, so that they are not tried again.
        self._unsolved: Hashable = None
        #: Counts: resolutions, units that yielded, leases that expired, winners that were excluded.
        self.resolved = 0
        self.yielded = 0
        self.expired = 0
        self.excluded = 0
        directory.subscribe(self._changed)

    # --- reports of plugins

    def join(self, plugin: str, party: DeadlockParty) -> None:
        """Add a party: the groups that `plugin` serves in the profile of the party's handle."""
        handle = party.handle
        if self._waiting is None:
            self._connect(handle)
        self._parties[plugin, handle.profile_name] = party

    def tried(self, pod: Pod) -> None:
        """Record that a member is tried now: at PreFilter, if the plugin lets it pass, or at PostFilter."""
        self._past.tried(pod.uid)
        self._poke()

    def refused(self) -> None:
        """Record that a plugin refused one of its members at PreFilter."""
        self._poke()

    def took(self, pod: Pod) -> None:
        """Record that a pod, of any kind, holds a node in memory: at Reserve."""
        self._past.took(pod.uid)
        self._poke()

    def gave_back(self, pod: Pod, verdict: WaitVerdict | None) -> None:
        """Record that a pod gives its node back: at Unreserve, with the verdict of its wait (None if it did not wait).

        If its own group plugin rejected it, or its scheduling cycle failed, this is a rollback: no external change, and
        no new room for its own group.
        """
        state = self._directory.of(pod)
        server = "" if state is None else self._server_of(state)
        rolled_back = verdict is None or (verdict.cause == "rejected" and verdict.plugin == server)
        by = self._key(state) if state is not None and rolled_back else None
        if self._past.gave_back(pod.uid, by=by, external=not rolled_back):
            self._poke()
        if self._lease is not None:
            self._lease.left(pod.uid)

    def completed(self, state: GroupState) -> None:
        """Record that a group passed Permit: all groups of its unit are complete."""
        key = self._key(state)
        if key is None:
            return
        self._first_pending.pop(key, None)
        self._excluded.pop(key, None)
        if self._lease is not None and self._lease.winner.key == key:
            self._end_lease(self._lease)

    # --- queries of plugins

    def refusal(self, state: GroupState) -> str:
        """Return the message why a member of a group must not be tried now; "" if it may be tried."""
        lease = self._lease
        if lease is None:
            return ""
        key = self._key(state)
        if key not in lease.yielded and key not in lease.held_off:
            return ""
        return f'gang "{state.id}" has yielded to gang "{lease.winner.name}"'

    def describe(self, state: GroupState) -> str:
        """Return the part of a group in a deadlock: `Winner ...`, `Yielded to ...`, `Excluded`, or ""."""
        key, lease = self._key(state), self._lease
        if lease is not None:
            left = f"for {max(lease.ends_at - self._clock.now(), 0.0):.0f} s"
            if key == lease.winner.key:
                return f"Winner {left}"
            if key in lease.yielded or key in lease.held_off:
                return f"Yielded to {lease.winner.name} {left}"
        return "Excluded" if key is not None and self._is_excluded(key) else ""

    def yield_count(self, state: GroupState) -> int:
        """Return how often a group yielded so far."""
        key = self._key(state)
        return 0 if key is None else self._yields.get(key, 0)

    # --- events

    def _connect(self, handle: Handle) -> None:
        self._waiting = handle.index_waiting_pods(self._directory.group_id)
        handle.lister(Pod).add_event_handler(on_add=self._pod_is, on_update=self._pod_was, on_delete=self._pod_gone)
        handle.lister(Node).add_event_handler(
            on_add=lambda _: self._nodes_changed(), on_update=self._node_was, on_delete=lambda _: self._never.clear()
        )
        names = ("resolved", "yielded", "expired", "excluded")
        handle.recorder.counter(
            METRIC,
            lambda: {(("result", name),): float(getattr(self, name)) for name in names},
            description="Deadlocks of pod groups: resolved, units that yielded, leases that ran out, winners excluded",
        )

    def _pod_is(self, pod: Pod) -> None:
        if pod.node_name:
            self._past.bound(pod.uid)

    def _pod_was(self, old: Pod, new: Pod) -> None:
        self._pod_is(new)
        scaled_down = old.node_name and any(
            event.action & ActionType.UPDATE_POD_SCALE_DOWN for event in pod_changes(old, new)
        )
        if scaled_down:
            self._appeared()

    def _pod_gone(self, pod: Pod) -> None:
        self._past.forget(pod.uid)
        if pod.node_name:
            self._appeared()

    def _node_was(self, old: Node, new: Node) -> None:
        if node_changes(old, new) or old.spec.unschedulable != new.spec.unschedulable:
            self._nodes_changed()

    def _nodes_changed(self) -> None:
        self._never.clear()
        self._appeared()

    def _appeared(self) -> None:
        self._past.appeared()
        if self._lease is not None:
            # This room is not the room that was freed for the winner.
            self._retry(self._lease.release_held_off())
        self._poke()

    def _changed(self, change: GroupChange) -> None:
        """Update what depends on groups: which units can win, and since when they wait."""
        state = change.state
        party = self._party(state)
        if party is None:
            return
        key, unit = party.unit(state)
        if change.kind is ChangeKind.FORGOTTEN:
            self._forget(key)
            return
        if change.kind is not ChangeKind.MOVED:
            self._never.forget(key)
            self._excluded.pop(key, None)
        if key not in self._first_pending and not state.satisfied and party.is_ready(unit):
            self._first_pending[key] = self._complete_since(unit)
        lease = self._lease
        if lease is not None and lease.winner.key == key and not party.is_ready(unit):
            self._end_lease(lease)

    def _complete_since(self, unit: Sequence[GroupState]) -> float:
        """Return since when a unit has enough members: now, unless it had them before this program started."""
        created, now = first_complete(unit, created_at), self._clock.wall()
        return now if now - created < _PRECISE_SECONDS else created

    def _forget(self, key: UnitKey) -> None:
        for known in (self._first_pending, self._excluded, self._nudged, self._yields):
            known.pop(key, None)
        self._never.forget(key)
        if self._lease is not None and self._lease.winner.key == key:
            self._end_lease(self._lease)

    def _party(self, state: GroupState) -> DeadlockParty | None:
        """Return the party of a group, in the profile of its unbound members; None if there is none."""
        plugin = self._server_of(state)
        pod = state.unbound_member
        if pod is None:
            return next((party for (name, _), party in self._parties.items() if name == plugin), None)
        return self._parties.get((plugin, pod.scheduler_name))

    def _key(self, state: GroupState) -> UnitKey | None:
        party = self._party(state)
        return None if party is None else party.unit(state)[0]

    def _is_excluded(self, key: UnitKey) -> bool:
        return self._excluded.get(key) == self._past.external

    # --- detection

    def _poke(self) -> None:
        """Check for a deadlock soon, and once more after that; without waiting pods there is none."""
        self._looks = 2
        if self._timer is not None or self._lease is not None or self._resolving:
            return
        if self._waiting is not None and self._waiting.groups():
            self._arm(max(self._clock.now(), self._looked_at + _LOOK_SECONDS))

    def _arm(self, when: float) -> None:
        self._timer = self._clock.call_at(when, self._look)

    def _look(self) -> None:
        """Start a resolution if there has been a deadlock for the grace time."""
        self._timer = None
        self._looks -= 1
        now = self._looked_at = self._clock.now()
        contenders = self._stuck()
        if not contenders:
            self._since = None
            # A member that is tried at this moment may fail in the next.
            if self._looks > 0:
                self._arm(now + _LOOK_SECONDS)
            return
        if self._since is None:
            self._since = now
        due = self._since + max(each.party.deadlock.grace_seconds for each in contenders)
        if now < due:
            self._arm(due)
            return
        self._since = None
        if self._unsolved != self._fingerprint(contenders):
            self._resolving = True
            contenders[0].party.handle.spawn(self._resolve(contenders), name="deadlock resolution")

    def _stuck(self) -> list[Contender]:
        """Return the contenders of a deadlock, in order of rank; none if there is no deadlock, or not yet."""
        now = self._clock.wall()
        found: dict[UnitKey, Contender | None] = {}
        waiting = self._waiting.groups() if self._waiting is not None else ()
        holders = [state for group in waiting if (state := self._directory.get(group)) is not None]  # type: ignore[arg-type]  # the keys are those that were given
        for state in (*holders, *self._directory):
            party = self._party(state)
            if party is None or not party.deadlock.enabled:
                continue
            key, unit = party.unit(state)
            if key in found:
                continue
            contender = found[key] = Contender.of(
                key,
                unit,
                party,
                holds=self._holds(unit),
                past=self._past,
                first_pending=self._first_pending.get(key, now),
                now=now,
            )
            if contender is not None and contender.holds and not contender.is_exhausted:
                return []  # it has members left to try
        contenders = [each for each in found.values() if each is not None and each.is_exhausted]
        could_yield = [each for each in contenders if each.can_yield]
        if len(contenders) < 2 or not could_yield or self._is_preempting():
            return []
        if not any(each.can_win and could_yield != [each] for each in contenders):
            return []
        return sorted(contenders, key=lambda each: each.rank)

    def _holds(self, unit: Sequence[GroupState]) -> list[WaitingPod]:
        assert self._waiting is not None
        return [held for state in unit for held in self._waiting.of(state.id) if held.verdict is None]

    def _is_preempting(self) -> bool:
        """Return True if a preemption is under way: victims are ending, or the preemptor is about to be tried."""
        # Nominations, snapshot and queue are one for all profiles.
        handle = next(iter(self._parties.values())).handle
        for name in handle.nominator.nodes:
            node = handle.snapshot.get(name)
            if node is not None and any(info.pod.is_terminating for info in node.pods):
                return True
            if any(
                handle.queue_place(info.pod.uid) not in {"", "unschedulable"} for info in handle.nominator.pods_on(name)
            ):
                return True
        return False

    def _fingerprint(self, contenders: Sequence[Contender]) -> Hashable:
        return self._past.external, frozenset((each.key, each.members) for each in contenders)

    # --- resolution

    async def _resolve(self, contenders: list[Contender]) -> None:
        try:
            lease = await self._decide(contenders)
        finally:
            self._resolving = False
        if lease is not None:
            # Rejected pods give their nodes back in later turns of the event loop; before that, the winner would fail.
            await lease.is_room_free.wait()
            if self._lease is lease:
                lease.winner.party.retry(lease.winner.states)

    async def _decide(self, contenders: list[Contender]) -> Lease | None:
        """Choose the winner and the victims, and apply the plan; None if there is no plan, or it is out of date."""
        await self._find_never_fits(contenders)
        planner = Planner(contenders, self._never)
        for winner in contenders:
            if not winner.can_win or winner in self._never or self._is_excluded(winner.key):
                continue
            async with winner.party.handle.what_if() as trial:
                had_its_try = self._nudged.get(winner.key) == self._past.external
                plan = await planner.plan_for(trial, winner, as_it_is=not had_its_try)
                if plan is None:
                    continue
                if not self._is_up_to_date(plan):
                    self._resolving = False
                    self._poke()
                    return None
                if not plan.victims:
                    self._nudged[winner.key] = self._past.external
                    winner.party.retry(winner.states)
                    return None
                return self._carry_out(plan, contenders)
        self._unsolved = self._fingerprint(contenders)
        return None

    async def _find_never_fits(self, contenders: Sequence[Contender]) -> None:
        by_profile: dict[str, list[Contender]] = {}
        for each in contenders:
            if not self._never.is_known(each):
                by_profile.setdefault(each.party.handle.profile_name, []).append(each)
        for few in by_profile.values():
            async with few[0].party.handle.what_if() as trial:
                await self._never.work_out(trial, few)

    def _is_up_to_date(self, plan: Plan) -> bool:
        """Return True if winner and victims are unchanged since the plan was begun."""
        now = {each.key: each.members for each in self._stuck()}
        return all(now.get(each.key) == each.members for each in (plan.winner, *plan.victims))

    def _carry_out(self, plan: Plan, contenders: Sequence[Contender]) -> Lease:
        winner, count = plan.winner, len(contenders)
        seconds = winner.party.deadlock.yield_lease_seconds
        lease = self._lease = Lease(
            winner=winner,
            yielded={each.key: each for each in plan.victims},
            held_off={each.key: each for each in contenders if _comes_before(each, plan)},
            ends_at=self._clock.now() + seconds,
            nominator=winner.party.handle.nominator,
            leaving={held.pod.uid for each in plan.victims for held in each.holds},
        )
        lease.timer = self._clock.call_at(lease.ends_at, lambda: self._expire(lease))
        lease.nominate(plan.nodes)
        self.resolved += 1
        for victim in plan.victims:
            self.yielded += 1
            self._yields[victim.key] = self._yields.get(victim.key, 0) + 1
            _log.info(
                "Gang yields: resource deadlock gang=%s winner=%s gangs=%d pods=%d",
                victim.name,
                winner.name,
                count,
                len(victim.holds),
            )
            victim.party.yield_places(victim.states, lambda state: yields(str(state.id), winner.name, count))
        return lease

    # --- the lease

    def _expire(self, lease: Lease) -> None:
        if self._lease is not lease:
            return
        self.expired += 1
        self.excluded += 1
        self._excluded[lease.winner.key] = self._past.external
        _log.info("Gang is not complete although others yielded to it gang=%s", lease.winner.name)
        self._end_lease(lease)

    def _end_lease(self, lease: Lease) -> None:
        self._lease = None
        lease.end()
        self._retry([*lease.yielded.values(), *lease.release_held_off()])
        self._poke()

    def _retry(self, contenders: Iterable[Contender]) -> None:
        for each in contenders:
            each.party.retry(each.party.unit(each.states[0])[1])


def _comes_before(contender: Contender, plan: Plan) -> bool:
    """Return True if members of a contender would take the freed room before the winner."""
    if contender is plan.winner or contender in plan.victims:
        return False
    lowest = min(pod.priority for pod, _ in plan.nodes)
    return any(pod.priority > lowest for pods in contender.candidates.values() for pod in pods)


def yields(gang: str, winner: str, count: int) -> str:
    """Return the message for members that give up their nodes."""
    return f'Gang "{gang}" yields to gang "{winner}": resource deadlock among {count} gangs'
