"""The groups that the plugin serves, as it acts on them: hold, give back, let go, wake up.

What the directory counts as waiting is what counts towards a minimum. A member whose wait has ended badly is taken out
of that count at once, by whoever ends it, or by `satisfied` where a timer, a deletion or a preemption did: its
Unreserve runs in a later turn of the loop, and until then nobody may be bound on its account.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler.podgroup import ExpiringMap, PodGroups
from pyscheduler_coscheduling import quorum
from pyscheduler_coscheduling.windows import Failures

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyscheduler.api import Pod
    from pyscheduler.framework import Handle
    from pyscheduler.podgroup import GroupId, GroupState
    from pyscheduler_coscheduling.args import CoschedulingArgs
    from pyscheduler_coscheduling.windows import Moment

__all__ = ["NOT_FOUND", "Members"]

NOT_FOUND: Final = "PodGroup not found"
"""What members are told whose group nobody declared."""

_ALLOWED: Final = "allowed"


class Members:
    """The groups of one profile's plugin, and what becomes of their pods."""

    def __init__(self, plugin: str, args: CoschedulingArgs, handle: Handle) -> None:
        self._plugin = plugin
        self._handle = handle
        self.groups = PodGroups.of(handle)
        self.dialects = self.groups.claim(plugin, args.dialects or None)
        self.directory = self.groups.directory
        self._count_succeeded = {dialect.name for dialect in self.dialects if dialect.count_succeeded}
        self.waiting = handle.index_waiting_pods(self._waits_for)
        self.failures = Failures(
            handle.clock,
            denied_seconds=args.denied_pg_expiration_time_seconds,
            backoff_seconds=args.pod_group_backoff_seconds,
            wake=self.wake,
            promises=self._promises,
        )
        #: Groups that had their minResources a short while ago.
        self.permitted: ExpiringMap[GroupId, bool] = ExpiringMap(handle.clock, args.permitted_seconds)
        #: Groups of which some member was refused because of what the group is, not for want of room.
        self.short: set[GroupId] = set()
        #: Where members are that hold a node in memory, by uid.
        self._node_of: dict[str, str] = {}
        #: As of when members were tried last, by uid, and groups were given another try for those who were not.
        self._tried: dict[str, Moment] = {}
        self._retried: dict[GroupId, Moment] = {}
        #: The member of each group that listens for room, by uid, until it is tried.
        self._listener: dict[GroupId, str] = {}

    def of(self, pod: Pod) -> GroupState | None:
        """Return the pod's group; None for a plain pod, and for one whose group is somebody else's."""
        return self.groups.served_by(self._plugin, pod)

    def is_served(self, state: GroupState) -> bool:
        """Tell whether this plugin answers for the group."""
        return self.groups.server_of(state) == self._plugin

    def counts_succeeded(self, state: GroupState) -> bool:
        """Tell whether members that succeeded may count in the group's dialect."""
        return state.group.dialect in self._count_succeeded

    # --- holding

    def hold(self, state: GroupState, pod: Pod, node_name: str) -> bool:
        """Take down that a member holds a node; tell whether it is the first to wait for the others."""
        first = not any(held.verdict is None for held in self.waiting.of(state.id))
        self._node_of[pod.uid] = node_name
        self.failures.holds(state.id, pod.uid)
        self.directory.hold(pod.uid)
        return first

    def give_back(self, pod: Pod) -> None:
        """Take down that a member does not hold a node any more; idempotent."""
        group = self.directory.group_id(pod)
        if self._node_of.pop(pod.uid, None) is not None and group is not None:
            self.failures.gave_back(group, pod.uid)
        self.directory.release(pod.uid)

    def lost_promise(self, pod: Pod) -> None:
        """Take down that a pod, of whatever kind, is not nominated any more to the node it was nominated to."""
        group = self.directory.group_id(pod)
        if group is not None and pod.uid not in self._node_of:
            self.failures.gave_back(group, pod.uid)
        self.failures.released(by=group)

    def settled(self, state: GroupState, pod: Pod) -> None:
        """Take down that a member is bound, or no member any more."""
        self._node_of.pop(pod.uid, None)
        self._tried.pop(pod.uid, None)
        self.failures.settled(state.id, pod.uid)

    def placed(self, state: GroupState) -> Iterator[tuple[Pod, str]]:
        """Iterate over the members that have a node, in memory or in the API, with its name."""
        for pod in state.waiting.values():
            node_name = self._node_of.get(pod.uid)
            if node_name is not None:
                yield pod, node_name
        for pod in state.bound.values():
            yield pod, pod.node_name

    def satisfied(self, state: GroupState) -> bool:
        """Tell whether the minimum has a node, those left out whose wait has ended badly."""
        count = self.counts_succeeded(state)
        if not quorum.is_satisfied(state, count_succeeded=count):
            return False
        self.drop_ended(state)
        return quorum.is_satisfied(state, count_succeeded=count)

    def missing(self, state: GroupState) -> int:
        """Return how many members without a node must find one before the group has its minimum; one at least."""
        return max(1, state.group.min - quorum.assigned(state, count_succeeded=self.counts_succeeded(state)))

    def drop_ended(self, state: GroupState) -> None:
        """Count those out whose wait has ended badly and whose Unreserve is yet to run."""
        for held in self.waiting.of(state.id):
            verdict = held.verdict
            if verdict is not None and verdict.cause != _ALLOWED:
                self.directory.release(held.pod.uid)

    # --- ending waits

    def let_go(self, state: GroupState) -> None:
        """Let all who wait go on to be bound: the group has its minimum."""
        self.failures.forgive(state.id)
        self.groups.passed(state.id)
        self.groups.deadlocks.completed(state)
        for held in self.waiting.of(state.id):
            held.allow(self._plugin)

    def roll_back(self, state: GroupState, reason: str) -> None:
        """Reject all who wait. Those who were allowed already are on their way, and stay so."""
        for held in self.waiting.of(state.id):
            held.reject(self._plugin, reason)
        self.drop_ended(state)

    def fail(self, state: GroupState, *, back_off: bool = False, retry: bool = False) -> None:
        """Take down that the group failed: it is refused for a while, and goes behind those that have waited longer."""
        self.failures.deny(state.id, back_off=back_off, retry=retry)
        self._sort_last(state.id)

    def refused(self, state: GroupState, *, back_off: bool) -> None:
        """Take down that a member was refused untried: its group goes behind the others, and may be backed off."""
        if back_off:
            self.failures.back_off(state.id)
        self._sort_last(state.id)

    def _sort_last(self, group: GroupId) -> None:
        self.permitted.remove(group)
        if self.groups.last_failed.get(group) != self._handle.clock.wall():
            self.groups.failed(group)

    def tried(self, state: GroupState, pod: Pod) -> None:
        """Take down that a member is tried now."""
        if self._listener.get(state.id) == pod.uid:
            del self._listener[state.id]
        self._tried[pod.uid] = self.failures.moment(state.id)

    def may_listen(self, state: GroupState, pod: Pod) -> bool:
        """Tell whether a member is the one of its group that listens for room; one is enough."""
        known = self._listener.get(state.id)
        if known is None or known not in state.pending:
            known = self._listener[state.id] = pod.uid
        return known == pod.uid

    def take_retry(self, state: GroupState, *, but: str) -> bool:
        """Tell, once, whether the time of a group is up while members sleep that were not tried since there is news.

        They may have been told of the news, and have served their backoff meanwhile. `but` gave up a node just now.
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
        """Have the pending members tried, wherever they sleep."""
        state = self.directory.get(group)
        if state is not None:
            self._handle.activate([pod for uid, pod in state.pending.items() if uid not in state.gated])

    def is_blocked(self, state: GroupState, profiles: frozenset[str]) -> bool:
        """Tell whether members would be refused because of what the group is."""
        pod = next(iter(state.pending.values()), None)
        if pod is None or not state.group.is_declared:
            return True
        short = quorum.shortage(state, pod, count_succeeded=self.counts_succeeded(state))
        return bool(short or quorum.conflict(state, pod, profiles))

    def forget(self, group: GroupId) -> None:
        """Drop what is known of a group that is gone."""
        self.failures.forget(group)
        self._retried.pop(group, None)
        self._listener.pop(group, None)
        self.permitted.remove(group)
        self.short.discard(group)

    def close(self) -> None:
        """Let no timer fire any more."""
        self.failures.close()

    def _promises(self) -> Mapping[str, GroupId]:
        """Return the groups of members that are nominated to nodes, by uid."""
        nominator = self._handle.nominator
        nominated = [info.pod for node_name in nominator.nodes for info in nominator.pods_on(node_name)]
        return {pod.uid: group for pod in nominated if (group := self.directory.group_id(pod)) is not None}

    def _waits_for(self, pod: Pod) -> GroupId | None:
        state = self.of(pod)
        return None if state is None else state.id
