"""Preempt other pods for a PodGroup that does not fit, if the feature gate WorkloadAwarePreemption is on.

DefaultPreemption searches for victims in the whole cluster (`runtime.preemption.group_search`) and evicts them.

Differs from kube-scheduler: group members that need victims get a nominated node.

Source: kube-scheduler 1.36, `runWorkloadAwarePreemption`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.framework.cycle_state import CycleState
from pyscheduler.framework.diagnosis import FitError
from pyscheduler.framework.errors import PluginError
from pyscheduler.framework.group_cycle import GroupOutcome, GroupVerdict
from pyscheduler.framework.reuse import Reuse
from pyscheduler.framework.status import Status
from pyscheduler.framework.trial import Trial, TrialKind
from pyscheduler.podgroup import GroupId
from pyscheduler.podgroup.wire import IN_TREE_PODGROUPS
from pyscheduler.runtime.placement import feasible_nodes
from pyscheduler.runtime.preemption.place_counts import PlaceCounts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.framework.watches import Lister
    from pyscheduler.podgroup.wire import InTreePodGroup
    from pyscheduler.runtime.cooperative_yield import CooperativeYield
    from pyscheduler.runtime.statement import Statement
    from pyscheduler.scheduler.group_commit import Decision
    from pyscheduler.scheduler.in_tree_groups import InTreeGroups
    from pyscheduler.scheduler.scheduling_cycle import SchedulingCycle

__all__ = ["GroupPreemption"]

_PLUGIN: Final = "DefaultPreemption"
#: The plugin whose filter the counted places stand for.
_FIT: Final = "NodeResourcesFit"
_NO_PLUGIN: Final = Status.unschedulable(
    "default preemption plugin is not registered, workload aware preemption is disabled"
)
_CONSTRAINED: Final = Status.unschedulable(
    "workload aware preemption is not supported for pod groups with scheduling constraints"
)


@attrs.frozen(kw_only=True)
class GroupPreemption:
    """Preempts for the PodGroups of Kubernetes."""

    source: InTreeGroups
    scheduling: SchedulingCycle
    groups: Lister[InTreePodGroup]

    def helps(self, decision: Decision) -> bool:
        """Return True if the group is one of the source and cannot be placed."""
        return decision.source is self.source and decision.verdict.outcome is GroupOutcome.UNSCHEDULABLE

    async def make_room(
        self, decision: Decision, fits: Callable[[Statement], Awaitable[Status | None]], turns: CooperativeYield
    ) -> None:
        """Have victims evicted for a group that cannot be placed; change the decision accordingly.

        `fits` runs the cycle of the group within a statement and undoes it; it returns None if the group fits.
        """
        status = await self._preempt(decision, fits, turns)
        if status is None:
            assert decision.status is not None, "a group that cannot be placed has a status"
            decision.verdict = GroupVerdict(GroupOutcome.WAITING_ON_PREEMPTION, decision.status.message)
        elif status.is_error:
            decision.status = status
            decision.verdict = GroupVerdict(GroupOutcome.ERROR, status.message)
        else:
            assert decision.status is not None, "a group that cannot be placed has a status"
            decision.status = _with_reason(decision.status, status.message)
            decision.verdict = GroupVerdict(GroupOutcome.UNSCHEDULABLE, decision.status.message)

    async def _preempt(
        self, decision: Decision, fits: Callable[[Statement], Awaitable[Status | None]], turns: CooperativeYield
    ) -> Status | None:
        preemptor = decision.profile.preemptors.get(_PLUGIN)
        if preemptor is None:
            return _NO_PLUGIN
        group_id = decision.members[0].group
        assert isinstance(group_id, GroupId), "the source names PodGroups"
        group = self.groups.get(group_id.name, group_id.namespace)
        if group is None:
            missing = f'podgroup.{IN_TREE_PODGROUPS.group} "{group_id.name}" not found'
            return Status.from_error(LookupError(f"failed to get pod group object: {missing}"))
        constraints = group.spec.scheduling_constraints
        if constraints is not None and constraints.topology:
            return _CONSTRAINED
        pods = [member.attempt.queued.pod for member in decision.members]
        waiting = partial(self._waiting, group_id)
        count = partial(self._count, decision)
        return await preemptor.preempt_for_group(group, pods, waiting=waiting, fits=fits, count=count, turns=turns)

    def _waiting(self, group: GroupId) -> Sequence[Pod]:
        state = self.source.directory.get(group)
        return [*state.pending.values()] if state is not None else []

    def _count(self, decision: Decision, statement: Statement) -> PlaceCounts | None:
        """Return the places for members on the snapshot; None if they do not say whether the group fits.

        They do if the members are alike, their filters depend on nodes and amounts only, and no other pod is nominated
        that comes before them. A member that is nominated keeps a place for itself.
        """
        profile = decision.profile
        infos = [member.attempt.queued.pod_info for member in decision.members]
        key = profile.equivalence_key(infos[0].pod)
        if (
            key is None
            or any(profile.equivalence_key(info.pod) != key for info in infos)
            or self.scheduling.pipeline.extenders is not None
            or self._others_are_nominated(infos)
        ):
            return None
        state = CycleState(Trial(TrialKind.QUESTION))
        with statement.undo_at_end():
            for info in infos:
                statement.nominate(info, "")
            try:
                feasible = feasible_nodes(profile, state, infos[0].pod, self.scheduling.snapshot.nodes)
            except (FitError, PluginError):
                return None
        by_amounts = {each.plugin for each in profile.active_filters(state) if each.reuse is not Reuse.WHILE_NODE_STAYS}
        if by_amounts != {_FIT}:
            return None
        return PlaceCounts(feasible, infos[0], decision.missing())

    def _others_are_nominated(self, members: Sequence[PodInfo]) -> bool:
        """Return True if the filters of members count nominated pods that are no members."""
        snapshot = self.scheduling.snapshot
        uids = {info.pod.uid for info in members}
        least = min(info.pod.priority for info in members)
        nominated = (info.pod for name in snapshot.nominated_nodes for info in snapshot.nominated_pods(name))
        return any(pod.priority >= least and pod.uid not in uids for pod in nominated)


def _with_reason(status: Status, reason: str) -> Status:
    """Return a status with one more reason."""
    own = status.reasons if status.error is None else status.reasons[1:]
    return Status(status.code, (*own, reason), error=status.error)
