"""The group cycle: try all queued members of a group on one snapshot, and schedule them only if enough of them fit.

When the queue pops one member, the cycle also takes the other members out of the queue. It tries the members one after
another. If a member finds a node, the cycle adds the member to the snapshot and removes the member's victims from it.
The next members see these changes. At the end, all changes of the snapshot are undone, and `group_commit` carries out
the decision.

Differs from kube-scheduler: victims are evicted only if enough of the group can be placed.

Source: kube-scheduler 1.36, `schedule_one_podgroup.go`.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

import attrs

from pyscheduler.framework.diagnosis import FitError
from pyscheduler.framework.errors import PLUGIN_FAILURES
from pyscheduler.framework.group_cycle import GroupOutcome, GroupVerdict, PodGroupUnschedulableError
from pyscheduler.framework.interfaces import NominatingInfo
from pyscheduler.framework.plugin_failures import GROUP_CYCLE
from pyscheduler.framework.preemption import preemption_findings
from pyscheduler.framework.status import Code, Status
from pyscheduler.framework.trial import TrialKind
from pyscheduler.podgroup import asks
from pyscheduler.runtime.cooperative_yield import CooperativeYield
from pyscheduler.runtime.placement import Placement, rejection_of
from pyscheduler.runtime.statement import Statement
from pyscheduler.scheduler.awaited_room import awaited_room
from pyscheduler.scheduler.failure import CLEAR_NOMINATION
from pyscheduler.scheduler.group_commit import Decision, Member
from pyscheduler.scheduler.group_placements import ended
from pyscheduler.scheduler.in_tree_groups import GroupSource, InTreeGroups
from pyscheduler.scheduler.level_search import search_levels
from pyscheduler.scheduler.scheduling_cycle import Failure
from pyscheduler.scheduler.sub_group_trial import SubGroupTrial, TrialOverError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework.group_cycle import MemberTree
    from pyscheduler.framework.group_placements import PlacementLevels
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.framework.pod_info import PodInfo, QueuedPodInfo
    from pyscheduler.runtime.profile import Profile
    from pyscheduler.scheduler.attempt import Attempt
    from pyscheduler.scheduler.group_commit import GroupCommit
    from pyscheduler.scheduler.group_placements import PlacementSearch
    from pyscheduler.scheduler.group_preemption import GroupPreemption
    from pyscheduler.scheduler.scheduling_cycle import SchedulingCycle

__all__ = ["GroupCycles", "Groups", "order_of_attempts"]

_log = logging.getLogger(__name__)

#: The number of members that are taken out of the queue in one turn of the event loop.
_POPPED_PER_TURN = 100

_WAITING_ON_PREEMPTION = "pod group is waiting for preemption to complete"


@attrs.frozen
class Groups:
    """Groups that are scheduled together, each with its members, and their source."""

    source: GroupSource
    members: Mapping[Hashable, Iterable[Pod]]

    def group_of(self) -> Mapping[str, Hashable]:
        """Return the group of each member, by uid."""
        return {pod.uid: group for group, pods in self.members.items() for pod in pods}

    def others_than(self, first: Pod) -> list[Pod]:
        """Return the members beside one of them."""
        return [pod for pods in self.members.values() for pod in pods if pod.uid != first.uid]


@attrs.define(kw_only=True)
class GroupCycles:
    """Runs group cycles, one after the other."""

    scheduling: SchedulingCycle
    commit: GroupCommit
    profiles: Mapping[str, Profile]
    #: By profile, in the order in which they are called.
    sources: Mapping[str, Sequence[GroupSource]]
    #: With the gate WorkloadAwarePreemption.
    preemption: GroupPreemption | None = None
    #: Only with the gate TopologyAwareWorkloadScheduling.
    placements: PlacementSearch | None = None

    def find(self, pod: Pod) -> Groups | None:
        """Return the groups that are scheduled together with a pod; None for a pod that is scheduled by itself."""
        for source in self.sources.get(pod.scheduler_name, ()):
            try:
                members = source.groups_to_schedule(pod)
            except PLUGIN_FAILURES as error:
                call, about = source.groups_to_schedule, f"pod={pod.key}"
                self.scheduling.plugin_failures.report(
                    error, plugin=source.name, point=GROUP_CYCLE, about=about, call=call
                )
                continue
            if members is not None:
                return Groups(source, members)
        return None

    async def run_group_cycle(
        self, groups: Groups, first: QueuedPodInfo, skips: Callable[[Profile, Pod], bool]
    ) -> Sequence[Attempt]:
        """Try to place all members; return the attempts to bind. The other attempts are settled."""
        began = self.scheduling.clock.now()
        turns = CooperativeYield(self.scheduling.clock)
        popped = await self._pop_all(groups, first, turns)
        for info in popped:
            info.woken_by = first.woken_by
        profile = self.profiles[popped[0].pod.scheduler_name]
        stranger = next((info.pod for info in popped if info.pod.scheduler_name != profile.name), None)
        if stranger is not None:
            self._refuse(popped, stranger.scheduler_name, profile.name)
            return ()
        group_of = groups.group_of()
        members: list[Member] = []
        for info in popped:
            if skips(profile, info.pod):
                self.scheduling.queue.done(info.pod.uid)
            else:
                waited = began - info.enqueued_at
                self.scheduling.recorder.observe("pyscheduler_queue_wait_duration_seconds", waited)
                members.append(self.member(profile, info, group_of.get(info.pod.uid)))
            await turns.yield_if_due()
        if not members:
            return ()
        decision = Decision(source=groups.source, profile=profile, members=members, began=began)
        try:
            decision = await self._search(decision, turns)
            seconds = self.scheduling.clock.now() - began
            self.scheduling.recorder.observe("scheduler_podgroup_scheduling_algorithm_duration_seconds", seconds)
            preemption = self.preemption
            if preemption is not None and preemption.helps(decision):
                await preemption.make_room(decision, partial(self._fits, decision, turns), turns)
            self._retry_rest(decision)
            attempts = await self.commit.submit(decision)
        except Exception as error:  # noqa: BLE001 - a bug must cost these attempts, not the loop, and lose no pod
            self.scheduling.recorder.warning("group_cycle_failed")
            _log.exception("Group cycle failed pod=%s members=%d", first.pod.key, len(members))
            self.commit.fail_rest(decision, Status.from_error(error))
            return ()
        self._tell(groups, decision)
        return attempts

    def _retry_rest(self, decision: Decision) -> None:
        """Have members of Kubernetes' own groups retried after their backoff if the cycle itself is news for them.

        That is so if other members were placed, or pods are evicted. Otherwise the group waits for an event.
        """
        source = decision.source
        if isinstance(source, InTreeGroups) and (
            source.retries_after_backoff or decision.verdict.outcome is not GroupOutcome.UNSCHEDULABLE
        ):
            self.scheduling.queue.retry_after_backoff(member.attempt.queued.pod for member in decision.members)

    async def _pop_all(self, groups: Groups, first: QueuedPodInfo, turns: CooperativeYield) -> list[QueuedPodInfo]:
        """Take the other members out of the queue; return all of them in the order in which they are tried."""
        others = groups.others_than(first.pod)
        popped = [first]
        for start in range(0, len(others), _POPPED_PER_TURN):
            popped += self.scheduling.queue.pop_these(others[start : start + _POPPED_PER_TURN])
            await turns.yield_if_due()
        popped.sort(key=order_of_attempts)
        return popped

    def _refuse(self, popped: Iterable[QueuedPodInfo], name: str, other: str) -> None:
        """Fail members that name different profiles: no profile could place them all."""
        error = RuntimeError(
            f'all pods in a single pod group should have the same .spec.schedulerName set, got: "{name}" and "{other}"'
        )
        for info in popped:
            attempt = self.scheduling.begin(self.profiles[info.pod.scheduler_name], info)
            self.scheduling.failure.handle(attempt, Status.from_error(error), CLEAR_NOMINATION)

    def member(self, profile: Profile, info: QueuedPodInfo, group: Hashable) -> Member:
        """Return a member that is not tried yet."""
        attempt = self.scheduling.begin(profile, info)
        attempt.after_failure.serve_backoff = True
        return Member(attempt=attempt, group=group)

    def _anew(self, decision: Decision, order: Sequence[Member]) -> Decision:
        """Return the beginning of another decision about the same members, in another order."""
        members = [self.member(decision.profile, each.attempt.queued, each.group) for each in order]
        return Decision(source=decision.source, profile=decision.profile, members=members, began=decision.began)

    def _tell(self, groups: Groups, decision: Decision) -> None:
        verdict = decision.verdict
        recorder, labels = self.scheduling.recorder, (verdict.outcome.value, decision.profile.name)
        seconds = self.scheduling.clock.now() - decision.began
        recorder.count("scheduler_podgroup_schedule_attempts_total", *labels)
        recorder.observe("scheduler_podgroup_scheduling_attempt_duration_seconds", seconds, *labels)
        try:
            groups.source.group_cycle_ended(groups.members.keys(), verdict)
        except PLUGIN_FAILURES as error:
            source = groups.source
            self.scheduling.plugin_failures.report(
                error, plugin=source.name, point=GROUP_CYCLE, call=source.group_cycle_ended
            )

    # The trial

    async def _search(self, decision: Decision, turns: CooperativeYield) -> Decision:
        """Return the best decision; with placements, the members are tried in each placement that can win."""
        self.scheduling.cache.update_snapshot(self.scheduling.snapshot)
        all_nodes = self.scheduling.snapshot.nodes

        async def simulate(nodes: Nodes | None) -> Decision:
            begun = self._anew(decision, decision.members)
            begun.nodes, begun.may_preempt = nodes, decision.may_preempt
            return await self._try_orders(begun, turns)

        if self.placements is not None and self.placements.serves(decision.source):
            return await self.placements.run(decision, all_nodes, simulate)
        levels = self._levels(decision, all_nodes)
        if levels is None:
            return await self._try_orders(decision, turns)
        if isinstance(levels, Status):
            return ended(decision, levels)
        decision.may_preempt = False
        return await search_levels(decision, levels, all_nodes, simulate)

    def _levels(self, decision: Decision, nodes: Nodes) -> PlacementLevels | Status | None:
        try:
            return decision.source.placement_levels({member.group for member in decision.members}, nodes)
        except PLUGIN_FAILURES as error:
            self.scheduling.recorder.warning("plugin_error")
            _log.exception("Plugin failed to name the nodes of a group plugin=%s", decision.source.name)
            return Status.from_error(error)

    async def rehearse(
        self,
        groups: Groups,
        profile: Profile,
        infos: Iterable[QueuedPodInfo],
        turns: CooperativeYield,
    ) -> Decision:
        """Return the decision that a cycle would come to about these members of the groups, and change nothing."""
        group_of = groups.group_of()
        members = [self.member(profile, info, group_of[info.pod.uid]) for info in infos]
        decision = Decision(source=groups.source, profile=profile, members=members, began=self.scheduling.clock.now())
        return await self._try_orders(decision, turns, TrialKind.QUESTION)

    async def _try_orders(
        self, decision: Decision, turns: CooperativeYield, kind: TrialKind = TrialKind.ATTEMPT
    ) -> Decision:
        """Try all members; if they do not fit and are not alike, try them in another order."""
        await self._decide(decision, turns, kind)
        if not decision.source.tries_again or not (order := _other_order(decision)):
            return decision
        again = self._anew(decision, order)
        again.nodes, again.may_preempt = decision.nodes, decision.may_preempt
        again.hard = frozenset(member.uid for member in decision.members if _lacks_room(member))
        await self._decide(again, turns, kind)
        return again if again.has_enough else decision

    async def _decide(self, decision: Decision, turns: CooperativeYield, kind: TrialKind) -> None:
        """Try all members on one snapshot, and undo everything; record the verdict and the outcome of each member."""
        with Statement(self.scheduling.snapshot, kind) as statement:
            await self._try_all(decision, statement, turns)
            changes = await statement.commit(turns)
        decision.generations = dict(changes.generations)

    async def _try_all(self, decision: Decision, statement: Statement, turns: CooperativeYield) -> None:
        """Try the members of all groups, those of groups with parts by part."""

        async def attempt(member: Member) -> bool:
            await self.try_member(member, statement, decision.nodes, post_filter=decision.may_preempt)
            if not _go_on(decision, member):
                raise TrialOverError
            await turns.yield_if_due()
            return member.is_placed

        by_group: dict[Hashable, list[Member]] = {}
        trees = {group: self._tree(decision.source, group) for group in {each.group for each in decision.members}}
        for member in decision.members:
            by_group.setdefault(member.group if trees[member.group] is not None else None, []).append(member)
        try:
            for group, members in by_group.items():
                tree = trees.get(group)
                if tree is None:
                    for member in members:
                        await attempt(member)
                    continue
                undone = partial(_count_again, decision)
                hard = decision.hard
                await SubGroupTrial(group, tree, members, statement, attempt=attempt, undone=undone, hard=hard).run()
        except TrialOverError:
            pass

    def _tree(self, source: GroupSource, group: Hashable) -> MemberTree | None:
        try:
            return source.member_tree(group)
        except PLUGIN_FAILURES as error:
            self.scheduling.plugin_failures.report(
                error, plugin=source.name, point=GROUP_CYCLE, call=source.member_tree
            )
            return None

    async def _fits(self, decision: Decision, turns: CooperativeYield, statement: Statement) -> Status | None:
        """Return None if the group fits on the snapshot as a statement has changed it, or why it does not.

        PostFilter does not run. The trial ends as soon as the outcome is known.
        """
        again = self._anew(decision, decision.members)
        spare = len(again.members) - decision.missing()
        with statement.undo_at_end():
            for member in again.members:
                await self.try_member(member, statement, decision.nodes, post_filter=False)
                spare -= not member.is_placed
                if not _go_on(again, member) or again.has_enough or spare < 0:
                    break
                await turns.yield_if_due()
        if again.has_enough:
            decision.plan = {each.uid: each.attempt.node_name for each in again.members if each.is_placed}
            return None
        if again.verdict.outcome is GroupOutcome.UNSCHEDULABLE and self.placements is not None:
            return self.placements.refused(again)
        return again.status

    async def try_member(
        self, member: Member, statement: Statement, nodes: Nodes | None, *, post_filter: bool = True
    ) -> None:
        """Find a node for one member, or a node where victims can make room, and place it there."""
        attempt = member.attempt
        state = attempt.state
        state.begin_trial(statement.trial)
        attempt.started_at = self.scheduling.clock.now()
        victims: Sequence[PodInfo] = ()
        try:
            found = await self.scheduling.find_node(attempt, nodes, post_filter=False)
            if isinstance(found, Failure) and isinstance(found.status.error, FitError):
                info = attempt.queued.pod_info
                awaited = awaited_room(self.scheduling, attempt.profile, info, joint=state.joint, nodes=nodes)
                if awaited is not None:
                    node_name, victims = awaited
                    found.nominating = NominatingInfo(node_name)
                elif post_filter:
                    found = await self.scheduling.make_room(attempt, found.status.error)
        except Exception as error:  # noqa: BLE001 - a bug must cost the group this attempt, not the loop
            self.scheduling.recorder.warning("scheduling_cycle_failed")
            _log.exception("Scheduling cycle failed pod=%s", attempt.pod.key)
            found = Failure(Status.from_error(error))
        if isinstance(found, Failure):
            member.status, member.nominating = found.status, found.nominating
            if member.nominating is None or not member.nominating.node_name:
                return
            found = Placement(node_name=member.nominating.node_name, evaluated_nodes=0, feasible_nodes=0)
            findings = preemption_findings(state)
            if not victims and findings is not None and findings.chosen is not None:
                member.preemptor, member.candidate = findings.plugin, findings.chosen
        attempt.placement = found
        self._place(member, statement, victims)

    def _place(self, member: Member, statement: Statement, leaving: Sequence[PodInfo]) -> None:
        """Put a member on its node, without the pods that leave it, run Reserve and Permit; undo it if one rejects."""
        attempt, profile, node_name = member.attempt, member.attempt.profile, member.attempt.node_name
        state, queued = attempt.state, attempt.queued
        assumed = queued.pod_info.with_pod(queued.pod.with_node_name(node_name))
        checkpoint = statement.checkpoint()
        if leaving:
            statement.evict_all(leaving, node_name, free_ports=True)
        if member.candidate is not None:
            release = profile.preemptors[member.preemptor].release(state)
            statement.evict_all(member.candidate.victims, node_name, free_ports=True, release=release)
        statement.place(assumed, node_name)
        status = statement.reserve(profile, state, assumed.pod, node_name, group=member.group)
        if status is None or status.is_wait:
            statement.keep(checkpoint)
            member.permit = status
            member.is_placed = True
            return
        statement.rollback(checkpoint)
        member.status, member.nominating = rejection_of(status, node_name), CLEAR_NOMINATION
        member.preemptor, member.candidate = "", None


def _other_order(decision: Decision) -> Sequence[Member]:
    """Return the members in an order in which they may fit, those first that did not; none if no order helps.

    Equal members fit in any order or in none.
    """
    if decision.verdict.outcome is not GroupOutcome.UNSCHEDULABLE:
        return ()
    failed = [member for member in decision.members if _lacks_room(member)]
    placed = [member for member in decision.members if not _lacks_room(member)]
    first, *rest = [asks(member.attempt.queued.pod) for member in decision.members]
    return [*failed, *placed] if failed and placed and any(other != first for other in rest) else ()


def _lacks_room(member: Member) -> bool:
    """Return True if no node was found for a member that was tried."""
    return not (member.is_placed or member.set_back)


def _count_again(decision: Decision) -> None:
    """Compute the verdict from the members that still have nodes."""
    placed = [member for member in decision.members if member.is_placed]
    decision.needs_preemption = any(member.status is not None for member in placed)
    if any(member.permit is None for member in placed):
        _set_verdict(decision)
    else:
        decision.status = Status(Code.UNSCHEDULABLE, error=PodGroupUnschedulableError())
        decision.verdict = GroupVerdict(GroupOutcome.UNSCHEDULABLE, decision.status.message)


def _go_on(decision: Decision, member: Member) -> bool:
    """Update the decision after a member was tried; return False if that ends the cycle."""
    if not member.is_placed:
        status = member.status
        if status is None or status.is_rejected:
            return True
        text = f"failed to schedule other pod from a pod group: {status.message}"
        decision.status = Status.from_error(RuntimeError(text))
        decision.verdict = GroupVerdict(GroupOutcome.ERROR, decision.status.message)
        return False
    decision.needs_preemption = decision.needs_preemption or member.status is not None
    if member.permit is None:
        _set_verdict(decision)
    return True


def _set_verdict(decision: Decision) -> None:
    """Record that enough members have nodes."""
    if decision.needs_preemption:
        decision.status = Status(Code.UNSCHEDULABLE, _WAITING_ON_PREEMPTION, error=PodGroupUnschedulableError())
        decision.verdict = GroupVerdict(GroupOutcome.WAITING_ON_PREEMPTION, decision.status.message)
    else:
        decision.status = None
        decision.verdict = GroupVerdict(GroupOutcome.SCHEDULED)


def order_of_attempts(info: QueuedPodInfo) -> tuple[int, int]:
    """Return the key that sorts members in the order in which they are tried."""
    # By rank, not by time: pods may enter activeQ at the same time.
    return -info.pod.priority, info.first_attempt_rank
