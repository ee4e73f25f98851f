"""Queueing hints for pods that VolumeBinding rejected.

Source: kube-scheduler 1.36, `volumebinding`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_objects.claims import claims_of
from pyscheduler.api import CSIDriver, CSINode, CSIStorageCapacity, PersistentVolumeClaim, StorageClass
from pyscheduler.framework import ActionType, ClusterEvent, ClusterEventWithHint, EventResource, QueueingHint
from pyscheduler.plugins.volume_binding.placement import MIGRATED
from pyscheduler.plugins.volume_binding.provisioning import volume_limit

if TYPE_CHECKING:
    from pyscheduler.api import Pod

__all__ = ["EVENTS"]


def _hint(helps: bool) -> QueueingHint:
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


def after_class_change(_pod: Pod, old: object | None, new: object | None) -> QueueingHint:
    """Queue when a class came, or allows other topologies."""
    assert isinstance(new, StorageClass)
    return _hint(not isinstance(old, StorageClass) or old.allowed_topologies != new.allowed_topologies)


def after_claim_change(pod: Pod, _old: object | None, new: object | None) -> QueueingHint:
    """Queue when a claim of the pod's was made or changed."""
    assert isinstance(new, PersistentVolumeClaim)
    return _hint(new.namespace == pod.namespace and any(claim.name == new.name for claim in claims_of(pod)))


def after_csi_node_change(_pod: Pod, old: object | None, new: object | None) -> QueueingHint:
    """Queue when a CSINode came, or serves other disks from before CSI."""
    assert isinstance(new, CSINode)
    return _hint(not isinstance(old, CSINode) or old.annotations.get(MIGRATED, "") != new.annotations.get(MIGRATED, ""))


def after_driver_update(pod: Pod, old: object | None, new: object | None) -> QueueingHint:
    """Queue when a driver of one of the pod's inline volumes no longer reports its room."""
    assert isinstance(old, CSIDriver)
    assert isinstance(new, CSIDriver)
    stopped = bool(old.spec.storage_capacity) and not new.spec.storage_capacity
    uses = any(volume.csi is not None and volume.csi.driver == new.name for volume in pod.spec.volumes)
    return _hint(stopped and uses)


def after_capacity_change(_pod: Pod, old: object | None, new: object | None) -> QueueingHint:
    """Queue when room was reported for the first time, or more of it."""
    assert isinstance(new, CSIStorageCapacity)
    if not isinstance(old, CSIStorageCapacity):
        return QueueingHint.QUEUE
    before, after = volume_limit(old), volume_limit(new)
    return _hint(after is not None and (before is None or after > before))


_CHANGES: Final = ActionType.ADD | ActionType.UPDATE

EVENTS: Final = (
    ClusterEventWithHint(ClusterEvent(EventResource.STORAGE_CLASS, _CHANGES), after_class_change),
    ClusterEventWithHint(ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, _CHANGES), after_claim_change),
    ClusterEventWithHint(ClusterEvent(EventResource.PERSISTENT_VOLUME, _CHANGES)),
    ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)),
    ClusterEventWithHint(ClusterEvent(EventResource.CSI_NODE, _CHANGES), after_csi_node_change),
    ClusterEventWithHint(ClusterEvent(EventResource.CSI_DRIVER, ActionType.UPDATE), after_driver_update),
    ClusterEventWithHint(ClusterEvent(EventResource.CSI_STORAGE_CAPACITY, _CHANGES), after_capacity_change),
)
"""The events that VolumeBinding registers."""
