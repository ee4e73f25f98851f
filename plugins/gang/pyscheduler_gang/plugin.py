"""`Gang`: all members of a gang that its minimum asks for are bound together, or none is.

A member that finds a node waits at Permit until every gang of its gang group has its quorum; then all that wait are
let through. Where a member of a Strict gang fits nowhere, those that wait give up their places, and the rest of the
round is refused. NonStrict gangs keep what they have. When the wait takes too long, the gang is given up for good.

Differs from Koordinator as of today, whose design this follows: pods' annotations go before the PodGroup, the schedule
cycle is there, members wait until one deadline for all, and the annotation `timeout` is written.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, Final

import attrs

from pyscheduler.api import ENDED_PODS, Pod
from pyscheduler.framework import (
    AFTER_FAILURE,
    GROUP_CYCLE,
    WHAT_IF,
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
from pyscheduler.podgroup import DIALECTS, GroupId, PodGroups, StatusController, kinds_of, status_rules
from pyscheduler_gang import messages, one_cycle
from pyscheduler_gang.args import SERVABLE_DIALECTS, GangArgs
from pyscheduler_gang.deadlock import DeadlockSide
from pyscheduler_gang.following import Following
from pyscheduler_gang.gangs import Gangs, has_timed_out
from pyscheduler_gang.introspection import add_routes
from pyscheduler_gang.passes import Passes
from pyscheduler_gang.telling import tell
from pyscheduler_gang.timeouts import TimeoutMarks
from pyscheduler_gang.verdicts import Verdicts

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from pyscheduler.api import ResourceKind
    from pyscheduler.framework import (
        CycleState,
        Handle,
        Nodes,
        NodeStatuses,
        PostFilterResult,
        PreFilterResult,
        SignFragment,
    )
    from pyscheduler_gang.record import GangRecord

__all__ = ["Gang"]

#: Written where this plugin refused the pod at PreFilter, so that its PostFilter leaves the others in peace.
_REFUSED: Final[StateKey[bool]] = StateKey("Gang/refused")


@attrs.frozen
class _Shared:
    """What the plugins of all profiles have in common."""

    gangs: Gangs
    passes: Passes
    verdicts: Verdicts
    following: Following

    @classmethod
    def make(cls, plugin: str, handle: Handle, groups: PodGroups, args: GangArgs) -> _Shared:
        gangs = Gangs(plugin, handle, groups, groups.claim(plugin, args.dialects or None), args)
        passes = Passes(gangs, handle)
        marks = TimeoutMarks(handle)
        verdicts = Verdicts(gangs, passes, marks, handle)
        return cls(gangs, passes, verdicts, Following(gangs, passes, verdicts, marks, handle))


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
    #: A gang waits as long as it says.
    max_permit_wait_seconds: float = math.inf

    def __init__(self, args: object = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        if handle is None:
            raise ConfigError("Gang is made by a scheduler; it needs a handle")
        options = args if isinstance(args, GangArgs) else GangArgs()
        groups = PodGroups.of(handle)
        shared = handle.shared("kube-pyscheduler-gang", lambda: _Shared.make(self.name, handle, groups, options))
        if shared.gangs.args != options:
            raise ConfigError("the args of Gang differ between profiles; gangs are shared by all, so make them equal")
        shared.gangs.profiles.add(handle.profile_name)
        add_routes(shared.gangs, handle)
        self.gangs: Final = shared.gangs
        self.verdicts: Final = shared.verdicts
        self._passes: Final = shared.passes
        self._statuses: Final = StatusController.of(handle)
        self._deadlocks: Final = groups.deadlocks
        self._deadlocks.join(
            self.name,
            DeadlockSide(
                handle=handle,
                deadlock=options.deadlock,
                gangs=shared.gangs,
                passes=shared.passes,
                verdicts=shared.verdicts,
            ),
        )
        self.rbac = (*type(self).rbac, *status_rules(shared.gangs.dialects))  # type: ignore[misc]  # args count here

    async def run(self) -> None:
        """Keep the status of PodGroups."""
        await self._statuses.run()

    # --- events

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return pods that come to the gang group. All else that helps a sleeping gang, it is activated for."""
        changes = ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        return (ClusterEventWithHint(ClusterEvent(EventResource.POD, changes), self.after_pod_change),)

    def after_pod_change(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Queue where the pod itself changed, or another one joined its gang group, which can be tried now."""
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
        """Let plain pods be signed; what becomes of a member depends on the others."""
        if self.gangs.key(pod) is not None:
            return Status.unschedulable("pods of a gang are not signable")
        return ()

    def groups_to_schedule(self, pod: Pod) -> Mapping[Hashable, Iterable[Pod]] | None:
        """Return the gangs that are scheduled with the pod in one cycle, where that is the strategy."""
        return one_cycle.groups_to_schedule(self.gangs, pod)

    def places_missing(self, group: Hashable) -> int:
        """Return how many members a gang is short of that is scheduled in one cycle."""
        state = self.gangs.directory.get(group) if isinstance(group, GroupId) else None
        return max(1, state.group.min - state.assigned_count) if state is not None else 1

    # --- extension points

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        """Refuse a member whose gang cannot be complete, was given up, or had its turn in this round."""
        found = self.gangs.find(pod)
        if found is None or state.get(WHAT_IF):
            return None
        gang, record = found
        if record is None:
            return Status.unresolvable(messages.cannot_find(gang, pod))
        self._keep_quiet(state, record)
        tell(record, pod, self.handle)
        refusal = self._refusal(record, pod)
        if refusal is None:
            self._deadlocks.tried(pod)
            return None
        self._deadlocks.refused()
        state.write(_REFUSED, True)
        return Status.unresolvable(refusal)

    def _refusal(self, record: GangRecord, pod: Pod) -> str | None:
        gangs = self.gangs
        if pod.uid in record.timed_out or has_timed_out(pod):
            gone = messages.timed_out(record.id, pod)
            return gone if record.state.group.is_declared else messages.not_init(record.id, pod)
        refusal: str | None = None
        if not record.state.group.is_declared:
            refusal = messages.not_init(record.id, pod)
        elif (other := gangs.other_scheduler(record, pod)) is not None:
            refusal = messages.different_schedulers(pod.scheduler_name, other)
        elif not gangs.is_settled(record):
            refusal = self._deadlocks.refusal(record.state) or gangs.not_ready(record, pod)
            if refusal is None and gangs.takes_turns(record):
                return self._passes.take_turn(record, pod)
            if refusal is None:
                self._passes.try_freely(record, pod)
            # A NonStrict member is tried now, and sleeps if it fails.
        else:
            return None
        if pod.uid in record.state.pending and pod.uid not in record.visited:
            record.asleep[pod.uid] = None
        return refusal

    def _keep_quiet(self, state: CycleState, record: GangRecord) -> None:
        """See to it that a rollback of the gang group does not wake the gang group."""
        after = state.get(AFTER_FAILURE)
        if after is None or self.gangs.is_settled(record):
            return
        after.serve_backoff = True
        if record.ignored_by is None:
            record.ignored_by = lambda other: (
                not self.gangs.is_settled(record) and self.gangs.in_gang_group(record.state.gang_group, other)
            )
        after.ignored_by = record.ignored_by

    def post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeStatuses
    ) -> tuple[PostFilterResult | None, Status]:
        """Let a Strict gang group give up its places where one of its members fits nowhere."""
        found = self.gangs.find(pod)
        if found is None:
            return None, Status.unschedulable()
        gang, record = found
        if record is None:
            return None, Status.unschedulable(messages.no_gang(pod, gang))
        is_out = not record.state.group.is_declared or pod.uid in record.timed_out
        if state.get(_REFUSED) or is_out or self.gangs.is_settled(record):
            return None, Status.unschedulable()
        self._passes.missed_turn(record, pod)
        self._deadlocks.tried(pod)
        if not self.gangs.is_strict(record):
            return None, Status.unschedulable()
        if state.get(GROUP_CYCLE) is not None:
            return None, Status.unschedulable(messages.rejected_itself(record.id))
        error = FitError(num_all_nodes=len(self.handle.snapshot.nodes), diagnosis=Diagnosis(node_statuses=statuses))
        self.verdicts.member_failed(record, pod, str(error))
        return None, Status.unschedulable(messages.rejected_itself(record.id))

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Do no more than note it; a member counts from Permit on."""
        if state.get(GROUP_CYCLE) is None:
            self._deadlocks.took(pod)
        return None

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Let the member wait, or all of them through."""
        found = self.gangs.find(pod)
        if found is None:
            return None
        record = found[1]
        if record is None or self.gangs.directory.place_of(pod.uid) is None:
            return Status.unschedulable(messages.GANG_NOT_FOUND)
        cycle = state.get(GROUP_CYCLE)
        if cycle is not None:
            return one_cycle.permit(self.gangs, record, cycle)
        if not self.gangs.is_settled(record) and self._passes.is_over(record):
            return Status.unschedulable(messages.rejected_itself(record.id))
        if self.verdicts.admit(record, pod):
            return None
        return Status.wait(timeout=self.verdicts.remaining_seconds(record))

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Go by why the member gave up its place; one that had it in thought gives up nothing."""
        if state.get(GROUP_CYCLE) is not None:
            return
        record = self.gangs.of(pod)
        self._deadlocks.gave_back(pod, self.handle.wait_verdict(pod.uid))
        if record is None:
            self.verdicts.forget(pod.uid)
        else:
            self.verdicts.unreserve(record, pod)

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Count the member as bound, and let the status of its PodGroup say so."""
        record = self.gangs.of(pod)
        self.verdicts.forget(pod.uid)
        if record is not None:
            self.gangs.directory.satisfy(record.id)
            self._statuses.bound(pod)

    def check_invariants(self) -> None:
        """Raise AssertionError where what is known of gangs contradicts itself."""
        self.gangs.check_invariants()
        self.verdicts.check_invariants()
