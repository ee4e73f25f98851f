"""Turns of members, round by round, and who wakes whom so that every round comes to its end.

A refused pod sleeps until an event that concerns the plugin which refused it. A new node wakes only the member that
found no room, and alone it cannot close a round. So who opens a round activates the others of the gang group. Rounds
may be shorter than the gang has members, though, and then members would call each other for ever. Hence passes: a pass
begins where an event from outside brought the member that opens a round, and within a pass nobody is called twice. A
member that was called opens rounds of the same pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler_gang import messages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyscheduler.api import Pod
    from pyscheduler.framework import Handle
    from pyscheduler_gang.gangs import Gangs
    from pyscheduler_gang.record import GangRecord

__all__ = ["Rounds"]

#: A call that was not followed for so long has failed: something else brought the pod.
_CALL_SECONDS: Final = 60.0


class Rounds:
    """Gives members their turns, and activates those who sleep."""

    def __init__(self, gangs: Gangs, handle: Handle) -> None:
        self._gangs = gangs
        self._handle = handle
        self._clock = handle.clock

    def take_turn(self, record: GangRecord, pod: Pod) -> str | None:
        """Give a member its turn, whatever comes of it; return why it may not use it."""
        by_event = self._by_event(record, pod.uid)
        profiles = self._gangs.profiles
        if by_event or not record.spent or self._may_go_on(record):
            record.close(profiles)
        opens = not record.visited
        if by_event and opens:
            # Made invalid before anybody came; whoever failed then may do better now.
            record.schedule_cycle_valid = True
        cycle = record.schedule_cycle
        old = record.visit(pod.uid)
        self._gangs.groups.tried(pod.uid, cycle)
        refusal = None
        if not record.schedule_cycle_valid and not self._handle.nominator.node_of(pod.uid):
            refusal = messages.not_valid(record.id, pod)
        elif old >= cycle:
            refusal = messages.too_large(record.id, pod, pod_cycle=old, gang_cycle=cycle)
        elif opens:
            self._open_round(record, pod, by_event=by_event)
        elif by_event:
            self._begin_pass(record)
            self._wake(self._gangs.group(record))
        if refusal is None:
            record.tried.add(pod.uid)
        elif by_event:
            self._ask_again(record, pod)
        self.retry_if_due(record, but=pod.uid)
        return refusal

    def try_freely(self, record: GangRecord, pod: Pod) -> None:
        """Note that a member is tried without having a turn; passes bound how often, as they do with turns."""
        if not self._gangs.tries_freely(record):
            return
        if self._by_event(record, pod.uid):
            self._begin_pass(record)
        record.tried.add(pod.uid)

    def is_over(self, record: GangRecord) -> bool:
        """Tell whether a Strict gang without turns failed in this pass, and those to come are too few."""
        gangs = self._gangs
        is_failed = record.spent and gangs.is_strict(record) and gangs.tries_freely(record)
        return is_failed and not self._may_go_on(record, at_permit=1)

    def missed_turn(self, record: GangRecord, pod: Pod) -> None:
        """Count a turn that another plugin took from a member, before it came here; else the round would never end."""
        self._by_event(record, pod.uid)
        if pod.uid in record.visited or record.state.pending.get(pod.uid) is None:
            return
        if self._gangs.takes_turns(record):
            record.close(self._gangs.profiles)
            record.visit(pod.uid)
            record.tried.add(pod.uid)
            self._gangs.groups.tried(pod.uid, record.schedule_cycle)
        else:
            record.asleep[pod.uid] = None

    def retry_if_due(self, record: GangRecord, *, but: str = "") -> None:
        """Begin another round where one was asked for and this one is complete; `but` has its turn just now."""
        if record.retry_requested and record.is_complete(self._gangs.profiles):
            record.retry_requested = False
            self._begin_pass(record)
            self._call([record], lambda _, uid: uid != but)

    def request_retry(self, record: GangRecord) -> None:
        """Note that something happened that is worth another try of a gang that is not settled."""
        if not self._gangs.takes_turns(record):
            self._begin_pass(record)
            self._call([record], lambda _each, _uid: True)
            return
        record.retry_requested = record.retry_requested or bool(record.visited)
        self._begin_pass(record)
        self._call([record], lambda each, uid: each.rounds.get(uid, 0) < each.schedule_cycle)
        self.retry_if_due(record)

    def preempted(self, record: GangRecord, uid: str) -> None:
        """Go by a member that lost its place to another pod, and comes back by itself after its backoff.

        That is worth another pass, unless the other one is of the gang group: then they would go on for ever.
        """
        node_of = self._handle.nominator.node_of
        if any(node_of(other) for each in self._gangs.group(record) for other in each.state.pending):
            record.called[uid] = self._clock.now()

    def wake_all(self, record: GangRecord) -> None:
        """Activate all pending members of a gang."""
        self._call([record], lambda _each, _uid: True)

    def wake_for_waiter(self, record: GangRecord, *, is_first: bool) -> None:
        """Activate the members of the gang group that a waiting one may meet.

        The first to wait calls everybody; those after it only who failed or was refused since.
        """
        if self._gangs.uses_group_cycle:
            return  # all members were tried with it
        group = self._gangs.group(record)
        if is_first:
            for each in group:
                each.close(self._gangs.profiles)
            self._call(group, self._may_be_called)
            return
        self._wake(group)

    def _ask_again(self, record: GangRecord, pod: Pod) -> None:
        """Note that an event brought a member in vain, and bring those that the round needs to be complete."""
        record.retry_requested = True
        self._call([record], lambda each, uid: uid != pod.uid and each.rounds.get(uid, 0) < each.schedule_cycle)

    def _open_round(self, record: GangRecord, pod: Pod, *, by_event: bool) -> None:
        group = self._gangs.group(record)
        for each in group:
            if each is not record:
                self._prepare(each)
        if by_event:
            self._begin_pass(record)
        self._call(group, self._may_be_called)

    def _prepare(self, partner: GangRecord) -> None:
        """Let a partner take part in a round that another gang of its gang group opens."""
        # One whose round is complete but not closed would look as if it had had its turn.
        partner.close(self._gangs.profiles)
        if partner.schedule_cycle_valid:
            return
        if partner.visited:
            partner.retry_requested = True
        else:
            # Closed early, for another one's sake, and made invalid before anybody came.
            partner.schedule_cycle_valid = True

    def _may_go_on(self, record: GangRecord, *, at_permit: int = 0) -> bool:
        """Tell whether a gang of which a member failed may have another round in the same pass.

        It may where those that had no turn in this pass are enough; or else they would wait for those that had, and
        whom nobody calls again. Of a gang group all would have to be.
        """
        if len(self._gangs.group(record)) > 1:
            return False
        state = record.state
        untried = record.countable(self._gangs.profiles) - len(
            record.tried & (state.pending.keys() | state.waiting.keys())
        )
        return untried + state.assigned_count + at_permit >= state.group.min

    def _wake(self, group: Iterable[GangRecord]) -> None:
        pods = [pod for each in group if each.asleep for pod in self._take_asleep(each)]
        if pods:
            self._handle.activate(pods)

    def _may_be_called(self, record: GangRecord, uid: str) -> bool:
        if not self._gangs.takes_turns(record):
            return uid not in record.tried
        return record.rounds.get(uid, 0) < record.schedule_cycle and uid not in record.tried

    def _begin_pass(self, record: GangRecord) -> None:
        for each in self._gangs.group(record):
            each.tried.clear()
            each.spent = False

    def _call(self, records: Iterable[GangRecord], wanted: Callable[[GangRecord, str], bool]) -> None:
        now = self._clock.now()
        pods: list[Pod] = []
        for record in records:
            for uid, pod in record.state.pending.items():
                if record.is_countable(pod, self._gangs.profiles) and wanted(record, uid):
                    record.called[uid] = now
                    record.asleep.pop(uid, None)
                    pods.append(pod)
        if pods:
            self._handle.activate(pods)

    def _take_asleep(self, record: GangRecord) -> list[Pod]:
        now = self._clock.now()
        pods = []
        for uid in list(record.asleep):
            pod = record.state.pending.get(uid)
            if pod is None:
                del record.asleep[uid]
            elif self._may_be_called(record, uid):
                del record.asleep[uid]
                record.called[uid] = now
                pods.append(pod)
        return pods

    def _by_event(self, record: GangRecord, uid: str) -> bool:
        called = record.called.pop(uid, None)
        return called is None or self._clock.now() - called > _CALL_SECONDS
