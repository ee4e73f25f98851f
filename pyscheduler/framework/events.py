"""Cluster events and queueing hints: which event may make a rejected pod schedulable.

A plugin registers the events after which it may accept a pod that it rejected. A hint is a plugin's function that
checks whether such an event can help a pod.
"""

from __future__ import annotations

from enum import Enum, IntFlag, StrEnum
from typing import TYPE_CHECKING, Final, Protocol

import attrs

if TYPE_CHECKING:
    from pyscheduler.api import Pod

__all__ = [
    "ASSIGNED_POD_ADD",
    "ASSIGNED_POD_DELETE",
    "ASSIGNED_POD_UPDATE",
    "NODE_ADD",
    "NODE_DELETE",
    "UNSCHEDULED_POD_ADD",
    "UNSCHEDULED_POD_DELETE",
    "UNSCHEDULED_POD_UPDATE",
    "ActionType",
    "ClusterEvent",
    "ClusterEventWithHint",
    "EventResource",
    "QueueingHint",
    "QueueingHintFn",
]


class ActionType(IntFlag):
    """The kind of change to the object; bits as in kube-scheduler 1.36. `label` is the text in metrics."""

    NONE = 0
    ADD = 1 << 0
    DELETE = 1 << 1
    UPDATE_NODE_ALLOCATABLE = 1 << 2
    UPDATE_NODE_LABEL = 1 << 3
    UPDATE_NODE_TAINT = 1 << 4
    UPDATE_NODE_CONDITION = 1 << 5
    UPDATE_NODE_ANNOTATION = 1 << 6
    UPDATE_NODE_DECLARED_FEATURE = 1 << 7
    UPDATE_POD_LABEL = 1 << 8
    UPDATE_POD_SCALE_DOWN = 1 << 9
    UPDATE_POD_TOLERATION = 1 << 10
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 1 << 11
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = 1 << 12
    ALL = (1 << 13) - 1
    UPDATE = ALL & ~3

    @property
    def label(self) -> str:
        """Return kube-scheduler's spelling (`UpdateNodeLabel`); empty for a mix that has none."""
        return _ACTION_LABELS.get(self._value_, "")


_ACTION_LABELS: Final = {
    action.value: "".join(word.capitalize() for word in action.name.split("_"))
    for action in ActionType.__members__.values()
    if action.name
}


class EventResource(StrEnum):
    """The kind of object an event is about. Any other kind is named `plural.version.group`, as a plain string."""

    POD = "Pod"
    #: Split of POD that only event handlers and metrics use; plugins register for POD.
    ASSIGNED_POD = "AssignedPod"
    UNSCHEDULABLE_POD = "UnschedulablePod"
    NODE = "Node"
    NAMESPACE = "Namespace"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    CSI_NODE = "storage.k8s.io/CSINode"
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    RESOURCE_CLAIM = "resource.k8s.io/ResourceClaim"
    RESOURCE_SLICE = "resource.k8s.io/ResourceSlice"
    DEVICE_CLASS = "resource.k8s.io/DeviceClass"
    POD_GROUP = "scheduling.k8s.io/PodGroup"
    WILDCARD = "*"


_POD_KINDS: Final = frozenset({"Pod", "AssignedPod", "UnschedulablePod"})


@attrs.frozen
class ClusterEvent:
    """One change: of which kind of object, and which action bits. Hashable; made rarely, compared often."""

    resource: EventResource | str
    action: ActionType
    custom_label: str = ""
    #: The `event` label of metrics: resource and action, or the custom label (`BackoffComplete`).
    label: str = attrs.field(init=False, eq=False, repr=False)

    @label.default
    def _make_label(self) -> str:
        action: object = self.action  # of others' code, types prove nothing
        if not isinstance(action, ActionType):
            raise TypeError(f"the action of a ClusterEvent is a member of ActionType, not {action!r}")
        return self.custom_label or f"{self.resource}{self.action.label}"

    @property
    def is_wildcard(self) -> bool:
        """Return whether this event stands for anything that can happen."""
        return self.resource == "*" and self.action == ActionType.ALL

    def matches(self, incoming: ClusterEvent) -> bool:
        """Return whether a registration of this event covers `incoming`.

        A registration for Pod covers both assigned and unscheduled pods; the wildcard covers everything.
        """
        if self.is_wildcard:
            return True
        same_kind = self.resource in {"*", incoming.resource} or (
            self.resource == "Pod" and incoming.resource in _POD_KINDS
        )
        # An incoming action wider than the registered one (a general Update) concerns only general registrations.
        # `&` of enum makes a member, in ten times the time.
        return same_kind and int.__and__(self.action, incoming.action) != 0 and incoming.action <= self.action


#: What becomes of nodes and pods, as cache, queue and metrics know it; `UNSCHEDULED` is a pod without a node.
NODE_ADD: Final = ClusterEvent(EventResource.NODE, ActionType.ADD)
NODE_DELETE: Final = ClusterEvent(EventResource.NODE, ActionType.DELETE)
ASSIGNED_POD_ADD: Final = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.ADD)
ASSIGNED_POD_UPDATE: Final = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.UPDATE)
ASSIGNED_POD_DELETE: Final = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)
UNSCHEDULED_POD_ADD: Final = ClusterEvent(EventResource.UNSCHEDULABLE_POD, ActionType.ADD)
UNSCHEDULED_POD_UPDATE: Final = ClusterEvent(EventResource.UNSCHEDULABLE_POD, ActionType.UPDATE)
UNSCHEDULED_POD_DELETE: Final = ClusterEvent(EventResource.UNSCHEDULABLE_POD, ActionType.DELETE)


class QueueingHint(Enum):
    """A hint function's answer: is the event worth another attempt? An exception counts as QUEUE and is logged."""

    SKIP = 0
    QUEUE = 1


class QueueingHintFn(Protocol):
    """Return whether the change from `old` to `new` may make `pod` schedulable for this plugin.

    `old` is None for an ADD, `new` is None for a DELETE. Called from the event handlers for each waiting pod that the
    plugin rejected, so it must be quick, and plain (no coroutine).
    """

    def __call__(self, pod: Pod, old: object | None, new: object | None, /) -> QueueingHint:
        """Return QUEUE or SKIP."""
        ...


@attrs.frozen
class ClusterEventWithHint:
    """A registration: the event, and the hint to ask; no hint means always QUEUE."""

    event: ClusterEvent
    queueing_hint: QueueingHintFn | None = None
