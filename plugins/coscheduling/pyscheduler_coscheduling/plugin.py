"""Coscheduling: bind the minimum number of a group's pods together, or none of them.

A member that finds a node waits at Permit until the group's minimum of members has nodes. If a member does not fit, the
waiting members give their nodes back. The group is then refused for a while, so that other groups have a chance.

With `strategy: groupCycle`, members do not wait at Permit: all pending members are placed in one attempt.

Differs from kube-scheduler, which has no plugin Coscheduling.
Sources: the plugin coscheduling of the project scheduler-plugins; for the refusal of a group, the project
podgroup-scheduler-framework.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from kube_objects.durations import format_duration
from pyscheduler.api import ENDED_PODS
from pyscheduler.framework import (
    AFTER_FAILURE,
    ConfigError,
    EnqueueExtensions,
    GroupCyclePlugin,
    PermitPlugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreFilterPlugin,
    QueueSortPlugin,
    ReservePlugin,
    SignPlugin,
    StateKey,
    Status,
)
from pyscheduler.podgroup import DIALECTS, StatusController, coscheduling_key, kinds_of, status_rules
from pyscheduler_coscheduling import quorum
from pyscheduler_coscheduling.args import CoschedulingArgs
from pyscheduler_coscheduling.deadlock import DeadlockSide
from pyscheduler_coscheduling.event_handlers import GroupEventHandlers
from pyscheduler_coscheduling.group_cycle import GroupCycleRules
from pyscheduler_coscheduling.hints import CoschedulingHints
from pyscheduler_coscheduling.members import NOT_FOUND, Members
from pyscheduler_coscheduling.min_resources import resource_gap, room_text
from pyscheduler_quota.controller import WAIT, QuotaReservations, reservation_rules
from pyscheduler_quota.quotas import RESOURCE_QUOTAS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence

    from pyscheduler.api import Pod, ResourceKind
    from pyscheduler.framework import (
        AfterFailure,
        ClusterEventWithHint,
        CycleState,
        GroupVerdict,
        Handle,
        MemberTree,
        Nodes,
        NodeStatuses,
        PostFilterResult,
        PreFilterResult,
        QueuedPodInfo,
        SignFragment,
    )
    from pyscheduler.podgroup import GroupId, GroupState

__all__ = ["Coscheduling"]

_log = logging.getLogger(__name__)

#: Set if the plugin itself refused the pod.
_REFUSED: Final[StateKey[bool]] = StateKey("Coscheduling/refused")
#: Set if the pod was refused because its group yields to another group; PostFilter does nothing then.
_YIELDS: Final[StateKey[bool]] = StateKey("Coscheduling/yields")
#: The key of a set that all profiles share: the names of the profiles with the plugin.
_PROFILES: Final = "Coscheduling/profiles"
#: The largest value of `scheduleTimeoutSeconds`.
_LONGEST_WAIT: Final = float(2**31 - 1)
_NO_GROUP: Final = "pod has no pod group, set annotation scheduling.k8s.io/group-name"
_IN_TREE: Final = "intree"
_NOTHING: Final = (None, Status.unschedulable())


class Coscheduling(
    QueueSortPlugin,
    PreFilterPlugin,
    PostFilterPlugin,
    ReservePlugin,
    PermitPlugin,
    PostBindPlugin,
    EnqueueExtensions,
    GroupCyclePlugin,
    SignPlugin,
):
    """Bind groups of pods together or not at all, with waits at Permit or in group cycles."""

    args_type = CoschedulingArgs
    args: CoschedulingArgs
    #: Also the kinds of other plugins' dialects, which the arg `dialects` may claim; an absent CRD costs nothing.
    watches: ClassVar[Sequence[ResourceKind]] = (
        *kinds_of(dialect for dialect in DIALECTS if dialect.name != _IN_TREE),
        ENDED_PODS,
    )
    max_permit_wait_seconds = _LONGEST_WAIT

    @classmethod
    def watched_kinds(cls, args: object) -> Sequence[ResourceKind]:
        """Return the kinds of groups, ended pods, and quotas if groups wait for these."""
        waits = isinstance(args, CoschedulingArgs) and args.quota_reservation == WAIT
        return (*cls.watches, RESOURCE_QUOTAS) if waits else cls.watches

    def __init__(self, args: object = None, handle: Handle | None = None) -> None:
        if args is not None and not isinstance(args, CoschedulingArgs):
            raise ConfigError(f"want args to be of type CoschedulingArgs, got {type(args).__name__}")
        super().__init__(args or CoschedulingArgs(), handle)
        if handle is None:
            return
        if _IN_TREE in self.args.dialects:
            raise ConfigError('dialects: "intree" names the groups of GangScheduling; leave it out')
        self._profiles: set[str] = handle.shared(_PROFILES, set)
        self._profiles.add(handle.profile_name)
        self.members = Members(self.name, self.args, handle)
        self._group_cycle = GroupCycleRules(self.args, self.members)
        self._hints = CoschedulingHints(self.members)
        self._deadlocks = self.members.deadlocks
        side = DeadlockSide(handle=handle, deadlock=self.args.deadlock, members=self.members, profiles=self._profiles)
        self._deadlocks.join(self.name, side)
        self._handlers = GroupEventHandlers(self.name, handle, self.members, lambda: frozenset(self._profiles))
        self.watches = self.watched_kinds(self.args)  # type: ignore[misc]  # of a class, as a rule; args count here
        self.rbac = status_rules(self.members.dialects)  # type: ignore[misc]  # the same
        if self.args.quota_reservation == WAIT:
            self.members.quotas = QuotaReservations.join(handle, self.name, self._quota_changed)
            self.rbac = (*self.rbac, *reservation_rules(self.members.dialects))  # type: ignore[misc]  # the same
        self._statuses = StatusController.of(handle)
        self._denied_text = format_duration(self.args.denied_pg_expiration_time_seconds)
        #: By group: the priority of the first member that was tried; None once members differ.
        self._priorities: dict[GroupId, int | None] = {}

    async def run(self) -> None:
        """Write the status of PodGroups, and their reservations."""
        async with asyncio.TaskGroup() as work:
            work.create_task(self._statuses.run(), name="status of pod groups")
            if self.members.quotas is not None:
                work.create_task(self.members.quotas.run(), name="quota reservations")

    def _quota_changed(self, group: GroupId) -> None:
        """Retry a group that waited for quota, unless it is in a window; the end of the window wakes it then."""
        members, state = self.members, self.members.directory.get(group)
        if state is None or members.waits_for_quota(state):
            return
        members.failures.changed(group)
        if not members.failures.is_refused(group):
            members.wake(group)

    def close(self) -> None:
        """Cancel all timers."""
        self._handlers.close()
        self.members.close()

    # --- QueueSort

    def sort_key(self, info: QueuedPodInfo) -> tuple[object, ...]:
        groups = self.members.groups
        return coscheduling_key(info, groups.directory, groups.last_failed, epoch=groups.epoch)

    # --- EnqueueExtensions

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return self._hints.registrations()

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment] | Status:
        """Sign plain pods; the result for a member depends on other members, and on the time."""
        if self.members.of(pod) is not None:
            return Status.unschedulable("pods of a group are not signable")
        return ()

    # --- the group cycle

    def groups_to_schedule(self, pod: Pod) -> Mapping[Hashable, Iterable[Pod]] | None:
        return self._group_cycle.groups(pod)

    def groups_to_preempt(self, pod: Pod) -> Mapping[Hashable, Iterable[Pod]] | None:
        return self._group_cycle.to_preempt(pod)

    def places_missing(self, group: Hashable) -> int:
        return self._group_cycle.missing(group)

    def member_tree(self, group: Hashable) -> MemberTree | None:
        return self._group_cycle.member_tree(group)

    def group_cycle_ended(self, groups: Collection[Hashable], verdict: GroupVerdict) -> None:
        self._group_cycle.ended(groups, verdict)

    # --- PreFilter

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        group = self.members.of(pod)
        if group is None:
            if self.args.require_group and self.members.directory.group_id(pod) is None:
                return Status.unresolvable(_NO_GROUP)
            return None
        if state.trial is not None and state.trial.is_question:
            return None
        self._serve_backoff(state)
        if not group.group.is_declared:
            return None
        self._compare_priority(group, pod)
        yields = self._deadlocks.refusal(group)
        refusal = yields or self._refusal(group, pod, nodes)
        if not refusal:
            self._tried(group, pod)
            return None
        if yields:
            state.write(_YIELDS, True)
        self._deadlocks.refused()
        state.write(_REFUSED, True)
        # No preemption for a group that is not ready: it would evict pods and then not start.
        return Status.unresolvable(refusal)

    def why_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> str:
        group = self.members.of(pod)
        if group is None or not group.group.min_resources:
            return ""
        return room_text(group.group.min_resources, nodes, self.members.placed(group))

    def _tried(self, group: GroupState, pod: Pod) -> None:
        self._deadlocks.tried(pod)
        self.members.tried(group, pod)

    def _refusal(self, group: GroupState, pod: Pod, nodes: Nodes) -> str:
        members, key = self.members, group.id
        if members.failures.is_denied(key):
            return f"pod with pgName: {key} last failed in {self._denied_text}, deny"
        if members.failures.is_backed_off(key):
            return f"podGroup {key} failed recently"
        stray = quorum.stray(group, pod)
        if stray:
            return stray
        short = self._shortage(group, pod)
        if short:
            # Not denied, so that the group is tried as soon as the missing member comes.
            members.short.add(key)
            return short
        held = members.waits_for_quota(group)
        if held:
            return held
        if not group.group.min_resources or key in members.permitted:
            return ""
        gap = resource_gap(
            group.group.min_resources,
            group.group.min,
            nodes,
            members.placed(group),
            one_node=self.args.min_resources_scope == "node",
        )
        if gap:
            members.failures.deny(key)
        else:
            members.permitted.add(key, True)
        return gap

    def _shortage(self, group: GroupState, pod: Pod) -> str:
        """Return the message that members are missing, or belong to different profiles; "" if neither is so."""
        return quorum.shortage(group, pod) or quorum.conflict(group, pod, frozenset(self._profiles))

    def _compare_priority(self, group: GroupState, pod: Pod) -> None:
        """Warn once per group if its members differ in priority: the queue does not keep them adjacent then."""
        known = self._priorities.setdefault(group.id, pod.priority)
        if known is not None and known != pod.priority:
            self._priorities[group.id] = None
            _log.warning(
                "Pods of one group differ in priority; it may take more attempts plugin=%s podGroup=%s pod=%s",
                self.name,
                group.id,
                pod.key,
            )

    # --- PostFilter

    def post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeStatuses
    ) -> tuple[PostFilterResult | None, Status]:
        group = self.members.of(pod)
        if group is None or state.get(_YIELDS):
            return _NOTHING
        if not group.group.is_declared:
            return None, Status.unschedulable("can not find pod group")
        members = self.members
        was_tried = not state.get(_REFUSED)
        if was_tried:
            self._deadlocks.tried(pod)
        members.drop_ended(group)
        if quorum.is_satisfied(group):
            return _NOTHING
        if state.trial is not None and state.trial.is_attempt:
            return None, self._group_cycle.post_filter(group, pod, state.trial, was_tried=was_tried)
        if quorum.is_small_gap(group, self.args.pod_group_reject_percentage):
            return _NOTHING
        members.roll_back(group, "optimistic rejection in PostFilter")
        if was_tried:
            self._fail(group, pod, state.get(AFTER_FAILURE))
        else:
            # Not denied, so that the group is tried as soon as the missing member comes.
            members.refused(group, back_off=self._backs_off(group))
        reason = f"PodGroup {group.id} gets rejected due to Pod {pod.name} is unschedulable even after PostFilter"
        return None, Status.unschedulable(reason)

    def _backs_off(self, group: GroupState) -> bool:
        return quorum.has_members(group) and self.args.pod_group_backoff_seconds > 0

    def _fail(self, group: GroupState, pod: Pod, after: AfterFailure | None) -> None:
        """Record that a member did not fit; let one such member listen for room, unless the group is in a window."""
        members = self.members
        members.fail(group, back_off=self._backs_off(group))
        if after is not None and not members.failures.is_refused(group.id):
            after.room_for = members.places_to_listen_for(group, pod)

    def shared_failure(self, pod: Pod) -> Callable[[AfterFailure], None] | None:
        group = self.members.of(pod)
        if group is None or self._group_cycle.enabled or self._may_end_otherwise(group, pod):
            return None
        return partial(self._repeat_failure, group, pod)

    def _may_end_otherwise(self, group: GroupState, pod: Pod) -> bool:
        """Return True if a member that finds no node may be rejected by PreFilter, or not fail its group only."""
        members, key = self.members, group.id
        if not group.group.is_declared or members.failures.is_refused(key) or self._deadlocks.refusal(group):
            return True
        if members.waiting.of(key) or quorum.is_satisfied(group):
            return True
        if group.group.min_resources and key not in members.permitted:
            return True
        if quorum.is_small_gap(group, self.args.pod_group_reject_percentage):
            return True
        return bool(quorum.stray(group, pod) or self._shortage(group, pod) or members.waits_for_quota(group))

    def _repeat_failure(self, group: GroupState, pod: Pod, after: AfterFailure) -> None:
        after.serve_backoff = True
        self._compare_priority(group, pod)
        self._tried(group, pod)
        self._deadlocks.tried(pod)
        self._fail(group, pod, after)

    # --- Permit

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        group = self.members.of(pod)
        if group is None:
            return None
        members = self.members
        if not group.group.is_declared:
            members.short.add(group.id)
            return Status.unschedulable(NOT_FOUND)
        if state.trial is not None:
            return self._group_cycle.permit(group, state.trial)
        # A group cycle tries all members anyway.
        is_first = members.hold(group, pod, node_name) and not self._group_cycle.enabled
        if members.satisfied(group):
            members.allow_all(group)
            if quorum.may_start(group, pod):
                return None
        if is_first and members.failures.is_hushed(group.id):
            state.write(_REFUSED, True)
            return Status.unschedulable(f"podGroup {group.id} failed recently")
        if is_first:
            # Once, not for each waiting member: members that become pending later enter the queue by themselves.
            members.wake(group.id)
        seconds = group.group.wait_seconds
        return Status.wait(timeout=self.args.wait_seconds if seconds is None else seconds)

    # --- Reserve

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if state.trial is None:
            self._deadlocks.took(pod)
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        if state.trial is not None:
            return
        group = self.members.of(pod)
        members = self.members
        members.failures.released(by=None if group is None else group.id)
        verdict = self.handle.wait_verdict(pod.uid)
        cause = verdict.cause if verdict is not None else ""
        is_ours = verdict is not None and verdict.plugin == self.name
        self._deadlocks.gave_back(pod, verdict)
        if group is None:
            return
        members.give_back(pod)
        self._serve_backoff(state)
        if cause == "rejected" and is_ours:
            # Part of a rollback, which has handled the group; it must not wake the other members.
            after = state.get(AFTER_FAILURE)
            if after is not None:
                after.ignored_by = group.is_pending
            return
        if cause == "stopped" or state.get(_REFUSED) or not group.group.is_declared or members.satisfied(group):
            return
        timed_out = cause == "timeout" and is_ours
        if timed_out and members.failures.has_just_failed(group.id):
            # All members time out together; the first has handled the group.
            return
        # A group that timed out must wait for room, unless a member was not tried since room appeared. After any other
        # cause the group can be retried.
        retry = not timed_out or members.take_retry(group, but=pod.uid)
        members.roll_back(group, "rejection in Unreserve")
        members.fail(group, retry=retry)
        # A preempted member is retried by itself, after its backoff. Members may preempt each other.
        if cause == "deleted" and not members.failures.is_refused(group.id):
            members.wake(group.id)

    # --- PostBind

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        if self.members.of(pod) is not None:
            self._statuses.bound(pod)

    def _serve_backoff(self, state: CycleState) -> None:
        after = state.get(AFTER_FAILURE)
        if after is not None:
            after.serve_backoff = True
