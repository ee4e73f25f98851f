"""Who waits at Permit, and how that ends: all of a gang group together, as far as its mode and policy have it so.

The causes are kept apart. A wait that ended because the gang's time was over is not the same as one that a failing
member, a deletion or another plugin ended, and only this module knows which of its rejections was which: members that
it rejected are in `given_up` until their Unreserve has run, which then has nothing left to do.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from pyscheduler.podgroup import MatchPolicy, MemberPlace
from pyscheduler_gang import messages

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyscheduler.api import Pod
    from pyscheduler.framework import Handle, WaitingPod
    from pyscheduler_gang.gangs import Gangs
    from pyscheduler_gang.record import GangRecord
    from pyscheduler_gang.rounds import Rounds
    from pyscheduler_gang.timeouts import TimeoutMarks

__all__ = ["Verdicts"]

_log = logging.getLogger(__name__)

#: The framework's own timer is set so much later, so that the gang's deadline comes first and ends all waits at once.
_SLACK_SECONDS: Final = 1.0


class Verdicts:
    """Allows, rejects, and minds the deadlines."""

    def __init__(self, gangs: Gangs, rounds: Rounds, marks: TimeoutMarks, handle: Handle) -> None:
        self._gangs = gangs
        self._rounds = rounds
        self._marks = marks
        self._handle = handle
        self._clock = handle.clock
        self._waiting = handle.index_waiting_pods(gangs.key)
        self._given_up: set[str] = set()

    # --- Permit

    def admit(self, record: GangRecord, pod: Pod) -> bool:
        """Take a member that has found a node: allow everybody if that makes the quorum, and tell whether it did."""
        is_first = not any(each.state.waiting for each in self._gangs.group(record))
        self._gangs.directory.hold(pod.uid)
        record.asleep.pop(pod.uid, None)
        if self.allow_if_complete(record):
            self._gangs.passed.add(pod.uid)
            return True
        if record.deadline is None:
            record.deadline = self._clock.now() + self._gangs.wait_seconds(record)
            record.timer = self._clock.call_at(record.deadline, partial(self._time_is_over, record))
        self._rounds.wake_for_waiter(record, is_first=is_first)
        return False

    def remaining_seconds(self, record: GangRecord) -> float:
        """Return how long the framework is to let a member of a waiting gang wait."""
        deadline = record.deadline if record.deadline is not None else self._clock.now()
        return max(deadline - self._clock.now(), 0.0) + _SLACK_SECONDS

    def allow_if_complete(self, record: GangRecord) -> bool:
        """Allow all waiting members of the gang group if every gang of it has its quorum; tell whether it has."""
        gangs = self._gangs
        if not gangs.has_quorum(record):
            return False
        group = gangs.group(record)
        if not gangs.is_settled(record):
            self._drop_lost(record)
            if not gangs.has_quorum(record):
                return False
        gangs.directory.satisfy(record.id)
        gangs.groups.deadlocks.completed(record.state)
        for each in group:
            if each.deadline is None:
                continue
            each.clear_deadline()
            for held in self._waiting.of(each.id):
                held.allow(gangs.plugin)
        self._note_satisfied(record)
        return True

    def _drop_lost(self, record: GangRecord) -> None:
        """Do not count members whose wait has ended badly, though their Unreserve has not run yet."""
        for gang, _ in self._gangs.directory.partners(record.state):
            for held in self._waiting.of(gang):
                verdict = held.verdict
                if verdict is not None and verdict.cause != "allowed":
                    self._gangs.directory.release(held.pod.uid)

    def _note_satisfied(self, record: GangRecord) -> None:
        """Once a gang is settled, its pending members are plain pods, and none may sleep because of the gang."""
        for each in self._gangs.group(record):
            if each.was_satisfied or not each.state.satisfied:
                continue
            each.was_satisfied = True
            if self._gangs.is_settled(each):
                self._rounds.wake_all(each)
        for each in self._gangs.listing(record.id):
            if each.state.gang_group is not record.state.gang_group and each.deadline is not None:
                self.allow_if_complete(each)

    # --- rolling back

    def roll_back(self, record: GangRecord, reason: Callable[[GangRecord, Pod], str]) -> None:
        """Reject all waiting members of the gang group; those that were allowed are on their way, and stay so."""
        for each in self._gangs.group(record):
            for held in self._waiting.of(each.id):
                if held.verdict is None:
                    self._refuse(each, held, reason(each, held.pod))

    def give_way(self, record: GangRecord, reason: str) -> None:
        """Reject the waiting members of one gang, so that another one can be complete; it waits anew afterwards."""
        for held in self._waiting.of(record.id):
            self._reject(record, held.pod, reason)
        record.clear_deadline()

    def _reject(self, record: GangRecord, pod: Pod, reason: str) -> bool:
        held = self._handle.get_waiting_pod(pod.uid)
        return held is not None and self._refuse(record, held, reason)

    def _refuse(self, record: GangRecord, held: WaitingPod, reason: str) -> bool:
        if not held.reject(self._gangs.plugin, reason):
            return False
        uid = held.pod.uid
        self._given_up.add(uid)
        self._gave_back(record, uid)
        return True

    def _gave_back(self, record: GangRecord, uid: str) -> None:
        self._gangs.directory.release(uid)
        if uid in record.state.pending and uid not in record.visited and uid not in record.timed_out:
            record.asleep[uid] = None

    def member_failed(self, record: GangRecord, pod: Pod, reason: str) -> None:
        """Let a Strict gang group give up its places because one member fits nowhere; its rounds are not valid."""
        self._fail_round(record)
        self.roll_back(record, lambda each, _: messages.rejected_by_member(each.id, pod, reason))

    def _fail_round(self, record: GangRecord) -> None:
        for each in self._gangs.group(record):
            each.schedule_cycle_valid = False
            each.spent = True

    def _lose_place(self, record: GangRecord, pod: Pod) -> None:
        """Let a Strict gang group give up its places because one member gave up its own.

        Who had no turn yet in this round would wait for those who had theirs, so it is not valid any more.
        """
        self._fail_round(record)
        self.roll_back(record, partial(_after, pod))

    def member_left(self, record: GangRecord, pod: Pod) -> None:
        """Reject a waiting pod that names another gang now; what it left goes by the loss of a member."""
        if not self._reject(record, pod, messages.moved(record.id, pod)):
            return
        if self._gangs.is_strict(record):
            self._lose_place(record, pod)

    def node_is_gone(self, node_name: str) -> None:
        """Reject the members that wait for a node that was removed; a Strict gang group gives up all its places."""
        for held in self._handle.waiting_pods():
            if held.node_name != node_name:
                continue
            pod = held.pod
            record = self._gangs.of(pod)
            if record is None or not self._reject(record, pod, f'node "{node_name}" was removed'):
                continue
            if self._gangs.is_strict(record) and not self._gangs.is_settled(record):
                self._lose_place(record, pod)
            self._rounds.request_retry(record)

    def unreserve(self, record: GangRecord, pod: Pod) -> None:
        """Take back a member that gave up its place, and go by the cause."""
        uid, gangs = pod.uid, self._gangs
        had_passed = uid in gangs.passed
        gangs.passed.discard(uid)
        if uid in self._given_up:
            self._given_up.discard(uid)
            gangs.directory.release(uid)
            return
        self._gave_back(record, uid)
        verdict = self._handle.wait_verdict(uid)
        cause = "" if verdict is None else verdict.cause
        if cause == "stopped":
            return
        if verdict is not None and cause == "timeout" and verdict.plugin == gangs.plugin:
            # The scheduler allows for shorter waits than the gang asked for.
            self._give_up(record, pod)
            return
        if had_passed or cause == "allowed":
            # Its binding failed, and it is retried. Others are concerned where bound ones do not count for good.
            concerns = gangs.policy(record) is not MatchPolicy.ONCE_SATISFIED
        else:
            concerns = not gangs.is_settled(record)
        if concerns and gangs.is_strict(record):
            self._lose_place(record, pod)
            if cause == "deleted":
                self._rounds.request_retry(record)
            elif cause == "preempted":
                self._rounds.preempted(record, uid)

    # --- the deadline

    def _time_is_over(self, record: GangRecord) -> None:
        """End the wait of a whole gang group: the earliest deadline counts for all of it."""
        record.clear_deadline()
        if self._gangs.is_settled(record):
            return
        if self.allow_if_complete(record):
            return
        undecided = [held for held in self._waiting.of(record.id) if held.verdict is None]
        if not undecided:
            return
        first = undecided[0].pod
        self._reject(record, first, messages.waited_too_long(self._gangs.wait_seconds(record), self._gangs.plugin))
        self._give_up(record, first)

    def _give_up(self, record: GangRecord, first: Pod) -> None:
        """Roll back, and never schedule these members again: pods that are new start anew."""
        self.roll_back(record, lambda each, _: messages.rejected_in_unreserve(each.id, first))
        for each in self._gangs.group(record):
            each.clear_deadline()
            # Whoever waits still was allowed, and is about to be bound.
            self._marks.put(each, each.state.pending.values())
            _log.info("Gang has timed out gang=%s pods=%d", each.id, len(each.timed_out))

    # --- what changed around it

    def reconsider(self, record: GangRecord) -> None:
        """Go by what a gang is now: it may be complete, or may never become so with the members there are."""
        gangs = self._gangs
        if record.state.satisfied and not record.was_satisfied:
            self._note_satisfied(record)
        held = next((held for each in gangs.group(record) for held in self._waiting.of(each.id)), None)
        if held is None:
            return
        if not record.state.group.is_declared:
            self.roll_back(record, lambda _, pod: messages.not_init(record.id, pod))
        elif not gangs.is_settled(record) and gangs.not_ready(record, held.pod) is not None:
            self.roll_back(
                record, lambda each, pod: gangs.not_ready(each, pod) or messages.not_collected(record.id, pod)
            )
        else:
            self.allow_if_complete(record)

    def waiting_in(self, record: GangRecord) -> list[Pod]:
        """Return the pods that wait for a gang."""
        return [held.pod for held in self._waiting.of(record.id)]

    def forget(self, uid: str) -> None:
        """Drop what is kept of a pod whose gang is gone."""
        self._gangs.passed.discard(uid)
        self._given_up.discard(uid)

    def check_invariants(self) -> None:
        """Raise AssertionError where somebody waits whose gang knows nothing of it."""
        for record in self._gangs:
            undecided = [held for held in self._waiting.of(record.id) if held.verdict is None]
            if undecided:
                assert record.deadline is not None, f"members of {record.id} wait, and it has no deadline"
            for held in undecided:
                place = self._gangs.directory.place_of(held.pod.uid)
                assert place is MemberPlace.WAITING, f"{held} waits and counts as {place}"


def _after(pod: Pod, record: GangRecord, _sibling: Pod) -> str:
    return messages.rejected_in_unreserve(record.id, pod)
