"""Rounds of a gang: in a round, the scheduler tries each member once.

One member cannot start alone. So if the queue retries a member, for example after a node was added, the member begins
a round and activates the other members (moves them to activeQ).

A *pass* is the time between two events that may help the gang. In a pass, members that were already tried are not
activated. Otherwise, members would activate each other without end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler_gang import messages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyscheduler.api import Pod
    from pyscheduler.framework import Handle
    from pyscheduler_gang.gangs import Gangs
    from pyscheduler_gang.record import GangRecord

__all__ = ["Rounds"]

#: If an activated member is tried later than this, something else woke it.
_CALL_SECONDS: Final = 60.0


class Rounds:
    """Gives members their turns, and activates sleeping members."""

    def __init__(self, gangs: Gangs, handle: Handle) -> None:
        self._gangs = gangs
        self._handle = handle
        self._clock = handle.clock

    # --- attempts

    def take_turn(self, record: GangRecord, pod: Pod) -> str | None:
        """Count the member's turn; return the message if it must not be tried."""
        by_event = self._was_woken_by_event(record, pod.uid)
        profiles = self._gangs.profiles
        if by_event or not record.spent or self._may_go_on(record):
            record.close(profiles)
        opens = not record.visited
        if by_event and opens:
            # The round became invalid before its first turn; the member that failed may fit now.
            record.schedule_cycle_valid = True
        cycle = record.schedule_cycle
        old = record.visit(pod.uid)
        self._gangs.groups.tried(pod.uid, cycle)
        refusal = None
        # While victims end, others may wait at Permit. Then the round stays open, and this member needs another turn.
        is_promised = bool(self._handle.nominator.node_of(pod.uid))
        if not record.schedule_cycle_valid and not is_promised:
            refusal = messages.about(messages.NOT_VALID, record.id, pod)
        elif old >= cycle and not is_promised:
            refusal = messages.too_large(record.id, pod, pod_cycle=old, gang_cycle=cycle)
        elif opens:
            self._open_round(record, by_event=by_event)
        elif by_event:
            self._begin_pass(record)
            self._wake(self._gangs.group(record))
        if refusal is None:
            record.tried.add(pod.uid)
        elif by_event:
            # Activate the members that complete this round, so that another round can follow.
            record.retry_requested = True
            self._activate([record], lambda each, uid: uid != pod.uid and each.has_turn(uid))
        self.retry_if_due(record, but=pod.uid)
        return refusal

    def try_freely(self, record: GangRecord, pod: Pod) -> None:
        """Count an attempt of a member without turns; passes limit the number of attempts, as they do with turns."""
        if not self._gangs.tries_freely(record):
            return
        if self._was_woken_by_event(record, pod.uid):
            self._begin_pass(record)
        record.tried.add(pod.uid)

    def is_over(self, record: GangRecord) -> bool:
        """Return True if a Strict gang without turns failed in this pass, and too few members are left to try."""
        gangs = self._gangs
        is_failed = record.spent and gangs.is_strict(record) and gangs.tries_freely(record)
        return is_failed and not self._may_go_on(record, at_permit=1)

    def missed_turn(self, record: GangRecord, pod: Pod) -> None:
        """Count the turn of a member that another plugin rejected before; otherwise the round would never end."""
        self._was_woken_by_event(record, pod.uid)
        if pod.uid in record.visited or record.state.pending.get(pod.uid) is None:
            return
        if self._gangs.takes_turns(record):
            record.close(self._gangs.profiles)
            record.visit(pod.uid)
            record.tried.add(pod.uid)
            self._gangs.groups.tried(pod.uid, record.schedule_cycle)
        else:
            record.asleep[pod.uid] = None

    # --- retries

    def retry_if_due(self, record: GangRecord, *, but: str = "") -> None:
        """Begin another round if one was requested and this one is complete; `but` has its turn now."""
        if record.retry_requested and record.is_complete(self._gangs.profiles):
            record.retry_requested = False
            self._begin_pass(record)
            self._activate([record], lambda _, uid: uid != but)

    def request_retry(self, record: GangRecord) -> None:
        """Retry a gang, because a change may help it; a round that has begun is completed first."""
        if not self._gangs.takes_turns(record):
            self._begin_pass(record)
            self.wake_all(record)
            return
        record.retry_requested = record.retry_requested or bool(record.visited)
        self._begin_pass(record)
        self._activate([record], lambda each, uid: each.has_turn(uid))
        self.retry_if_due(record)

    def preempted(self, record: GangRecord, uid: str) -> None:
        """Handle a member that was preempted, and is retried by itself after its backoff.

        That begins a new pass, unless the preemptor is of the gang group: members would preempt each other for ever.
        """
        node_of = self._handle.nominator.node_of
        if any(node_of(other) for each in self._gangs.group(record) for other in each.state.pending):
            record.called[uid] = self._clock.now()

    def wake_all(self, record: GangRecord) -> None:
        """Activate all pending members of a gang."""
        self._activate([record], lambda _each, _uid: True)

    def wake_for_waiter(self, record: GangRecord, *, is_first: bool) -> None:
        """Activate members of the gang group after one began to wait at Permit.

        The first to wait activates all; later ones activate those that failed or were refused since.
        """
        if self._gangs.uses_group_cycle:
            return  # all members were tried with it
        group = self._gangs.group(record)
        if is_first:
            for each in group:
                each.close(self._gangs.profiles)
            self._activate(group, self._may_be_activated)
        else:
            self._wake(group)

    def _open_round(self, record: GangRecord, *, by_event: bool) -> None:
        group = self._gangs.group(record)
        for each in group:
            if each is not record:
                self._prepare(each)
        if by_event:
            self._begin_pass(record)
        self._activate(group, self._may_be_activated)

    def _prepare(self, partner: GangRecord) -> None:
        """Let a partner take part in a round that another gang of its gang group opens."""
        # In a complete round that is not closed, its members would seem to have had their turns.
        partner.close(self._gangs.profiles)
        if partner.schedule_cycle_valid:
            return
        if partner.visited:
            partner.retry_requested = True
        else:
            # The round became invalid before its first turn.
            partner.schedule_cycle_valid = True

    def _may_go_on(self, record: GangRecord, *, at_permit: int = 0) -> bool:
        """Return True if a gang of which a member failed may have another round in the same pass.

        The members that were not tried in this pass must be enough: those that were tried are not activated again.
        A gang group of several gangs may not go on.
        """
        if len(self._gangs.group(record)) > 1:
            return False
        state = record.state
        tried = len(record.tried & (state.pending.keys() | state.waiting.keys()))
        untried = record.countable(self._gangs.profiles) - tried
        return untried + state.assigned_count + at_permit >= state.group.min

    def _begin_pass(self, record: GangRecord) -> None:
        for each in self._gangs.group(record):
            each.tried.clear()
            each.spent = False

    # --- activation

    def _may_be_activated(self, record: GangRecord, uid: str) -> bool:
        return uid not in record.tried and (not self._gangs.takes_turns(record) or record.has_turn(uid))

    def _activate(self, records: Iterable[GangRecord], wanted: Callable[[GangRecord, str], bool]) -> None:
        """Activate the wanted pending members that can have a turn."""
        profiles = self._gangs.profiles
        self._call(
            (record, pod)
            for record in records
            for uid, pod in record.state.pending.items()
            if record.is_countable(pod, profiles) and wanted(record, uid)
        )

    def _wake(self, group: Iterable[GangRecord]) -> None:
        """Activate the sleeping members that may be activated in this pass; for large gangs faster than `_activate`."""
        self._call((each, pod) for each in group for pod in self._sleepers(each))

    def _sleepers(self, record: GangRecord) -> Iterator[Pod]:
        """Yield the sleeping members that may be activated; forget those that are not pending any more."""
        for uid in list(record.asleep):
            pod = record.state.pending.get(uid)
            if pod is None:
                del record.asleep[uid]
            elif self._may_be_activated(record, uid):
                yield pod

    def _call(self, members: Iterable[tuple[GangRecord, Pod]]) -> None:
        now = self._clock.now()
        pods: list[Pod] = []
        for record, pod in members:
            record.called[pod.uid] = now
            record.asleep.pop(pod.uid, None)
            pods.append(pod)
        if pods:
            self._handle.activate(pods)

    def _was_woken_by_event(self, record: GangRecord, uid: str) -> bool:
        """Return True if an event woke the member, and not another member."""
        called = record.called.pop(uid, None)
        return called is None or self._clock.now() - called > _CALL_SECONDS
