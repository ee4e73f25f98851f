"""GangScheduling: a PodGroup with the policy `gang` starts only if `minCount` of its pods can start together.

Members enter the queue once their PodGroup exists and has `minCount` pods. A member waits at Permit until `minCount`
members have a node.

Differs from kube-scheduler: once a gang has started, its succeeded members count towards `minCount`, too.

Source: kube-scheduler 1.36, `plugins/gangscheduling`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler.api import ENDED_PODS, Pod
from pyscheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EnqueueExtensions,
    EventResource,
    Handle,
    PermitPlugin,
    PreEnqueuePlugin,
    QueueingHint,
    ReservePlugin,
    Status,
)
from pyscheduler.podgroup import ChangeKind, GroupId, PodGroups
from pyscheduler.podgroup.wire import IN_TREE_PODGROUPS, InTreePodGroup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.podgroup import GroupChange, GroupState

__all__ = ["GangScheduling"]

#: How long members wait at Permit for their gang, in seconds.
_PERMIT_SECONDS: Final = 300.0

_PROFILES: Final = "pyscheduler/gang-scheduling/profiles"
_FAMILY: Final = "intree"
_TOO_FEW: Final = Status.unresolvable("waiting for minCount pods from a gang to appear in scheduling queue")
_WAIT: Final = Status.wait("waiting for minCount pods from a gang to be scheduled", timeout=_PERMIT_SECONDS)


class GangScheduling(PreEnqueuePlugin, ReservePlugin, PermitPlugin, EnqueueExtensions):
    """All or nothing for Kubernetes' own PodGroups."""

    watches = (IN_TREE_PODGROUPS, ENDED_PODS)

    def __init__(self, args: object = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        if handle is None:
            return
        groups = PodGroups.of(handle)
        groups.claim(self.name)
        self._directory = groups.directory
        self._profiles: set[str] = handle.shared(_PROFILES, set)
        self._profiles.add(handle.profile_name)
        #: Gangs of which a member was kept out of the queue.
        self._short: set[GroupId] = set()
        #: Gangs that a pod has completed which the queue is yet to hear of.
        self._completed: list[GroupState] = []
        #: Members that wait at Permit, by gang.
        self._held: dict[GroupId, list[str]] = {}
        self._in_one_cycle = handle.feature_gates.get("GenericWorkload", False)
        self._directory.subscribe(self._changed)
        handle.lister(Pod).add_event_handler(on_add=self._queued, on_update=lambda _, pod: self._queued(pod), late=True)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        # Neither a pod's group nor a PodGroup's policy ever changes.
        return (
            ClusterEventWithHint(ClusterEvent(EventResource.POD, ActionType.ADD), self.after_pod_added),
            ClusterEventWithHint(ClusterEvent(EventResource.POD_GROUP, ActionType.ADD), self.after_group_added),
        )

    def after_pod_added(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Queue where a member of the pod's group came."""
        group = _group_of(pod)
        same = isinstance(new, Pod) and group is not None and _group_of(new) == group
        return QueueingHint.QUEUE if same else QueueingHint.SKIP

    def after_group_added(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Queue where the pod's PodGroup came."""
        group = _group_of(pod)
        same = isinstance(new, InTreePodGroup) and group == GroupId(new.namespace, new.name, _FAMILY)
        return QueueingHint.QUEUE if same else QueueingHint.SKIP

    def pre_enqueue(self, pod: Pod) -> Status | None:
        group = _group_of(pod)
        if group is None:
            return None
        state = self._directory.get(group)
        if state is None or state.object is None:
            self._short.add(group)
            return Status.unresolvable(f'waiting for pods\'s pod group "{group.name}" to appear in scheduling queue')
        if not state.group.is_gang or self._pods_count(state) >= state.group.min:
            return None
        self._short.add(group)
        return _TOO_FEW

    def _pods_count(self, state: GroupState) -> int:
        """Return how many members there are; those without a node that others schedule do not count."""
        count = state.child_count + state.succeeded_count
        if not state.profiles.keys() <= self._profiles:
            count -= sum(pod.scheduler_name not in self._profiles for pod in state.pending.values())
        return count

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        if state.trial is None and _group_of(pod) is not None:
            self._directory.release(pod.uid)

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        group = _group_of(pod)
        if group is None:
            return None
        found = self._directory.get(group)
        if found is None or found.object is None:
            missing = f'podgroup.{IN_TREE_PODGROUPS.group} "{group.name}" not found'
            return Status.from_error(LookupError(f"failed to get podGroup {group.key}: {missing}"))
        if not found.group.is_gang:
            return None
        if state.trial is not None:
            placed = found.assigned_count + found.succeeded_count + len(state.trial.placed(group))
            return None if placed >= found.group.min else _WAIT
        self._directory.hold(pod.uid)
        held = self._held.setdefault(group, [])
        if found.assigned_count + found.succeeded_count < found.group.min:
            if not held and not self._in_one_cycle:
                # Once, not for each that waits: whoever becomes pending later enters the queue by itself.
                self.handle.activate(list(found.pending.values()))
            held.append(pod.uid)
            return _WAIT
        if not self._let_go(found, held):
            held.append(pod.uid)
            return _WAIT
        return None

    def _let_go(self, state: GroupState, held: list[str]) -> bool:
        """Let those go who wait; not where some have stopped waiting, and too few are left without them."""
        waits = [waiting for uid in held if (waiting := self.handle.get_waiting_pod(uid)) is not None]
        lost = [waiting.pod.uid for waiting in waits if waiting.verdict is not None]
        for uid in lost:
            self._directory.release(uid)
        if lost and state.assigned_count + state.succeeded_count < state.group.min:
            return False
        del self._held[state.id]
        for waiting in waits:
            waiting.allow(self.name)
        return True

    def _changed(self, change: GroupChange) -> None:
        """Let members into the queue whose gang has become complete."""
        state = change.state
        if change.kind is ChangeKind.FORGOTTEN:
            self._short.discard(state.id)
            self._held.pop(state.id, None)
        elif change.kind in {ChangeKind.JOINED, ChangeKind.DECLARED} and state.id in self._short:
            complete = not state.group.is_gang or self._pods_count(state) >= state.group.min
            if state.object is not None and complete:
                self._short.discard(state.id)
                self._completed.append(state)
                if change.pod is None or change.pod.uid not in state.pending:
                    self._let_in()

    def _queued(self, _pod: Pod) -> None:
        """Let the others in behind the pod that has completed their gang."""
        if self._completed:
            self._let_in()

    def _let_in(self) -> None:
        completed, self._completed = self._completed, []
        for state in completed:
            self.handle.activate(list(state.pending.values()))


def _group_of(pod: Pod) -> GroupId | None:
    """Return the group that the pod names in its spec."""
    named = pod.spec.scheduling_group
    if named is None or not named.pod_group_name:
        return None
    return GroupId(pod.namespace, named.pod_group_name, _FAMILY)
