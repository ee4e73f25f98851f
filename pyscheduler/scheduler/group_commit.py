"""Carry out the decision about a group of pods: reserve nodes, evict victims, or return the members to the queue.

If too few members get nodes, no member keeps its node.

Differs from kube-scheduler: if a node has changed since the decision, the filters run again.
Source: kube-scheduler 1.36, `submitPodGroupAlgorithmResult`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from pyscheduler.framework.diagnosis import FitError
from pyscheduler.framework.errors import PLUGIN_FAILURES
from pyscheduler.framework.group_cycle import GroupOutcome, GroupVerdict, PodGroupUnschedulableError
from pyscheduler.framework.interfaces import NominatingInfo
from pyscheduler.framework.plugin_failures import GROUP_CYCLE
from pyscheduler.framework.status import Code, Status
from pyscheduler.podgroup import asks, places_needed
from pyscheduler.runtime.cooperative_yield import CooperativeYield
from pyscheduler.runtime.placement import fits_on
from pyscheduler.scheduler.failure import CLEAR_NOMINATION, pending_version

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.framework.plugin_failures import PluginFailures
    from pyscheduler.framework.preemption import Candidate
    from pyscheduler.runtime.permit.waiting_pods import WaitingPodMap
    from pyscheduler.runtime.profile import Profile
    from pyscheduler.scheduler.attempt import Attempt
    from pyscheduler.scheduler.in_tree_groups import GroupSource
    from pyscheduler.scheduler.scheduling_cycle import SchedulingCycle

__all__ = ["Decision", "GroupCommit", "Member"]


#: The maximum number of kinds of members that listen for room.
_KINDS = 8
_CHANGED = "pod or node changed while the pod group was being scheduled"
_TAKEN_BACK = "pod group lost members while it was being scheduled"


@attrs.define(kw_only=True, eq=False)
class Member:
    """One pod of a group cycle, and its outcome."""

    attempt: Attempt
    #: The group it belongs to; several may be scheduled together.
    group: Hashable
    #: Why it found no node; None where it found one.
    status: Status | None = None
    nominating: NominatingInfo | None = CLEAR_NOMINATION
    #: Whether it was placed in the trial: on a feasible node, or where victims can make room.
    is_placed: bool = False
    #: What Permit said then: None or WAIT.
    permit: Status | None = None
    #: The plugin that would make room for it, and the victims.
    preemptor: str = ""
    candidate: Candidate | None = None
    #: Why it was not tried, or gave its node back: the part of its group that is short; "" for neither.
    set_back: str = ""

    @property
    def uid(self) -> str:
        """Return the UID of the pod."""
        return self.attempt.queued.pod.uid

    def take_back(self) -> None:
        """Note that it has no node any more in the trial."""
        self.is_placed = False
        self.permit = None
        self.preemptor, self.candidate = "", None
        self.nominating = CLEAR_NOMINATION


@attrs.define(kw_only=True, eq=False)
class Decision:
    """A group cycle and its outcome; at first, that the group cannot be placed."""

    source: GroupSource
    profile: Profile
    #: In the order in which they are tried.
    members: Sequence[Member]
    #: Clock seconds.
    began: float
    status: Status | None = attrs.Factory(lambda: Status(Code.UNSCHEDULABLE, error=PodGroupUnschedulableError()))
    verdict: GroupVerdict = attrs.Factory(
        lambda: GroupVerdict(GroupOutcome.UNSCHEDULABLE, str(PodGroupUnschedulableError()))
    )
    #: The nodes that the members may use; None: all nodes.
    nodes: Nodes | None = None
    #: Whether PostFilter runs for members that no node takes.
    may_preempt: bool = True
    #: Whether a member so far needs room that has to be made.
    needs_preemption: bool = False
    #: UIDs of members that did not fit in an earlier order.
    hard: frozenset[str] = frozenset()
    #: The nodes of members, by UID, when the group last fitted without victims of its own preemption.
    plan: dict[str, str] = attrs.Factory(dict)
    #: The generation of each node that a member was placed on, as of the trial.
    generations: dict[str, int] = attrs.Factory(dict)

    @property
    def has_enough(self) -> bool:
        """Return True if enough members have nodes, or will have them once victims are gone."""
        return self.verdict.outcome in {GroupOutcome.SCHEDULED, GroupOutcome.WAITING_ON_PREEMPTION}

    def missing(self) -> int:
        """Return how many members must find a node; for members of one group."""
        if self.source.name not in self.profile.plugins:
            return 1
        return self.source.places_missing(self.members[0].group)

    def rejectors(self) -> set[str]:
        """Return the plugins whose events wake the group; none if it waits for its backoff only."""
        if self.source.retries_after_backoff:
            return set()
        errors = [member.status.error for member in self.members if member.status is not None]
        found = {name for each in errors if isinstance(each, FitError) for name in each.diagnosis.unschedulable_plugins}
        # If no member lacked room, no event is known to help.
        return found | {self.source.name} if found else found


@attrs.define(kw_only=True)
class GroupCommit:
    """Acts on decisions."""

    scheduling: SchedulingCycle
    waiting_pods: WaitingPodMap

    async def submit(self, decision: Decision) -> Sequence[Attempt]:
        """Settle all members; return the attempts to bind."""
        match decision.verdict.outcome:
            case GroupOutcome.SCHEDULED:
                return await self._bind_all(decision)
            case GroupOutcome.ERROR:
                await self._fail_all(decision)
            case GroupOutcome.WAITING_ON_PREEMPTION:
                await self._preempt_all(decision)
            case GroupOutcome.UNSCHEDULABLE:
                await self._reject_all(decision)
        return ()

    def fail_rest(self, decision: Decision, status: Status) -> None:
        """Fail the members that are not settled, and give back what they hold."""
        for member in decision.members:
            if not member.attempt.is_settled:
                self.waiting_pods.stop(member.attempt.pod.uid)
                self.scheduling.undo(member.attempt)
                self.scheduling.failure.handle(member.attempt, status, CLEAR_NOMINATION)

    # Back into the queue

    async def _fail_all(self, decision: Decision) -> None:
        status, turns = decision.status, CooperativeYield(self.scheduling.clock)
        assert status is not None, "an error has a status"
        for member in decision.members:
            own = member.status
            self.scheduling.failure.handle(
                member.attempt, own if own is not None and own.is_error else status, CLEAR_NOMINATION
            )
            await turns.yield_if_due()

    async def _preempt_all(self, decision: Decision) -> None:
        """Evict the victims; the group is retried once they are gone."""
        status = decision.status
        assert status is not None, "a group that waits for a preemption has a status"
        for member in decision.members:
            attempt = member.attempt
            if member.set_back:
                self._reject(member, decision.rejectors(), decision.source)
                continue
            planned = decision.plan.get(member.uid)
            if planned is not None:
                member.nominating = NominatingInfo(planned)
            if member.status is None:
                nominating = member.nominating if planned is not None else NominatingInfo(attempt.node_name)
                self.scheduling.failure.handle(attempt, status, nominating)
                continue
            failure = None
            if member.candidate is not None:
                preemption = attempt.profile.preemptors[member.preemptor]
                failure = await preemption.evict(member.candidate, attempt.queued.pod)
            if failure is None:
                self.scheduling.failure.handle(attempt, member.status, member.nominating)
            else:
                self.scheduling.failure.handle(attempt, failure, CLEAR_NOMINATION)

    async def _reject_all(self, decision: Decision) -> None:
        rejectors, turns = decision.rejectors(), CooperativeYield(self.scheduling.clock)
        _listen(decision, self.scheduling.plugin_failures)
        for member in decision.members:
            self._reject(member, rejectors, decision.source, decision.status)
            await turns.yield_if_due()

    def _reject(self, member: Member, rejectors: set[str], source: GroupSource, status: Status | None = None) -> None:
        """Put one member back into the queue: it waits for the others if it had a node, else for room.

        `status` is that of its group, for a member that was not tried.
        """
        if member.set_back:
            # If no member lacked room, its part has too few members.
            waits_for = rejectors or (set() if source.retries_after_backoff else {source.name})
            status = _unschedulable(member.set_back, waits_for)
            self.scheduling.failure.handle(member.attempt, status, CLEAR_NOMINATION)
        elif member.is_placed:
            message = member.permit.message if member.permit is not None else ""
            waits = _unschedulable(message, rejectors)
            self.scheduling.failure.handle(member.attempt, waits, CLEAR_NOMINATION)
        elif member.status is not None:
            self.scheduling.failure.handle(member.attempt, member.status, member.nominating)
        else:
            assert status is not None, "members that were not tried share the status of their group"
            self.scheduling.failure.handle(member.attempt, status, CLEAR_NOMINATION)

    # Scheduling for real

    async def _bind_all(self, decision: Decision) -> Sequence[Attempt]:
        """Reserve the members that have a node; take all of them back if Permit holds them because too few are left.

        No binding cycle starts before all are reserved.
        """
        reserved: list[Member] = []
        turns = CooperativeYield(self.scheduling.clock)
        try:
            for member in decision.members:
                if member.is_placed and member.status is None:
                    member.status = self._reserve(member, decision)
                    if member.status is None:
                        reserved.append(member)
                    else:
                        member.is_placed = False
                await turns.yield_if_due()
        except BaseException:
            for member in reserved:
                self.waiting_pods.stop(member.attempt.pod.uid)
                self.scheduling.undo(member.attempt)
            raise
        held = [member for member in reserved if self._is_held(member, decision)]
        if len(held) == len(reserved):
            self._take_back(held, decision)
            decision.status = Status(Code.UNSCHEDULABLE, error=PodGroupUnschedulableError())
            decision.verdict = GroupVerdict(GroupOutcome.UNSCHEDULABLE, decision.status.message)
            await self._reject_all(decision)
            return ()
        if held:  # members of a part that lost others of its minimum
            self._take_back(held, decision)
            reserved = [member for member in reserved if member.is_placed]
        rejectors = decision.rejectors()
        _listen(decision, self.scheduling.plugin_failures)
        bound = {id(member) for member in reserved}
        for member in decision.members:
            if id(member) not in bound:
                self._reject(member, rejectors, decision.source)
        return [member.attempt for member in reserved]

    def _reserve(self, member: Member, decision: Decision) -> Status | None:
        """Assume one member on its node, with Reserve and Permit; return why that failed."""
        attempt, placement = member.attempt, member.attempt.placement
        assert placement is not None, "the member was placed"
        node_name = placement.node_name
        attempt.state.end_trial()
        current = pending_version(self.scheduling.failure.pods, attempt.queued.pod)
        if current is None or current.is_terminating:
            return _unschedulable(_CHANGED)
        is_as_it_was = self.scheduling.cache.node_generation(node_name) == decision.generations.get(node_name)
        if not is_as_it_was:
            self.scheduling.cache.update_snapshot(self.scheduling.snapshot)
            nodes = self.scheduling.snapshot.nodes
            if not fits_on(attempt.profile, attempt.state, attempt.queued.pod, nodes, node_name):
                return _unschedulable(_CHANGED)
        failure = self.scheduling.reserve(attempt, placement)
        if failure is not None:
            return failure.status
        generation = self.scheduling.cache.node_generation(node_name)
        if is_as_it_was and generation is not None:
            # The changes that the group itself makes to the node are known.
            decision.generations[node_name] = generation
        self.scheduling.activate(attempt)
        return None

    def _is_held(self, member: Member, decision: Decision) -> bool:
        """Return True if a member waits at Permit because its group is not complete."""
        held = self.waiting_pods.get(member.attempt.pod.uid)
        return held is not None and held.verdict is None and decision.source.name in held.pending_plugins

    def _take_back(self, reserved: Sequence[Member], decision: Decision) -> None:
        """Give back what the members hold, because their group, or their part of it, has too few left."""
        for member in reserved:
            self.waiting_pods.reject(member.attempt.pod.uid, plugin=decision.source.name, reason=_TAKEN_BACK)
        for member in reserved:
            self.scheduling.undo(member.attempt)
            member.is_placed = False
            member.status = _unschedulable(_TAKEN_BACK)


def _unschedulable(message: str, rejectors: set[str] | None = None) -> Status:
    return Status(Code.UNSCHEDULABLE, message or (), error=PodGroupUnschedulableError(rejectors or ()))


def _listen(decision: Decision, failures: PluginFailures) -> None:
    """Set on one member of each kind that found no node how much room its group needs.

    When an event wakes it, the group is retried at once if there is that much room, and not after its backoff.
    """
    if decision.nodes is not None:
        return  # room outside one placement does not help
    told: list[tuple[Hashable, object]] = []
    for member in decision.members:
        if member.is_placed or member.status is None or not isinstance(member.status.error, FitError):
            continue
        pod = member.attempt.queued.pod
        kind = member.group, asks(pod)
        if kind in told or len(told) == _KINDS:
            continue
        told.append(kind)
        unplaced = [each.attempt.queued.pod for each in decision.members if each.group == member.group]
        try:
            missing = decision.source.places_missing(member.group)
        except PLUGIN_FAILURES as error:
            failures.report(error, plugin=decision.source.name, point=GROUP_CYCLE, call=decision.source.places_missing)
            missing = 1
        member.attempt.after_failure.room_for = places_needed(pod, unplaced, missing)
