"""`Coscheduling` in group cycles (`strategy: groupCycle`), which place all pending members of a group together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler.framework import GroupOutcome, Status
from pyscheduler.podgroup import GroupId
from pyscheduler.podgroup.strategy import Strategy
from pyscheduler_coscheduling import quorum

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Mapping

    from pyscheduler.api import Pod
    from pyscheduler.framework import GroupVerdict, MemberTree, Trial
    from pyscheduler.podgroup import GroupState
    from pyscheduler_coscheduling.args import CoschedulingArgs
    from pyscheduler_coscheduling.members import Members

__all__ = ["GroupCycleRules"]


class GroupCycleRules:
    """The rules of the plugin in a group cycle."""

    def __init__(self, args: CoschedulingArgs, members: Members) -> None:
        self.enabled = args.strategy == Strategy.GROUP_CYCLE
        self._args = args
        self._members = members
        #: Groups of which a member did not fit, while a cycle is under way.
        self._lacking: set[Hashable] = set()

    def groups(self, pod: Pod) -> Mapping[Hashable, Iterable[Pod]] | None:
        """Return the pod's group with its members of the same profile, if it is scheduled in a group cycle."""
        group = self._members.of(pod) if self.enabled else None
        if group is None or self._is_blocked(group, pod) or self._members.failures.is_refused(group.id):
            # PreFilter would refuse every member: this pod is tried alone, and the others sleep on.
            return None
        return self._unbound(group, pod)

    def to_preempt(self, pod: Pod) -> Mapping[Hashable, Iterable[Pod]] | None:
        """Return the pod's group in the same form, if its members are tried one by one and it has not its minimum."""
        group = self._members.of(pod) if not self.enabled else None
        if group is None or self._is_blocked(group, pod) or self._members.satisfied(group):
            return None
        return self._unbound(group, pod)

    def _unbound(self, group: GroupState, pod: Pod) -> Mapping[Hashable, Iterable[Pod]]:
        members = [each for each in group.pending.values() if each.scheduler_name == pod.scheduler_name]
        return {group.id: members if pod.uid in group.pending else [*members, pod]}

    def _is_blocked(self, group: GroupState, pod: Pod) -> bool:
        """Return True if the group is not declared, or lacks members or quota."""
        if not group.group.is_declared:
            return True
        return bool(quorum.shortage(group, pod) or self._members.waits_for_quota(group))

    def permit(self, group: GroupState, trial: Trial) -> Status | None:
        """Return None if the members with a node in this cycle, or already bound, make the minimum."""
        placed = trial.placed(group.id)
        if quorum.is_satisfied(group, placed):
            return None
        reason = (
            f"podGroup {group.id} has nodes for {len(placed)} more of its pods, minMember of group: {group.group.min}"
        )
        if group.parts is not None and not trial.is_attempt:
            reason += f", sub-groups: {group.parts.shortage(placed)}"  # in an attempt, the scheduler says it
        # The timeout has no effect: no member waits in a group cycle.
        return Status.wait(reason, timeout=self._args.wait_seconds)

    def post_filter(self, group: GroupState, pod: Pod, trial: Trial, *, was_tried: bool) -> Status:
        """Return why the group is rejected because a member does not fit, unless it may miss this member."""
        missing = quorum.missing(group, trial.placed(group.id))
        if missing * 100 <= self._args.pod_group_reject_percentage * group.group.min:
            return Status.unschedulable()
        if was_tried:
            self._lacking.add(group.id)
        return Status.unschedulable(
            f"PodGroup {group.id} gets rejected due to Pod {pod.name} is unschedulable even after PostFilter"
        )

    def ended(self, groups: Collection[Hashable], verdict: GroupVerdict) -> None:
        """Refuse, for a while, groups that did not fit."""
        members = self._members
        failed = self._lacking.intersection(groups)
        self._lacking -= failed
        if verdict.outcome is not GroupOutcome.UNSCHEDULABLE:
            return
        for group in groups:
            state = members.directory.get(group) if group in failed and isinstance(group, GroupId) else None
            if state is not None:
                members.fail(state, back_off=quorum.has_members(state) and self._args.pod_group_backoff_seconds > 0)

    def missing(self, group: Hashable) -> int:
        """Return how many members with a node a group still needs, at least one."""
        state = self._members.directory.get(group) if isinstance(group, GroupId) else None
        return 1 if state is None else self._members.missing(state)

    def member_tree(self, group: Hashable) -> MemberTree | None:
        """Return the sub-groups of a group; None if it has none."""
        state = self._members.directory.get(group) if isinstance(group, GroupId) else None
        return None if state is None or state.parts is None else state.parts.member_tree(state.pending)
