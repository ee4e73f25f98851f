"""Queueing hints: the events after which the scheduler retries pods that `Coscheduling` rejected.

Source: `EventsToRegister` of scheduler-plugins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import structs

from pyscheduler.api import KubeObject, Pod
from pyscheduler.framework import ActionType, ClusterEvent, ClusterEventWithHint, EventResource, QueueingHint
from pyscheduler.framework.watches import event_resource
from pyscheduler.podgroup import GroupId, kinds_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler_coscheduling.members import Members

__all__ = ["CoschedulingHints"]

_OF_MEMBERS: Final = ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
_NODE_ROOM: Final = (
    ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
)


class CoschedulingHints:
    """The events and hints of the plugin."""

    def __init__(self, members: Members) -> None:
        self._members = members

    def registrations(self) -> Sequence[ClusterEventWithHint]:
        """Return what `events_to_register` returns."""
        of_objects = [
            ClusterEventWithHint(
                ClusterEvent(event_resource(kind), ActionType.ADD | ActionType.UPDATE), self.after_object
            )
            for kind in kinds_of(self._members.dialects)
        ]
        gone = ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN
        return [
            *of_objects,
            ClusterEventWithHint(ClusterEvent(EventResource.POD, _OF_MEMBERS), self.after_member),
            ClusterEventWithHint(ClusterEvent(EventResource.POD, gone), self.after_room),
            ClusterEventWithHint(ClusterEvent(EventResource.NODE, _NODE_ROOM), self.after_room),
        ]

    def after_object(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Retry the pod if the object describes its group, unless only the status changed: that comes from the pods."""
        if not isinstance(new, KubeObject):
            return QueueingHint.SKIP
        dialect = self._members.groups.table.of_object(new)
        if dialect is None or (isinstance(old, KubeObject) and _is_same_but_for_status(old, new)):
            return QueueingHint.SKIP
        return self._if_same(pod, GroupId(new.namespace, new.name, dialect.family))

    def after_member(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Retry the pod if it changed itself, or if the other pod is or was in its group."""
        if isinstance(new, Pod):
            if new.uid == pod.uid:
                return QueueingHint.QUEUE
            if self._if_same(pod, self._members.directory.group_id(new)) is QueueingHint.QUEUE:
                return QueueingHint.QUEUE
        if isinstance(old, Pod):
            return self._if_same(pod, self._members.directory.group_id(old))
        return QueueingHint.SKIP

    def after_room(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Retry the pod if its group failed and is in no window, or if a member is gone."""
        group = self._members.directory.group_id(pod)
        failures = self._members.failures
        if group is None or failures.is_refused(group):
            return QueueingHint.SKIP
        if failures.is_recorded(group):
            return QueueingHint.SKIP if self._members.is_listened_for(group, pod) else QueueingHint.QUEUE
        is_member = isinstance(old, Pod) and self._members.directory.group_id(old) == group
        return QueueingHint.QUEUE if is_member else QueueingHint.SKIP

    def _if_same(self, pod: Pod, group: GroupId | None) -> QueueingHint:
        own = self._members.directory.group_id(pod)
        if own is None or own != group or self._members.failures.is_refused(own):
            return QueueingHint.SKIP
        return QueueingHint.QUEUE


def _is_same_but_for_status(old: KubeObject, new: KubeObject) -> bool:
    status = {"status": new.status} if hasattr(new, "status") else {}
    return old.annotations == new.annotations and structs.replace(old, metadata=new.metadata, **status) == new
