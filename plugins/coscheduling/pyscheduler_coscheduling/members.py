"""Record the node of each group member, and allow, reject or retry members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler.podgroup import ExpiringMap, PodGroups, asks, places_needed
from pyscheduler_coscheduling import quorum
from pyscheduler_coscheduling.deadlock_resolver.deadlocks import Deadlocks
from pyscheduler_coscheduling.windows import Failures

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyscheduler.api import Pod
    from pyscheduler.framework import Handle
    from pyscheduler.podgroup import GroupId, GroupState
    from pyscheduler_coscheduling.args import CoschedulingArgs
    from pyscheduler_coscheduling.windows import Moment
    from pyscheduler_quota.controller import QuotaReservations

__all__ = ["NOT_FOUND", "Members"]

NOT_FOUND: Final = "PodGroup not found"
"""The message for members whose group nobody declares."""

_ALLOWED: Final = "allowed"


class Members:
    """The groups of one profile's plugin."""

    def __init__(self, plugin: str, args: CoschedulingArgs, handle: Handle) -> None:
        self._plugin = plugin
        self._handle = handle
        self.groups = PodGroups.of(handle)
        self.deadlocks = Deadlocks.of(handle)
        self.dialects = self.groups.claim(plugin, args.dialects or None)
        self.directory = self.groups.directory
        self.waiting = handle.index_waiting_pods(self._waits_for)
        #: Set if groups wait for quota.
        self.quotas: QuotaReservations | None = None
        self.failures = Failures(
            handle.clock,
            denied_seconds=args.denied_pg_expiration_time_seconds,
            backoff_seconds=args.pod_group_backoff_seconds,
            wake=self.wake,
            promises=self._promises,
        )
        #: Groups that had their minResources a short time ago.
        self.permitted: ExpiringMap[GroupId, bool] = ExpiringMap(handle.clock, args.permitted_seconds)
        #: Groups of which a member was refused because of the group itself, not for lack of room.
        self.short: set[GroupId] = set()
        #: The nodes that members hold in memory, by uid.
        self._node_of: dict[str, str] = {}
        #: The moment at which members were tried last, by uid, and at which groups were retried for untried members.
        self._tried: dict[str, Moment] = {}
        self._retried: dict[GroupId, Moment] = {}
        #: The uid of the member that listens for room, by group, until the member is tried.
        self._listener: dict[GroupId, str] = {}
        #: Groups whose listener is like all other members without a node: only room that it sees helps the group.
        self._alike: set[GroupId] = set()

    def of(self, pod: Pod) -> GroupState | None:
        """Return the pod's group; None for a plain pod, and for a pod whose group another plugin serves."""
        return self.groups.served_by(self._plugin, pod)

    def is_served(self, state: GroupState) -> bool:
        """Return True if this plugin serves the group."""
        return self.groups.server_of(state) == self._plugin

    def waits_for_quota(self, state: GroupState) -> str:
        """Return why the group must wait for quota; "" if it need not."""
        return "" if self.quotas is None else self.quotas.refusal(state)

    # --- holding

    def hold(self, state: GroupState, pod: Pod, node_name: str) -> bool:
        """Record that a member holds a node; return True if it is the first to wait for the others."""
        first = not any(held.verdict is None for held in self.waiting.of(state.id))
        self._node_of[pod.uid] = node_name
        self.failures.holds(state.id, pod.uid)
        self.directory.hold(pod.uid)
        return first

    def give_back(self, pod: Pod) -> None:
        """Record that a member does not hold a node any more; idempotent."""
        group = self.directory.group_id(pod)
        if self._node_of.pop(pod.uid, None) is not None and group is not None:
            self.failures.holds_no_more(group, pod.uid)
        self.directory.release(pod.uid)

    def lost_promise(self, pod: Pod) -> None:
        """Record that a pod, of any kind, lost its nomination."""
        self.failures.released(by=self.directory.group_id(pod))

    def bound_or_gone(self, state: GroupState, pod: Pod) -> None:
        """Record that a member is bound, or is no member any more."""
        self._node_of.pop(pod.uid, None)
        self._tried.pop(pod.uid, None)
        self.failures.holds_no_more(state.id, pod.uid)

    def placed(self, state: GroupState) -> Iterator[tuple[Pod, str]]:
        """Yield the members with a node, in memory or in the API, and its name."""
        for pod in state.waiting.values():
            node_name = self._node_of.get(pod.uid)
            if node_name is not None:
                yield pod, node_name
        for pod in state.bound.values():
            yield pod, pod.node_name

    def satisfied(self, state: GroupState) -> bool:
        """Return True if the minimum of members has nodes, without rejected members."""
        if not quorum.is_satisfied(state):
            return False
        self.drop_ended(state)
        return quorum.is_satisfied(state)

    def missing(self, state: GroupState) -> int:
        """Return how many members with a node the group still needs, at least one."""
        return max(1, quorum.missing(state))

    def drop_ended(self, state: GroupState) -> None:
        """Do not count rejected members whose Unreserve has not run yet."""
        for held in self.waiting.of(state.id):
            verdict = held.verdict
            if verdict is not None and verdict.cause != _ALLOWED:
                self.directory.release(held.pod.uid)

    # --- ending waits

    def allow_all(self, state: GroupState) -> None:
        """Allow the waiting members: the group has its minimum. Those of a sub-group below its own minimum wait on."""
        self.failures.forgive(state.id)
        self.groups.passed(state.id)
        self.deadlocks.completed(state)
        for held in self.waiting.of(state.id):
            if quorum.may_start(state, held.pod):
                held.allow(self._plugin)

    def roll_back(self, state: GroupState, reason: str) -> None:
        """Reject all waiting members, except those that were allowed already."""
        for held in self.waiting.of(state.id):
            held.reject(self._plugin, reason)
        self.drop_ended(state)

    def fail(self, state: GroupState, *, back_off: bool = False, retry: bool = False) -> None:
        """Record that the group failed: it is refused for a while, and sorted behind groups that have waited longer."""
        self.failures.deny(state.id, back_off=back_off, retry=retry)
        self._sort_last(state.id)

    def refused(self, state: GroupState, *, back_off: bool) -> None:
        """Record that PreFilter refused a member: its group is sorted behind the others, and may be backed off."""
        if back_off:
            self.failures.back_off(state.id)
        self._sort_last(state.id)

    def _sort_last(self, group: GroupId) -> None:
        self.permitted.remove(group)
        if self.groups.last_failed.get(group) != self._handle.clock.wall():
            self.groups.failed(group)

    def tried(self, state: GroupState, pod: Pod) -> None:
        """Record that a member is tried now."""
        if self._listener.get(state.id) == pod.uid:
            del self._listener[state.id]
        self._tried[pod.uid] = self.failures.moment(state.id)

    def places_to_listen_for(self, state: GroupState, pod: Pod) -> int:
        """Return for how many pods like this member its group needs room; 0 if another member listens for room."""
        known = self._listener.get(state.id)
        if known is not None and known != pod.uid and known in state.pending:
            return 0
        self._listener[state.id] = pod.uid
        unplaced = (*state.pending.values(), *state.waiting.values())
        wanted = asks(pod)
        if all(asks(each) == wanted for each in unplaced):
            self._alike.add(state.id)
        else:
            self._alike.discard(state.id)
        return places_needed(pod, unplaced, self.missing(state))

    def is_listened_for(self, group: GroupId, pod: Pod) -> bool:
        """Return True if another member, which is like all of its group, listens for room."""
        listener = self._listener.get(group)
        if listener is None or listener == pod.uid or group not in self._alike:
            return False
        state = self.directory.get(group)
        return state is not None and listener in state.pending and listener not in state.gated

    def take_retry(self, state: GroupState, *, but: str) -> bool:
        """Return True, once, if a group timed out while members sleep that were not tried since the last change.

        The change may have moved them to their backoff. `but` gave up its node just now and does not count.
        """
        now = self.failures.moment(state.id)
        if self._retried.get(state.id) == now:
            return False
        if not any(self._tried.get(uid) != now for uid in state.pending if uid not in state.gated and uid != but):
            return False
        self._retried[state.id] = now
        return True

    # --- waking

    def wake(self, group: GroupId) -> None:
        """Activate the pending members."""
        state = self.directory.get(group)
        if state is not None:
            self._handle.activate([pod for uid, pod in state.pending.items() if uid not in state.gated])

    def is_blocked(self, state: GroupState, profiles: frozenset[str]) -> bool:
        """Return True if PreFilter would refuse members because of the group itself."""
        pod = next(iter(state.pending.values()), None)
        if pod is None or not state.group.is_declared:
            return True
        return bool(quorum.shortage(state, pod) or quorum.conflict(state, pod, profiles))

    def forget(self, group: GroupId) -> None:
        """Forget a group that is gone."""
        self.failures.forget(group)
        self._retried.pop(group, None)
        self._listener.pop(group, None)
        self._alike.discard(group)
        self.permitted.remove(group)
        self.short.discard(group)

    def close(self) -> None:
        """Cancel all timers."""
        self.failures.close()

    def _promises(self) -> Mapping[str, GroupId]:
        """Return the groups of nominated members, by uid."""
        nominator = self._handle.nominator
        nominated = [info.pod for node_name in nominator.nodes for info in nominator.pods_on(node_name)]
        return {pod.uid: group for pod in nominated if (group := self.directory.group_id(pod)) is not None}

    def _waits_for(self, pod: Pod) -> GroupId | None:
        state = self.of(pod)
        return None if state is None else state.id
