"""DefaultPreemption: if a pod fits nowhere, evict pods of lower priority from one node.

`runtime.preemption` searches for victims, chooses the node and evicts. This module keeps the preempting pod out of the
active queue until its victims have been evicted.

Differs from kube-scheduler: with the arg `protectQuorum`, preemption protects pods that a group needs for its minimum.
Source: kube-scheduler 1.36, `plugins/defaultpreemption`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from pyscheduler.api import Pod, PodDisruptionBudget, kind_of
from pyscheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EnqueueExtensions,
    EventResource,
    Handle,
    NodeStatuses,
    PolicyRule,
    PostFilterPlugin,
    PostFilterResult,
    PreemptionRules,
    PreEnqueuePlugin,
    QueueingHint,
    Status,
)
from pyscheduler.framework.in_tree_args import DefaultPreemptionArgs
from pyscheduler.framework.recorder import scheduler_recorder
from pyscheduler.podgroup import DIALECTS, PodGroups, kinds_of
from pyscheduler.podgroup.wire import InTreePodGroup

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from pyscheduler.api import ResourceKind

__all__ = ["DefaultPreemption", "DefaultRules"]

_BY_PLACEMENT: Final = "preemption: not eligible due to placement-based pod group scheduling limitation"
_UNDER_WAY: Final = Status.unresolvable("waiting for the preemption for this pod to be finished")

_GROUP_UNDER_WAY: Final = Status.unresolvable("waiting for the preemption for this pod group to be finished")
_LEFT_TO_GROUP: Final = Status.unschedulable("preemption: not eligible due to workload aware preemption enabled")


class DefaultRules(PreemptionRules):
    """The default rules, with the plugin's arguments for how long to search."""

    def __init__(self, args: DefaultPreemptionArgs) -> None:
        self._args = args

    def enough_candidates(self, num_nodes: int) -> int:
        args = self._args
        enough = num_nodes * args.min_candidate_nodes_percentage // 100
        return min(max(enough, args.min_candidate_nodes_absolute), num_nodes)


class _QuorumRules(DefaultRules):
    """The same, and a victim without which its group has less than its minimum is protected."""

    def __init__(self, args: DefaultPreemptionArgs, groups: PodGroups) -> None:
        super().__init__(args)
        self._groups = groups

    def group_budget(self, victim: Pod) -> tuple[Hashable, int] | None:
        state = self._groups.directory.of(victim)
        if state is None or not state.group.is_gang or state.group.min <= 0:
            return None
        leaving = sum(pod.is_terminating for pod in state.bound.values())
        spare = state.assigned_count - leaving - state.group.min
        if state.parts is not None and (of_part := state.parts.spare(victim.uid)) is not None:
            spare = min(spare, max(of_part - leaving, 0)) if spare >= 0 else spare
        # A group that has not its minimum has nothing to lose.
        return (state.id, spare) if spare >= 0 else None


class DefaultPreemption(PostFilterPlugin, PreEnqueuePlugin, EnqueueExtensions):
    """Make room by evicting pods of lower priority, and hold their preemptor back until they were told."""

    args_type = DefaultPreemptionArgs
    rules_type: ClassVar[type[DefaultRules]] = DefaultRules
    watches: ClassVar[Sequence[ResourceKind]] = (kind_of(PodDisruptionBudget, "poddisruptionbudgets"),)
    rbac = (
        PolicyRule(api_groups=("",), resources=("pods",), verbs=("get", "delete")),
        PolicyRule(api_groups=("",), resources=("pods/status",), verbs=("patch",)),
    )

    @classmethod
    def watched_kinds(cls, args: object) -> Sequence[ResourceKind]:
        protects = isinstance(args, DefaultPreemptionArgs) and args.protect_quorum
        return (*cls.watches, *(kinds_of(DIALECTS) if protects else ()))

    def __init__(self, args: DefaultPreemptionArgs | None, handle: Handle) -> None:
        super().__init__(args, handle)
        args = args if args is not None else DefaultPreemptionArgs()
        self.watches = self.watched_kinds(args)  # type: ignore[misc]  # of a class, as a rule; args count here
        groups = PodGroups.of(handle) if args.protect_quorum else None
        if groups is not None:
            for plugin in dict.fromkeys(dialect.claimed_by for dialect in DIALECTS):
                # Whoever schedules them: all groups are to be known.
                groups.sort_only(plugin)
        self._preemptor = handle.preemptor(
            self.name, _QuorumRules(args, groups) if groups is not None else self.rules_type(args)
        )
        self._by_placement = handle.feature_gates.get("TopologyAwareWorkloadScheduling", False)
        self._in_background = handle.feature_gates.get("SchedulerAsyncPreemption", True)
        gate = handle.feature_gates.get("WorkloadAwarePreemption", False)
        self._groups = handle.lister(InTreePodGroup) if gate else None

    async def post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeStatuses
    ) -> tuple[PostFilterResult | None, Status]:
        refused = self._refused(pod) if self._by_placement else None
        if refused is not None:
            scheduler_recorder(self.handle).count("scheduler_preemption_attempts_total")
            return None, refused
        try:
            if self._groups is not None and pod.spec.scheduling_group is not None:
                return None, _LEFT_TO_GROUP
            result, status = await self._preemptor.preempt(state, pod, statuses)
        finally:
            scheduler_recorder(self.handle).count("scheduler_preemption_attempts_total")
        if not status.message:
            return result, status
        prefixed = Status(status.code, f"preemption: {status.message}")
        return result, prefixed

    def _refused(self, pod: Pod) -> Status | None:
        """Return why a pod may not preempt: its group would preempt once for each placement that is tried."""
        named = pod.spec.scheduling_group
        if named is None or not named.pod_group_name:
            return None
        item = self.handle.lister(InTreePodGroup).get(named.pod_group_name, pod.namespace)
        if item is None:
            return Status.unschedulable("preemption: pod group for pod not found")
        return Status.unschedulable(_BY_PLACEMENT) if item.spec.scheduling_constraints is not None else None

    def pre_enqueue(self, pod: Pod) -> Status | None:
        named = pod.spec.scheduling_group
        if self._groups is None or named is None:
            return _UNDER_WAY if self._preemptor.is_preempting(pod.uid) else None
        group = self._groups.get(named.pod_group_name or "", pod.namespace)
        return _GROUP_UNDER_WAY if group is not None and self._preemptor.is_preempting(group.uid) else None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        if not self._in_background:
            return ()
        # Registered so that the queue asks PreEnqueue again when victims are gone.
        return (ClusterEventWithHint(ClusterEvent(EventResource.POD, ActionType.DELETE), self.after_pod_deleted),)

    def after_pod_deleted(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Leave it to the plugins that rejected the pod whether room was made."""
        return QueueingHint.SKIP
