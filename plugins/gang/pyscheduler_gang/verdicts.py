"""Allow or reject the gang members that wait at Permit.

Gangs that start together form a gang group: their members are allowed or rejected together.
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

#: The framework's timer is set so much later, so that the gang's deadline ends all waits at the same time.
_SLACK_SECONDS: Final = 1.0


class Verdicts:
    """Allows and rejects waiting members, and keeps the deadlines."""

    def __init__(self, gangs: Gangs, rounds: Rounds, marks: TimeoutMarks, handle: Handle) -> None:
        self._gangs = gangs
        self._rounds = rounds
        self._marks = marks
        self._handle = handle
        self._clock = handle.clock
        self._waiting = handle.index_waiting_pods(gangs.key)
        self._rejected: set[str] = set()

    # --- Permit

    def admit(self, record: GangRecord, pod: Pod) -> bool:
        """Count a member that found a node; if that makes the quorum, allow all members and return True."""
        is_first = not any(each.state.waiting for each in self._gangs.group(record))
        self._gangs.directory.hold(pod.uid)
        record.asleep.pop(pod.uid, None)
        if self.allow_if_complete(record):
            self._gangs.passed.add(pod.uid)
            return True
        if record.deadline is None:
            record.deadline = self._clock.now() + self._gangs.wait_seconds(record)
            record.timer = self._clock.call_at(record.deadline, partial(self._expire, record))
        self._rounds.wake_for_waiter(record, is_first=is_first)
        return False

    def remaining_seconds(self, record: GangRecord) -> float:
        """Return the timeout for a waiting member, in seconds."""
        deadline = record.deadline if record.deadline is not None else self._clock.now()
        return max(deadline - self._clock.now(), 0.0) + _SLACK_SECONDS

    def allow_if_complete(self, record: GangRecord) -> bool:
        """Allow all waiting members of the gang group and return True, if every gang of it has its quorum."""
        gangs = self._gangs
        if not gangs.has_quorum(record):
            return False
        group = gangs.group(record)
        if not gangs.is_satisfied_for_good(record):
            self._drop_lost(record)
            if not gangs.has_quorum(record):
                return False
        gangs.directory.satisfy(record.id)
        gangs.deadlocks.completed(record.state)
        for each in group:
            if each.deadline is None:
                continue
            each.clear_deadline()
            for held in self._waiting.of(each.id):
                held.allow(gangs.plugin)
        self._wake_satisfied(record)
        return True

    def _drop_lost(self, record: GangRecord) -> None:
        """Do not count rejected members whose Unreserve has not run yet."""
        for gang, _ in self._gangs.directory.partners(record.state):
            for held in self._waiting.of(gang):
                verdict = held.verdict
                if verdict is not None and verdict.cause != "allowed":
                    self._gangs.directory.release(held.pod.uid)

    def _wake_satisfied(self, record: GangRecord) -> None:
        """Wake the pending members of gangs that are satisfied now: they are plain pods."""
        for each in self._gangs.group(record):
            if each.was_satisfied or not each.state.satisfied:
                continue
            each.was_satisfied = True
            if self._gangs.is_satisfied_for_good(each):
                self._rounds.wake_all(each)
        for each in self._gangs.listing(record.id):
            if each.state.gang_group is not record.state.gang_group and each.deadline is not None:
                self.allow_if_complete(each)

    # --- rolling back

    def roll_back(self, record: GangRecord, reason: Callable[[GangRecord, Pod], str]) -> None:
        """Reject all waiting members of the gang group, except those that were allowed already."""
        for each in self._gangs.group(record):
            for held in self._waiting.of(each.id):
                if held.verdict is None:
                    self._refuse(each, held, reason(each, held.pod))

    def give_way(self, record: GangRecord, reason: str) -> None:
        """Reject the waiting members of one gang, so that another gang can be complete; its next wait starts at 0."""
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
        self._rejected.add(uid)
        self._gave_back(record, uid)
        return True

    def _gave_back(self, record: GangRecord, uid: str) -> None:
        self._gangs.directory.release(uid)
        if uid in record.state.pending and uid not in record.visited and uid not in record.timed_out:
            record.asleep[uid] = None

    def member_failed(self, record: GangRecord, pod: Pod, reason: str) -> None:
        """Roll back a Strict gang group because one member does not fit; its rounds become invalid."""
        self._fail_round(record)
        self.roll_back(record, lambda each, _: messages.rejected_by_member(each.id, pod, reason))

    def _fail_round(self, record: GangRecord) -> None:
        for each in self._gangs.group(record):
            each.schedule_cycle_valid = False
            each.spent = True

    def _roll_back_after(self, record: GangRecord, pod: Pod) -> None:
        """Roll back a Strict gang group because one member lost its node.

        The round becomes invalid: members without a turn would wait for members that had theirs.
        """
        self._fail_round(record)
        self.roll_back(record, lambda each, _: messages.rejected_in_unreserve(each.id, pod))

    def member_left(self, record: GangRecord, pod: Pod) -> None:
        """Reject a waiting pod that names another gang now; a Strict gang group that it left is rolled back."""
        if not self._reject(record, pod, messages.about(messages.MOVED, record.id, pod)):
            return
        if self._gangs.is_strict(record):
            self._roll_back_after(record, pod)

    def node_is_gone(self, node_name: str) -> None:
        """Reject the members that hold a removed node; roll back Strict gang groups, and retry."""
        for held in self._handle.waiting_pods():
            if held.node_name != node_name:
                continue
            pod = held.pod
            record = self._gangs.of(pod)
            if record is None or not self._reject(record, pod, f'node "{node_name}" was removed'):
                continue
            if self._gangs.is_strict(record) and not self._gangs.is_satisfied_for_good(record):
                self._roll_back_after(record, pod)
            self._rounds.request_retry(record)

    def unreserve(self, record: GangRecord, pod: Pod) -> None:
        """Count a member as pending again, and handle the cause of its rejection."""
        uid, gangs = pod.uid, self._gangs
        had_passed = uid in gangs.passed
        gangs.passed.discard(uid)
        if uid in self._rejected:
            self._rejected.discard(uid)
            gangs.directory.release(uid)
            return
        self._gave_back(record, uid)
        verdict = self._handle.wait_verdict(uid)
        cause = "" if verdict is None else verdict.cause
        if cause == "stopped":
            return
        if verdict is not None and cause == "timeout" and verdict.plugin == gangs.plugin:
            # The scheduler's limit on waits is shorter than the gang's wait.
            self._time_out(record, pod)
            return
        if had_passed or cause == "allowed":
            # Its binding failed, and it is retried. That affects other members unless bound ones count for good.
            affects_others = gangs.policy(record) is not MatchPolicy.ONCE_SATISFIED
        else:
            affects_others = not gangs.is_satisfied_for_good(record)
        if affects_others and gangs.is_strict(record):
            self._roll_back_after(record, pod)
            if cause == "deleted":
                self._rounds.request_retry(record)
            elif cause == "preempted":
                self._rounds.preempted(record, uid)

    # --- the deadline

    def _expire(self, record: GangRecord) -> None:
        """Time out a whole gang group: its earliest deadline counts."""
        record.clear_deadline()
        if self._gangs.is_satisfied_for_good(record):
            return
        if self.allow_if_complete(record):
            return
        undecided = [held for held in self._waiting.of(record.id) if held.verdict is None]
        if not undecided:
            return
        first = undecided[0].pod
        self._reject(record, first, messages.waited_too_long(self._gangs.wait_seconds(record), self._gangs.plugin))
        self._time_out(record, first)

    def _time_out(self, record: GangRecord, first: Pod) -> None:
        """Roll back, and mark the members as timed out: they are not scheduled any more."""
        self.roll_back(record, lambda each, _: messages.rejected_in_unreserve(each.id, first))
        for each in self._gangs.group(record):
            each.clear_deadline()
            # Members that still wait were allowed, and are about to be bound.
            self._marks.put(each, each.state.pending.values())
            _log.info("Gang has timed out gang=%s pods=%d", each.id, len(each.timed_out))

    # --- changes of gangs

    def reconsider(self, record: GangRecord) -> None:
        """Check a gang after a change: it may have its quorum, or not be able to reach it any more."""
        gangs = self._gangs
        if record.state.satisfied and not record.was_satisfied:
            self._wake_satisfied(record)
        held = next((held for each in gangs.group(record) for held in self._waiting.of(each.id)), None)
        if held is None:
            return
        if not record.state.group.is_declared:
            self.roll_back(record, lambda _, pod: messages.about(messages.NOT_INIT, record.id, pod))
        elif not gangs.is_satisfied_for_good(record) and gangs.not_ready(record, held.pod) is not None:
            self.roll_back(
                record,
                lambda each, pod: gangs.not_ready(each, pod) or messages.about(messages.NOT_COLLECTED, record.id, pod),
            )
        else:
            self.allow_if_complete(record)

    def waiting_in(self, record: GangRecord) -> list[Pod]:
        """Return the waiting members of a gang."""
        return [held.pod for held in self._waiting.of(record.id)]

    def forget(self, uid: str) -> None:
        """Forget a pod whose gang is gone."""
        self._gangs.passed.discard(uid)
        self._rejected.discard(uid)

    def check_invariants(self) -> None:
        """Raise AssertionError if a pod waits without a deadline of its gang, or does not count as waiting."""
        for record in self._gangs:
            undecided = [held for held in self._waiting.of(record.id) if held.verdict is None]
            if undecided:
                assert record.deadline is not None, f"members of {record.id} wait without a deadline"
            for held in undecided:
                place = self._gangs.directory.place_of(held.pod.uid)
                assert place is MemberPlace.WAITING, f"{held} waits and counts as {place}"
