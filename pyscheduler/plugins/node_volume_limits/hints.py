"""Queueing hints for pods that NodeVolumeLimits rejected.

Source: kube-scheduler 1.36, `nodevolumelimits`.
"""

from __future__ import annotations

from kube_objects.claims import claims_of
from kube_objects.csi_migration import MigrationError, disk_kind, inline_handle
from pyscheduler.api import CSINode, PersistentVolumeClaim, Pod, VolumeAttachment
from pyscheduler.framework import QueueingHint
from pyscheduler.plugins.node_volume_limits.volumes import uses_volumes

__all__ = ["after_attachment_deleted", "after_claim_added", "after_csi_node_update", "after_pod_deleted"]


def after_pod_deleted(_pod: Pod, old: object | None, _new: object | None) -> QueueingHint:
    """Queue when a pod with volumes went that had a node, or the promise of one."""
    assert isinstance(old, Pod)
    freed = bool(old.node_name or old.status.nominated_node_name) and uses_volumes(old)
    return QueueingHint.QUEUE if freed else QueueingHint.SKIP


def after_claim_added(pod: Pod, _old: object | None, new: object | None) -> QueueingHint:
    """Queue when a claim of the pod's was made."""
    assert isinstance(new, PersistentVolumeClaim)
    uses = new.namespace == pod.namespace and any(claim.name == new.name for claim in claims_of(pod))
    return QueueingHint.QUEUE if uses else QueueingHint.SKIP


def after_csi_node_update(_pod: Pod, old: object | None, new: object | None) -> QueueingHint:
    """Queue when a driver's limit rose; as in kube-scheduler, no limit counts as 0."""
    assert isinstance(old, CSINode)
    assert isinstance(new, CSINode)
    before = _limits(old)
    rose = any(limit > before.get(driver, 0) for driver, limit in _limits(new).items())
    return QueueingHint.QUEUE if rose else QueueingHint.SKIP


def after_attachment_deleted(pod: Pod, old: object | None, _new: object | None) -> QueueingHint:
    """Queue when a volume was detached and the pod has claims, or a disk of the driver that detached it.

    Raises `MigrationError` for a disk that has no equivalent in CSI.
    """
    assert isinstance(old, VolumeAttachment)
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            return QueueingHint.QUEUE
        kind = disk_kind(volume)
        if kind is None:
            continue
        try:
            inline_handle(volume)
        except MigrationError as error:
            raise MigrationError(f"converting volume({volume.name}) from inline to csi: {error}") from error
        if old.spec.attacher == kind.driver:
            return QueueingHint.QUEUE
    return QueueingHint.SKIP


def _limits(node: CSINode) -> dict[str, int]:
    return {
        driver.name: (driver.allocatable.count or 0) if driver.allocatable is not None else 0
        for driver in node.spec.drivers
    }
