"""Coscheduling: the pods of a group are bound together, or none of them is.

Members that find a node wait at Permit, holding it, until as many as the group's minimum hold one; then all of them are
let go. If one of them fits nowhere, and the group misses more than a small share of its members, those that wait give
their nodes back at once, and the group is refused for a while so that others have a chance. A member whose time is up
takes the others along. No rule depends on PostFilter: profiles may leave it out, and groups then end by their time.

Differs from kube-scheduler: it has no such plugin. Source: coscheduling of scheduler-plugins, and
podgroup-scheduler-framework, from which the window after a failure comes; see the README for where this one differs.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from pyscheduler.api import ENDED_PODS
from pyscheduler.api.durations import format_duration
from pyscheduler.framework import (
    AFTER_FAILURE,
    GROUP_CYCLE,
    WHAT_IF,
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
from pyscheduler.podgroup import DIALECTS, StatusController, coscheduling_key, kinds_of, places_needed, status_rules
from pyscheduler_coscheduling import quorum
from pyscheduler_coscheduling.args import CoschedulingArgs
from pyscheduler_coscheduling.deadlock import DeadlockSide
from pyscheduler_coscheduling.hints import Hints
from pyscheduler_coscheduling.listening import Listener
from pyscheduler_coscheduling.members import NOT_FOUND, Members
from pyscheduler_coscheduling.min_resources import resource_gap
from pyscheduler_coscheduling.one_cycle import OneCycle

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework import (
        ClusterEventWithHint,
        CycleState,
        GroupVerdict,
        Handle,
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

#: Written where the plugin itself refused the pod; no attempt to place it failed.
_REFUSED: Final[StateKey[bool]] = StateKey("Coscheduling/refused")
#: Written where the pod was refused because its group yields to another; PostFilter has nothing to deal with then.
_YIELDS: Final[StateKey[bool]] = StateKey("Coscheduling/yields")
#: In one object for all profiles: the names of those that have the plugin.
_PROFILES: Final = "Coscheduling/profiles"
#: What `scheduleTimeoutSeconds` can say at most.
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
    """All or nothing for groups of pods, by Permit or in one cycle."""

    args_type = CoschedulingArgs
    args: CoschedulingArgs
    #: Those of other plugins' dialects, too, because `dialects` may claim them; an absent CRD costs nothing.
    watches = (*kinds_of(dialect for dialect in DIALECTS if dialect.name != _IN_TREE), ENDED_PODS)
    max_permit_wait_seconds = _LONGEST_WAIT

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
        self._one_cycle = OneCycle(self.args, self.members)
        self._hints = Hints(self.members)
        self._deadlocks = self.members.groups.deadlocks
        side = DeadlockSide(handle=handle, deadlock=self.args.deadlock, members=self.members, profiles=self._profiles)
        self._deadlocks.join(self.name, side)
        self._listener = Listener(self.name, handle, self.members, lambda: frozenset(self._profiles))
        self.rbac = status_rules(self.members.dialects)  # type: ignore[misc]  # of a class, as a rule; args count here
        self._statuses = StatusController.of(handle)
        self._denied_text = format_duration(self.args.denied_pg_expiration_time_seconds)
        #: By group: the priority of the member that was tried first, until members were seen to differ.
        self._priorities: dict[GroupId, int | None] = {}

    async def run(self) -> None:
        """Keep the status of PodGroups."""
        await self._statuses.run()

    def close(self) -> None:
        """Let no timer fire any more."""
        self._listener.close()
        self.members.close()

    # --- QueueSort

    def sort_key(self, info: QueuedPodInfo) -> tuple[object, ...]:
        groups = self.members.groups
        return coscheduling_key(info, groups.directory, groups.last_failed, epoch=groups.epoch)

    # --- EnqueueExtensions

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return self._hints.registrations()

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment] | Status:
        """Let plain pods be signed; what becomes of a member depends on the others, and on the time."""
        if self.members.of(pod) is not None:
            return Status.unschedulable("pods of a group are not signable")
        return ()

    # --- the group cycle

    def groups_to_schedule(self, pod: Pod) -> Mapping[Hashable, Iterable[Pod]] | None:
        return self._one_cycle.groups(pod)

    def places_missing(self, group: Hashable) -> int:
        return self._one_cycle.missing(group)

    def group_cycle_ended(self, groups: Collection[Hashable], verdict: GroupVerdict) -> None:
        self._one_cycle.ended(groups, verdict)

    # --- PreFilter

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        group = self.members.of(pod)
        if group is None:
            if self.args.require_group and self.members.directory.group_id(pod) is None:
                return Status.unresolvable(_NO_GROUP)
            return None
        if state.get(WHAT_IF):
            return None
        self._serve_backoff(state)
        if not group.group.is_declared:
            return None
        self._compare_priority(group, pod)
        yields = self._deadlocks.refusal(group)
        refusal = yields or self._refusal(group, pod, nodes)
        if not refusal:
            self._deadlocks.tried(pod)
            self.members.tried(group, pod)
            return None
        if yields:
            state.write(_YIELDS, True)
        self._deadlocks.refused()
        state.write(_REFUSED, True)
        # No preemption for a group that is not ready: it would evict others' pods and then not start.
        return Status.unresolvable(refusal)

    def _refusal(self, group: GroupState, pod: Pod, nodes: Nodes) -> str:
        members, key = self.members, group.id
        if members.failures.is_denied(key):
            return f"pod with pgName: {key} last failed in {self._denied_text}, deny"
        if members.failures.is_backed_off(key):
            return f"podGroup {key} failed recently"
        short = quorum.shortage(group, pod, count_succeeded=members.counts_succeeded(group))
        short = short or quorum.conflict(group, pod, frozenset(self._profiles))
        if short:
            # Not denied: the member that is missing must be able to help at once.
            members.short.add(key)
            return short
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

    def _compare_priority(self, group: GroupState, pod: Pod) -> None:
        """Warn once per group whose members differ in priority: they are not tried one after the other then."""
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
        if group is None or not group.group.is_declared:
            return None, Status.unschedulable("can not find pod group")
        if state.get(_YIELDS):
            return _NOTHING
        members, count = self.members, self.members.counts_succeeded(group)
        was_tried = not state.get(_REFUSED)
        if was_tried:
            self._deadlocks.tried(pod)
        members.drop_ended(group)
        if quorum.is_satisfied(group, count_succeeded=count):
            return _NOTHING
        cycle = state.get(GROUP_CYCLE)
        if cycle is not None:
            return None, self._one_cycle.post_filter(group, pod, cycle, was_tried=was_tried)
        if quorum.is_small_gap(group, self.args.pod_group_reject_percentage, count_succeeded=count):
            return _NOTHING
        members.roll_back(group, "optimistic rejection in PostFilter")
        enough = quorum.siblings(group, count_succeeded=count) >= group.group.min
        back_off = enough and self.args.pod_group_backoff_seconds > 0
        if was_tried:
            members.fail(group, back_off=back_off)
            self._listen_for_room(state, group, pod)
        else:
            # The window of denied groups is for groups that were tried: a member that is missing must help at once.
            members.refused(group, back_off=back_off)
        reason = f"PodGroup {group.id} gets rejected due to Pod {pod.name} is unschedulable even after PostFilter"
        return None, Status.unschedulable(reason)

    # --- Permit

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        group = self.members.of(pod)
        if group is None:
            return None
        members = self.members
        if not group.group.is_declared:
            members.short.add(group.id)
            return Status.unschedulable(NOT_FOUND)
        cycle = state.get(GROUP_CYCLE)
        if cycle is not None:
            return self._one_cycle.permit(group, cycle)
        # In one cycle all members are tried anyway, and who is reserved now has a place with the others.
        is_first = members.hold(group, pod, node_name) and not self._one_cycle.enabled
        if members.satisfied(group):
            members.let_go(group)
            return None
        if is_first and members.failures.is_hushed(group.id):
            state.write(_REFUSED, True)
            return Status.unschedulable(f"podGroup {group.id} failed recently")
        if is_first:
            # Once, not for each that waits: whoever becomes pending later enters the queue by itself.
            members.wake(group.id)
        seconds = group.group.wait_seconds
        return Status.wait(timeout=self.args.wait_seconds if seconds is None else seconds)

    # --- Reserve

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if state.get(GROUP_CYCLE) is None:
            self._deadlocks.took(pod)
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        if state.get(GROUP_CYCLE) is not None:
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
            # Part of a rollback, in which the group was dealt with; its members must not be woken by it.
            after = state.get(AFTER_FAILURE)
            if after is not None:
                after.ignored_by = group.is_pending
            return
        if cause == "stopped" or state.get(_REFUSED) or not group.group.is_declared or members.satisfied(group):
            return
        timed_out = cause == "timeout" and is_ours
        if timed_out and members.failures.has_just_failed(group.id):
            # The time of all is up at once; the first of them has dealt with the rest.
            return
        # A group whose time was up has to wait for room, unless some member has not looked for it since it appeared.
        # Whatever else befell the group is over.
        retry = not timed_out or members.take_retry(group, but=pod.uid)
        members.roll_back(group, "rejection in Unreserve")
        members.fail(group, retry=retry)
        # One that was preempted comes back by itself, after its backoff. Members may preempt each other.
        if cause == "deleted" and not members.failures.is_refused(group.id):
            members.wake(group.id)

    # --- PostBind

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        if self.members.of(pod) is not None:
            self._statuses.bound(pod)

    def _listen_for_room(self, state: CycleState, group: GroupState, pod: Pod) -> None:
        """Let one pod that fits nowhere say how much room its group needs; in a window no room is of use."""
        members, after = self.members, state.get(AFTER_FAILURE)
        if after is None or members.failures.is_refused(group.id) or not members.may_listen(group, pod):
            return
        unplaced = (*group.pending.values(), *group.waiting.values())
        after.room_for = places_needed(pod, unplaced, members.missing(group))

    def _serve_backoff(self, state: CycleState) -> None:
        after = state.get(AFTER_FAILURE)
        if after is not None:
            after.serve_backoff = True
