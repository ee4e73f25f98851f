"""Resolve deadlocks, in which groups hold nodes that other groups need, so that none of these groups can be complete.

For example, two groups need 4 nodes each, and each holds 3 of 6 nodes. If a deadlock lasts for the grace time, the
resolver ranks the groups by priority, then by the length of their wait. The *winner* is the first group that fits if
other groups *yield*. A group that yields gives up the nodes of its members that wait at Permit. For a limited time (a
*lease*), the pods of this group are refused.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from pyscheduler.api import Node, Pod
from pyscheduler.framework import NominatingInfo, PodInfo
from pyscheduler.framework.changes import node_changes, pod_changes
from pyscheduler.framework.events import ActionType
from pyscheduler.podgroup import PodGroups
from pyscheduler.podgroup.directory import ChangeKind
from pyscheduler.podgroup.membership import created_at
from pyscheduler_coscheduling.deadlock_resolver.plan import Planner
from pyscheduler_coscheduling.deadlock_resolver.rules import CHECK_SECONDS, DeadlockRules, in_deadlock
from pyscheduler_coscheduling.deadlock_resolver.units import Contender, first_complete

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyscheduler.framework import Clock, Handle, Timer, WaitingIndex, WaitingPod, WaitVerdict
    from pyscheduler.podgroup.directory import GroupChange, GroupDirectory
    from pyscheduler.podgroup.membership import GroupState
    from pyscheduler_coscheduling.deadlock_resolver.plan import Plan
    from pyscheduler_coscheduling.deadlock_resolver.rules import Lease
    from pyscheduler_coscheduling.deadlock_resolver.units import DeadlockParty, UnitKey

__all__ = ["Deadlocks"]

_log = logging.getLogger(__name__)

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
        self._rules = DeadlockRules()
        self._timer: Timer | None = None
        self._lease_timer: Timer | None = None
        self._checked_at = -CHECK_SECONDS
        self._resolving = False
        #: Rejected pods that have not given their nodes back yet, by uid; the event is set when all of them have.
        self._leaving: set[str] = set()
        self._is_room_free = asyncio.Event()
        directory.subscribe(self._changed)

    @classmethod
    def of(cls, handle: Handle) -> Deadlocks:
        """Return the resolver of the scheduler that `handle` belongs to; call it in a plugin's constructor."""
        groups = PodGroups.of(handle)
        return handle.shared("pyscheduler/deadlocks", lambda: cls(groups.directory, handle.clock, groups.server_of))

    # --- reports of plugins

    def join(self, plugin: str, party: DeadlockParty) -> None:
        """Add a party: the groups that `plugin` serves in the profile of the party's handle."""
        handle = party.handle
        if self._waiting is None:
            self._connect(handle)
        self._parties[plugin, handle.profile_name] = party

    def tried(self, pod: Pod) -> None:
        """Record that a member is tried now: at PreFilter, if the plugin lets it pass, or at PostFilter."""
        self._rules.history.tried(pod.uid)
        self._poke()

    def refused(self) -> None:
        """Record that a plugin refused one of its members at PreFilter."""
        self._poke()

    def took(self, pod: Pod) -> None:
        """Record that a pod, of any kind, holds a node in memory: at Reserve."""
        self._rules.history.took(pod.uid)
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
        if self._rules.history.gave_back(pod.uid, by=by, external=not rolled_back):
            self._poke()
        self._leaving.discard(pod.uid)
        if not self._leaving:
            self._is_room_free.set()

    def completed(self, state: GroupState) -> None:
        """Record that a group passed Permit: all groups of its unit are complete."""
        key = self._key(state)
        if key is None:
            return
        self._rules.completed(key)
        if self._rules.is_winner(key):
            self._end_lease()

    # --- queries of plugins

    @property
    def counts(self) -> Mapping[str, int]:
        """Return how many deadlocks were resolved, units yielded, leases expired and winners were excluded."""
        return self._rules.counts

    def refusal(self, state: GroupState) -> str:
        """Return the message why a member of a group must not be tried now; "" if it may be tried."""
        lease = self._rules.lease
        if lease is None or not lease.refuses(self._key(state)):
            return ""
        return f'gang "{state.id}" has yielded to gang "{lease.winner.name}"'

    def describe(self, state: GroupState) -> str:
        """Return the part of a group in a deadlock: `Winner ...`, `Yielded to ...`, `Excluded`, or ""."""
        key, lease = self._key(state), self._rules.lease
        if lease is not None:
            left = f"for {max(lease.ends_at - self._clock.now(), 0.0):.0f} s"
            if key == lease.winner.key:
                return f"Winner {left}"
            if lease.refuses(key):
                return f"Yielded to {lease.winner.name} {left}"
        return "Excluded" if self._rules.is_excluded(key) else ""

    def yield_count(self, state: GroupState) -> int:
        """Return how often a group yielded so far."""
        key = self._key(state)
        return 0 if key is None else self._rules.yields.get(key, 0)

    # --- events

    def _connect(self, handle: Handle) -> None:
        self._waiting = handle.index_waiting_pods(self._directory.group_id)
        handle.lister(Pod).add_event_handler(on_add=self._pod_is, on_update=self._pod_was, on_delete=self._pod_gone)
        handle.lister(Node).add_event_handler(
            on_add=lambda _: self._nodes_changed(),
            on_update=self._node_was,
            on_delete=lambda _: self._rules.never.clear(),
        )
        handle.recorder.counter(
            METRIC,
            lambda: {(("result", name),): float(count) for name, count in self._rules.counts.items()},
            description="Deadlocks of pod groups: resolved, units that yielded, leases that ran out, winners excluded",
        )

    def _pod_is(self, pod: Pod) -> None:
        if pod.node_name:
            self._rules.history.bound(pod.uid)

    def _pod_was(self, old: Pod, new: Pod) -> None:
        self._pod_is(new)
        scaled_down = old.node_name and any(
            event.action & ActionType.UPDATE_POD_SCALE_DOWN for event in pod_changes(old, new)
        )
        if scaled_down:
            self._appeared()

    def _pod_gone(self, pod: Pod) -> None:
        self._rules.history.forget(pod.uid)
        if pod.node_name:
            self._appeared()

    def _node_was(self, old: Node, new: Node) -> None:
        if node_changes(old, new) or old.spec.unschedulable != new.spec.unschedulable:
            self._nodes_changed()

    def _nodes_changed(self) -> None:
        self._rules.never.clear()
        self._appeared()

    def _appeared(self) -> None:
        self._retry(self._rules.room_appeared())
        self._poke()

    def _changed(self, change: GroupChange) -> None:
        """Update what depends on groups: which units can win, and since when they wait."""
        state = change.state
        party = self._party(state)
        if party is None:
            return
        key, unit = party.unit(state)
        if change.kind is ChangeKind.FORGOTTEN:
            self._rules.forget(key)
            if self._rules.is_winner(key):
                self._end_lease()
            return
        if change.kind is not ChangeKind.MOVED:
            self._rules.changed(key)
        if key not in self._rules.first_pending and not state.satisfied and party.is_ready(unit):
            self._rules.first_pending[key] = self._complete_since(unit)
        if self._rules.is_winner(key) and not party.is_ready(unit):
            self._end_lease()

    def _complete_since(self, unit: Sequence[GroupState]) -> float:
        """Return since when a unit has enough members: now, unless it had them before this program started."""
        created, now = first_complete(unit, created_at), self._clock.wall()
        return now if now - created < _PRECISE_SECONDS else created

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

    # --- detection

    def _poke(self) -> None:
        """Check for a deadlock soon, and once more after that; without waiting pods there is none."""
        self._rules.expect()
        if self._timer is not None or self._rules.lease is not None or self._resolving:
            return
        if self._waiting is not None and self._waiting.groups():
            self._arm(max(self._clock.now(), self._checked_at + CHECK_SECONDS))

    def _arm(self, when: float) -> None:
        self._timer = self._clock.call_at(when, self._check)

    def _check(self) -> None:
        """Start a resolution if there has been a deadlock for the grace time."""
        self._timer = None
        now = self._checked_at = self._clock.now()
        contenders = self._stuck()
        check = self._rules.check(contenders, now)
        if check.again_at is not None:
            self._arm(check.again_at)
        elif check.resolve:
            self._resolving = True
            contenders[0].party.handle.spawn(self._resolve(contenders), name="deadlock resolution")

    def _stuck(self) -> list[Contender]:
        """Return the contenders of a deadlock, in order of rank; none if there is no deadlock, or not yet."""
        contenders = in_deadlock(self._contenders())
        return [] if contenders and self._is_preempting() else contenders

    def _contenders(self) -> Iterator[Contender]:
        """Yield the units that lack members, those that hold nodes first."""
        now = self._clock.wall()
        seen: set[UnitKey] = set()
        waiting = self._waiting.groups() if self._waiting is not None else ()
        holders = [state for group in waiting if (state := self._directory.get(group)) is not None]  # type: ignore[arg-type]  # the keys are those that were given
        for state in (*holders, *self._directory):
            party = self._party(state)
            if party is None or not party.deadlock.enabled:
                continue
            key, unit = party.unit(state)
            if key in seen:
                continue
            seen.add(key)
            contender = Contender.of(
                key,
                unit,
                party,
                holds=self._holds(unit),
                past=self._rules.history,
                first_pending=self._rules.first_pending.get(key, now),
                now=now,
            )
            if contender is not None:
                yield contender

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

    # --- resolution

    async def _resolve(self, contenders: list[Contender]) -> None:
        try:
            lease = await self._decide(contenders)
        finally:
            self._resolving = False
        if lease is not None:
            # Rejected pods give their nodes back in later turns of the event loop; before that, the winner would fail.
            await self._is_room_free.wait()
            if self._rules.lease is lease:
                lease.winner.party.retry(lease.winner.states)

    async def _decide(self, contenders: list[Contender]) -> Lease | None:
        """Choose the winner and the victims, then apply the plan; None if no unit has to yield, or no plan helps."""
        rules = self._rules
        await self._find_never_fits(contenders)
        planner = Planner(contenders, rules.never)
        for winner in rules.possible_winners(contenders):
            async with winner.party.handle.what_if() as trial:
                plan = await planner.plan_for(trial, winner, as_it_is=rules.is_worth_a_retry(winner))
                if plan is None:
                    continue
                if self._is_up_to_date(plan):
                    return self._apply(plan, contenders)
                self._resolving = False
                self._poke()
                return None
        rules.give_up(contenders)
        return None

    async def _find_never_fits(self, contenders: Sequence[Contender]) -> None:
        never = self._rules.never
        by_profile: dict[str, list[Contender]] = {}
        for each in contenders:
            if not never.is_known(each):
                by_profile.setdefault(each.party.handle.profile_name, []).append(each)
        for few in by_profile.values():
            async with few[0].party.handle.what_if() as trial:
                await never.work_out(trial, few)

    def _is_up_to_date(self, plan: Plan) -> bool:
        """Return True if winner and victims are unchanged since the plan was begun."""
        now = {each.key: each.members for each in self._stuck()}
        return all(now.get(each.key) == each.members for each in (plan.winner, *plan.victims))

    def _apply(self, plan: Plan, contenders: Sequence[Contender]) -> Lease | None:
        """Nominate the winner's members, and have the victims give up their nodes; without victims retry the winner."""
        winner, victims = plan.winner, plan.victims
        lease = self._rules.apply(plan, contenders, self._clock.now())
        if lease is None:
            winner.party.retry(winner.states)
            return None
        self._leaving = {held.pod.uid for each in victims for held in each.holds}
        self._is_room_free.clear()
        self._lease_timer = self._clock.call_at(lease.ends_at, lambda: self._expire(lease))
        for pod, node_name in lease.nodes:
            # Pods of a lower or the same priority do not take these nodes.
            winner.party.handle.nominator.add(PodInfo.of(pod), NominatingInfo(node_name))
        why = f'yields to gang "{winner.name}": resource deadlock among {lease.count} gangs'
        for victim in victims:
            _log.info(
                "Gang yields: resource deadlock gang=%s winner=%s gangs=%d pods=%d",
                victim.name,
                winner.name,
                lease.count,
                len(victim.holds),
            )
            victim.party.yield_places(victim.states, lambda state: f'Gang "{state.id}" {why}')
        return lease

    # --- the lease

    def _expire(self, lease: Lease) -> None:
        if self._rules.lease is lease:
            self._rules.expire(lease)
            _log.info("Gang is not complete although others yielded to it gang=%s", lease.winner.name)
            self._end_lease()

    def _end_lease(self) -> None:
        lease, retried = self._rules.lease, self._rules.end_lease()
        assert lease is not None, "there is a lease to end"
        self._is_room_free.set()
        if self._lease_timer is not None:
            self._lease_timer.cancel()
            self._lease_timer = None
        nominator = lease.winner.party.handle.nominator
        for pod, node_name in lease.nodes:
            if nominator.node_of(pod.uid) == node_name:
                nominator.delete(pod)
        self._retry(retried)
        self._poke()

    def _retry(self, contenders: Iterable[Contender]) -> None:
        for each in contenders:
            each.party.retry(each.party.unit(each.states[0])[1])
