"""`Gang`: members of a gang are bound only after enough of them have found nodes.

A member that finds a node waits at Permit. The gangs of a *gang group* start together: when each of them has enough
members with nodes, all their waiting members are allowed.

Gangs are Strict or NonStrict. If a member of a Strict gang does not fit, all waiting members of the gang group give up
their nodes. If a member of a NonStrict gang does not fit, the others keep their nodes. If a member waits longer than
the wait time of its gang, all unbound members of the gang group are refused.

The plugin follows Koordinator's design documents.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, Final

from pyscheduler.api import ENDED_PODS, Pod
from pyscheduler.framework import (
    AFTER_FAILURE,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    ConfigError,
    Diagnosis,
    EnqueueExtensions,
    EventResource,
    FitError,
    GroupCyclePlugin,
    PermitPlugin,
    PolicyRule,
    PostBindPlugin,
    PostFilterPlugin,
    PreFilterPlugin,
    QueueingHint,
    ReservePlugin,
    SignPlugin,
    StateKey,
    Status,
)
from pyscheduler.podgroup import DIALECTS, GroupId, PodGroups, StatusController, kinds_of, places_needed, status_rules
from pyscheduler_gang import group_cycle, messages, network_topology
from pyscheduler_gang.args import SERVABLE_DIALECTS, GangArgs
from pyscheduler_gang.deadlock import DeadlockSide
from pyscheduler_gang.event_handlers import GangEventHandlers
from pyscheduler_gang.gangs import has_timed_out
from pyscheduler_gang.introspection import add_routes
from pyscheduler_gang.warnings import warn_about_gang

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

    from pyscheduler.api import ResourceKind
    from pyscheduler.framework import (
        CycleState,
        Handle,
        Nodes,
        NodeStatuses,
        PlacementLevels,
        PostFilterResult,
        PreFilterResult,
        SignFragment,
    )
    from pyscheduler_gang.record import GangRecord

__all__ = ["Gang"]

#: Set if this plugin refused the pod at PreFilter, so that its PostFilter does not roll back the gang.
_REFUSED: Final[StateKey[bool]] = StateKey("Gang/refused")


class Gang(
    PreFilterPlugin,
    PostFilterPlugin,
    ReservePlugin,
    PermitPlugin,
    PostBindPlugin,
    EnqueueExtensions,
    SignPlugin,
    GroupCyclePlugin,
):
    """Schedule gangs: enough members together, or none. Pods without a gang pass it untouched."""

    name: ClassVar[str] = "Gang"
    args_type: ClassVar[type | None] = GangArgs
    watches: ClassVar[Sequence[ResourceKind]] = (
        *kinds_of(each for each in DIALECTS if each.name in SERVABLE_DIALECTS),
        ENDED_PODS,
    )
    rbac: ClassVar[Sequence[PolicyRule]] = (PolicyRule(api_groups=[""], resources=["pods"], verbs=["patch"]),)
    #: A gang may wait as long as it says.
    max_permit_wait_seconds: float = math.inf

    @classmethod
    def watched_kinds(cls, args: object) -> Sequence[ResourceKind]:
        """Return the kinds of PodGroups, and of the layers of the network if gangs may name them."""
        is_aware = isinstance(args, GangArgs) and args.aware_network_topology
        return (*cls.watches, *((network_topology.CLUSTER_NETWORK_TOPOLOGIES,) if is_aware else ()))

    def __init__(self, args: object = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        if handle is None:
            raise ConfigError("Gang needs a handle, which the scheduler gives it")
        options = args if isinstance(args, GangArgs) else GangArgs()
        self.watches = self.watched_kinds(options)  # type: ignore[misc]  # of a class, as a rule; args count here
        groups = PodGroups.of(handle)
        shared = handle.shared("kube-pyscheduler-gang", lambda: GangEventHandlers(self.name, handle, groups, options))
        if shared.gangs.args != options:
            raise ConfigError(
                "the args of Gang differ between profiles; profiles share their gangs, so make the args equal"
            )
        shared.gangs.profiles.add(handle.profile_name)
        add_routes(shared.gangs, handle)
        self.gangs: Final = shared.gangs
        self.verdicts: Final = shared.verdicts
        self._rounds: Final = shared.rounds
        self._statuses: Final = StatusController.of(handle)
        self._deadlocks: Final = shared.gangs.deadlocks
        self._deadlocks.join(
            self.name,
            DeadlockSide(
                handle=handle,
                deadlock=options.deadlock,
                gangs=shared.gangs,
                rounds=shared.rounds,
                verdicts=shared.verdicts,
            ),
        )
        self.rbac = (*type(self).rbac, *status_rules(shared.gangs.dialects))  # type: ignore[misc]  # args count here

    async def run(self) -> None:
        """Write the status of PodGroups."""
        await self._statuses.run()

    # --- events

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return pods that join the gang group; after all other changes the plugin activates pods itself."""
        changes = ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        return (ClusterEventWithHint(ClusterEvent(EventResource.POD, changes), self.after_pod_change),)

    def after_pod_change(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Retry the pod if it changed itself, or if another pod joined its gang group, which can be tried now."""
        if not isinstance(new, Pod):
            return QueueingHint.SKIP
        record = self.gangs.of(pod)
        if record is None or new.uid == pod.uid:
            return QueueingHint.QUEUE
        gang = self.gangs.key(new)
        if gang is None or gang.family != record.id.family or gang.key not in record.state.group.gang_group:
            return QueueingHint.SKIP
        if pod.uid in record.timed_out or self.gangs.not_ready(record, pod) is not None:
            return QueueingHint.SKIP
        return QueueingHint.QUEUE

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment] | Status:
        """Sign plain pods; the result for a member depends on other members."""
        if self.gangs.key(pod) is not None:
            return Status.unschedulable("pods of a gang are not signable")
        return ()

    def groups_to_schedule(self, pod: Pod) -> Mapping[Hashable, Iterable[Pod]] | None:
        """Return the gangs that are scheduled with the pod in one group cycle, if that is the strategy."""
        return group_cycle.groups_to_schedule(self.gangs, pod) if self.gangs.uses_group_cycle else None

    def groups_to_preempt(self, pod: Pod) -> Mapping[Hashable, Iterable[Pod]] | None:
        """Return the gangs that must fit before a member may preempt."""
        return None if self.gangs.uses_group_cycle else group_cycle.groups_to_schedule(self.gangs, pod)

    def places_missing(self, group: Hashable) -> int:
        """Return how many members with a node a gang still needs, at least one."""
        state = self.gangs.directory.get(group) if isinstance(group, GroupId) else None
        return max(1, state.group.min - state.assigned_count) if state is not None else 1

    def placement_levels(self, groups: Collection[Hashable], nodes: Nodes) -> PlacementLevels | Status | None:
        """Return the parts of the network in which a gang group is gathered."""
        if not self.gangs.args.aware_network_topology:
            return None
        states = [
            state
            for each in groups
            if isinstance(each, GroupId) and (state := self.gangs.directory.get(each)) is not None
        ]
        return network_topology.placement_levels(states, nodes, self.handle)

    # --- extension points

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        """Refuse a member whose gang cannot be complete or timed out, or that had its turn in this round."""
        found = self.gangs.find(pod)
        if found is None or (state.trial is not None and state.trial.is_question):
            return None
        gang, record = found
        if record is None:
            return Status.unresolvable(messages.about(messages.CANNOT_FIND, gang, pod))
        if state.trial is not None and not state.trial.is_attempt:
            refusal = self._standing_refusal(record, pod)
            return None if refusal is None else Status.unresolvable(refusal)
        self._ignore_own_rollback(state, record)
        warn_about_gang(record, pod, self.handle)
        refusal = self._refusal(record, pod)
        if refusal is None:
            self._deadlocks.tried(pod)
            return None
        self._deadlocks.refused()
        state.write(_REFUSED, True)
        return Status.unresolvable(refusal)

    def _standing_refusal(self, record: GangRecord, pod: Pod) -> str | None:
        """Return why a member must not be tried, whoever has the turn; change nothing."""
        gangs = self.gangs
        if not record.state.group.is_declared:
            return messages.about(messages.NOT_INIT, record.id, pod)
        if _is_timed_out(record, pod):
            return messages.about(messages.TIMED_OUT, record.id, pod)
        if (other := gangs.other_scheduler(record, pod)) is not None:
            return messages.different_schedulers(pod.scheduler_name, other)
        if gangs.is_satisfied_for_good(record):
            return None
        return self._deadlocks.refusal(record.state) or gangs.not_ready(record, pod)

    def _refusal(self, record: GangRecord, pod: Pod) -> str | None:
        refusal = self._standing_refusal(record, pod)
        if _is_timed_out(record, pod):
            return refusal
        if refusal is None:
            if self.gangs.is_satisfied_for_good(record):
                return None
            if self.gangs.takes_turns(record):
                return self._rounds.take_turn(record, pod)
            self._rounds.try_freely(record, pod)
        if pod.uid in record.state.pending and pod.uid not in record.visited:
            record.asleep[pod.uid] = None
        return refusal

    def _ignore_own_rollback(self, state: CycleState, record: GangRecord) -> None:
        """Let the members of the gang group ignore its own rollback."""
        after = state.get(AFTER_FAILURE)
        if after is None or self.gangs.is_satisfied_for_good(record):
            return
        after.serve_backoff = True
        if record.ignored_by is None:
            record.ignored_by = lambda other: (
                not self.gangs.is_satisfied_for_good(record) and self.gangs.shares_gang_group(record, other)
            )
        after.ignored_by = record.ignored_by

    def post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeStatuses
    ) -> tuple[PostFilterResult | None, Status]:
        """Roll back a Strict gang group if one of its members does not fit."""
        found = self.gangs.find(pod)
        if found is None:
            return None, Status.unschedulable()
        gang, record = found
        if record is None:
            return None, Status.unschedulable(messages.no_gang(pod, gang))
        is_out = not record.state.group.is_declared or pod.uid in record.timed_out
        if state.get(_REFUSED) or is_out or self.gangs.is_satisfied_for_good(record):
            return None, Status.unschedulable()
        self._rounds.missed_turn(record, pod)
        self._deadlocks.tried(pod)
        if not self.gangs.is_strict(record):
            return None, Status.unschedulable()
        if state.trial is not None and state.trial.is_attempt:
            return None, Status.unschedulable(messages.rejected_itself(record.id))
        error = FitError(num_all_nodes=len(self.handle.snapshot.nodes), diagnosis=Diagnosis(node_statuses=statuses))
        self.verdicts.member_failed(record, pod, str(error))
        after = state.get(AFTER_FAILURE)
        if after is not None:
            # After the roll-back, because the other members need room, too.
            after.room_for = places_needed(pod, record.unbound(), self.places_missing(record.id))
        return None, Status.unschedulable(messages.rejected_itself(record.id))

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Record that the pod holds a node; a member counts from Permit on."""
        if state.trial is None:
            self._deadlocks.took(pod)
        return None

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Let the member wait, or allow all waiting members."""
        found = self.gangs.find(pod)
        if found is None:
            return None
        record = found[1]
        if record is None or self.gangs.directory.place_of(pod.uid) is None:
            return Status.unschedulable(messages.GANG_NOT_FOUND)
        if state.trial is not None:
            return group_cycle.permit(self.gangs, record, state.trial)
        if not self.gangs.is_satisfied_for_good(record) and self._rounds.is_over(record):
            return Status.unschedulable(messages.rejected_itself(record.id))
        if self.verdicts.admit(record, pod):
            return None
        return Status.wait(timeout=self.verdicts.remaining_seconds(record))

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Handle the cause why the member lost its node; after a trial nothing is to be done."""
        if state.trial is not None:
            return
        record = self.gangs.of(pod)
        self._deadlocks.gave_back(pod, self.handle.wait_verdict(pod.uid))
        if record is None:
            self.verdicts.forget(pod.uid)
        else:
            self.verdicts.unreserve(record, pod)

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Count the member as bound, and write the status of its PodGroup."""
        record = self.gangs.of(pod)
        self.verdicts.forget(pod.uid)
        if record is not None:
            self.gangs.directory.satisfy(record.id)
            self._statuses.bound(pod)

    def check_invariants(self) -> None:
        """Raise AssertionError if the records of gangs contradict each other."""
        self.gangs.check_invariants()
        self.verdicts.check_invariants()


def _is_timed_out(record: GangRecord, pod: Pod) -> bool:
    return pod.uid in record.timed_out or has_timed_out(pod)
