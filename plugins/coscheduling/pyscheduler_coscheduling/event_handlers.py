"""Event handlers: they allow, reject or retry a group's pods when the group, its members or the cluster change."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from pyscheduler.api import Node, Pod
from pyscheduler.podgroup import ChangeKind
from pyscheduler_coscheduling.members import NOT_FOUND

if TYPE_CHECKING:
    from collections.abc import Callable

    from kube_objects.clock import Timer
    from pyscheduler.framework import Handle
    from pyscheduler.podgroup import GroupChange, GroupId, GroupState
    from pyscheduler_coscheduling.members import Members

__all__ = ["GroupEventHandlers"]

_log = logging.getLogger(__name__)

#: Seconds between a member that joins or leaves, and the attempts that update the messages of the others.
_REFRESH_AFTER: Final = 1.0
#: One second more for each so many members, up to `_REFRESH_AT_MOST`, because a refresh tries each member.
_MEMBERS_PER_SECOND: Final = 100
_REFRESH_AT_MOST: Final = 10.0


class GroupEventHandlers:
    """Handles events for one profile's plugin."""

    def __init__(self, plugin: str, handle: Handle, members: Members, profiles: Callable[[], frozenset[str]]) -> None:
        self._plugin = plugin
        self._handle = handle
        self._members = members
        self._profiles = profiles
        self._gated: dict[GroupId, int] = {}
        self._refreshes: dict[GroupId, Timer] = {}
        members.directory.subscribe(self._changed)
        handle.lister(Pod).add_event_handler(on_update=self._pod_changed, on_delete=self._pod_gone)
        handle.lister(Node).add_event_handler(
            on_add=lambda _: members.failures.released(), on_update=self._node_changed, on_delete=self._node_gone
        )

    def close(self) -> None:
        """Cancel all timers."""
        for timer in self._refreshes.values():
            timer.cancel()
        self._refreshes.clear()

    # --- groups

    def _changed(self, change: GroupChange) -> None:
        state = change.state
        if not self._members.is_served(state):
            return
        group = state.id
        if change.kind is ChangeKind.FORGOTTEN:
            if self._members.directory.get(group) is None:
                self._forget(group)
            return
        gated = len(state.gated)
        pod = change.pod
        if pod is not None and (change.kind is ChangeKind.LEFT or (change.kind is ChangeKind.MOVED and pod.node_name)):
            self._members.bound_or_gone(state, pod)
        # A member that takes or gives back a node is moved, too; this plugin did that itself.
        if change.kind is not ChangeKind.MOVED or gated != self._gated.get(group, 0):
            self._gated[group] = gated
            self._members.failures.changed(group)
        if change.kind is ChangeKind.DECLARED and not state.group.is_declared:
            self._members.roll_back(state, NOT_FOUND)
            return
        if change.kind is ChangeKind.LEFT and change.pod is not None:
            self._left(state, change.pod)
        self._allow_or_wake(state, change)

    def _allow_or_wake(self, state: GroupState, change: GroupChange) -> None:
        """Allow the waiting members if the group has its minimum now; wake the others if they can be tried now."""
        members, group, kind = self._members, state.id, change.kind
        # Permit checks by itself when a member takes a node; but another scheduler may bind a member, too.
        by_itself = kind is ChangeKind.MOVED and not (change.pod is not None and change.pod.node_name)
        if not by_itself and members.waiting.count(group) and members.satisfied(state):
            members.allow_all(state)
        if kind is ChangeKind.LEFT and state.pending and members.is_blocked(state, self._profiles()):
            # The last message of its members, for example about a failure, is out of date.
            members.short.add(group)
        if group not in members.short:
            return
        if not members.is_blocked(state, self._profiles()):
            members.short.discard(group)
            # In a window they would be refused again; its end wakes them, because the group has changed.
            if not members.failures.is_refused(group):
                members.wake(group)
        elif kind in {ChangeKind.JOINED, ChangeKind.LEFT} and group not in self._refreshes:
            after = min(_REFRESH_AFTER + state.child_count // _MEMBERS_PER_SECOND, _REFRESH_AT_MOST)
            self._refreshes[group] = self._handle.clock.call_later(after, lambda: self._refresh(group))

    def _refresh(self, group: GroupId) -> None:
        self._refreshes.pop(group, None)
        # In a window they would be refused for it; its end wakes them, because the group has changed.
        if group in self._members.short and not self._members.failures.is_refused(group):
            self._members.wake(group)

    def _left(self, state: GroupState, pod: Pod) -> None:
        """Reject a waiting pod that names another group now; the core handles deleted pods."""
        now = self._handle.lister(Pod).get(pod.name, pod.namespace)
        if now is None or now.uid != pod.uid or pod.is_terminal:
            return
        held = self._handle.get_waiting_pod(pod.uid)
        if held is not None and held.reject(self._plugin, f"pod does not belong to PodGroup {state.id} any more"):
            self._lost(state)
        # It may have ignored the room that its group gave back since it failed.
        self._handle.activate([now])

    def _lost(self, state: GroupState) -> None:
        """Roll back a group that lost a member with a node, unless it still has its minimum."""
        if not self._members.satisfied(state):
            self._members.roll_back(state, "rejection in Unreserve")
            self._members.fail(state, retry=True)

    def _forget(self, group: GroupId) -> None:
        self._members.forget(group)
        self._gated.pop(group, None)
        timer = self._refreshes.pop(group, None)
        if timer is not None:
            timer.cancel()

    # --- room

    def _pod_changed(self, old: Pod, new: Pod) -> None:
        if old.uid != new.uid:
            self._pod_gone(old)
        elif not new.node_name and old.status.nominated_node_name not in {"", new.status.nominated_node_name}:
            self._members.lost_promise(new)

    def _pod_gone(self, pod: Pod) -> None:
        if pod.node_name or pod.status.nominated_node_name:
            self._members.failures.released()

    def _node_changed(self, old: Node, new: Node) -> None:
        if (
            old.status.allocatable != new.status.allocatable
            or old.metadata.labels != new.metadata.labels
            or old.spec.taints != new.spec.taints
            or old.spec.unschedulable != new.spec.unschedulable
        ):
            self._members.failures.released()

    def _node_gone(self, node: Node) -> None:
        """Reject the members that hold a removed node, and roll back their groups."""
        members = self._members
        for group in members.waiting.groups():
            state = members.directory.get(group)  # type: ignore[arg-type]  # the keys are those that were given
            lost = [
                held.reject(self._plugin, f'node "{node.name}" is gone')
                for held in members.waiting.of(group)
                if held.node_name == node.name
            ]
            if state is not None and any(lost):
                _log.info("Pods waited for a node that is gone podGroup=%s node=%s", group, node.name)
                members.drop_ended(state)
                self._lost(state)
