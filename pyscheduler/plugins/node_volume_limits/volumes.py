"""Find the volumes that CSI drivers must attach for a pod, and the driver of each.

Source: kube-scheduler 1.36, `nodevolumelimits`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from kube_objects.claims import claim_class, claim_of, ownership_error
from kube_objects.csi_migration import MigrationError, disk_kind, inline_handle, provisioned_kind, volume_handle
from pyscheduler.api import PersistentVolume, PersistentVolumeClaim, StorageClass
from pyscheduler.framework import PySchedulerError

if TYPE_CHECKING:
    from pyscheduler.api import Pod, Volume
    from pyscheduler.framework import Lister

__all__ = ["AttachableVolumes", "ClaimMissingError", "unique_name", "uses_volumes"]

#: Before the names of volumes that are yet to be made; no handle begins with it.
_UNMADE: Final = "\0"


class ClaimMissingError(PySchedulerError):
    """Report that a claim of a new pod is not there; it will be schedulable once it is."""


class ForeignClaimError(PySchedulerError):
    """Report that the claim of an ephemeral volume belongs to somebody else."""


def unique_name(driver: str, handle: str) -> str:
    """Return the name under which a volume is known on every node."""
    return f"{driver}/{handle}"


def uses_volumes(pod: Pod) -> bool:
    """Return whether the pod has volumes that a CSI driver may have to attach."""
    return any(claim_of(pod, volume) is not None or disk_kind(volume) is not None for volume in pod.spec.volumes)


@attrs.frozen
class AttachableVolumes:
    """Finds out what a pod's volumes are attached by, through claims, volumes and classes."""

    claims: Lister[PersistentVolumeClaim]
    volumes: Lister[PersistentVolume]
    classes: Lister[StorageClass]

    def of(
        self, pod: Pod, *, has_csi: bool, is_new: bool, sources: set[tuple[str, str]] | None = None
    ) -> dict[str, str]:
        """Return the driver of each volume of `pod`, by the volume's unique name.

        `has_csi` is whether the node has a CSINode. A claim that is missing does not count for a pod that is on a node
        already; `is_new` pods raise `ClaimMissingError`. Raises `PySchedulerError` where volumes cannot be told.
        Into `sources` goes what the answer depends on: pairs of "claim" or "volume" and the key of one.
        """
        found: dict[str, str] = {}
        for volume in pod.spec.volumes:
            named = claim_of(pod, volume)
            if named is None:
                if has_csi:
                    found.update(_inline(volume))
                continue
            if not named.name:
                raise ForeignClaimError("PersistentVolumeClaim had no name")
            claim = self.claims.get(named.name, pod.namespace)
            if sources is not None:
                sources.add(("claim", f"{pod.namespace}/{named.name}"))
                if claim is not None and claim.spec.volume_name:
                    sources.add(("volume", claim.spec.volume_name))
            if claim is None:
                if is_new:
                    key = f"{pod.namespace}/{named.name}"
                    raise ClaimMissingError(f'looking up PVC {key}: persistentvolumeclaim "{named.name}" not found')
                continue
            foreign = ownership_error(pod, claim) if named.ephemeral else None
            if foreign is not None:
                raise ForeignClaimError(foreign)
            driver, handle = self._behind(claim, has_csi=has_csi)
            if driver and handle:
                found[unique_name(driver, handle)] = driver
        return found

    def _behind(self, claim: PersistentVolumeClaim, *, has_csi: bool) -> tuple[str, str]:
        """Return driver and handle of a claim's volume, made or yet to be made; empty where CSI has no part in it."""
        name = claim.spec.volume_name
        bound = self.volumes.get(name) if name else None
        if bound is None:
            return self._unmade(claim, has_csi=has_csi)
        csi = bound.spec.csi
        if csi is not None:
            return csi.driver, csi.volume_handle
        kind = disk_kind(bound.spec)
        if kind is None or not kind.served_by_csi or not has_csi:
            return "", ""
        try:
            return kind.driver, volume_handle(bound)
        except MigrationError:
            return "", ""  # as in kube-scheduler, such a volume is not counted

    def _unmade(self, claim: PersistentVolumeClaim, *, has_csi: bool) -> tuple[str, str]:
        wanted = claim_class(claim)
        made_by = self.classes.get(wanted) if wanted else None
        if made_by is None:
            return "", ""
        handle = f"{_UNMADE}{claim.key}"
        kind = provisioned_kind(made_by.provisioner)
        if kind is None:
            return made_by.provisioner, handle
        return (kind.driver, handle) if kind.served_by_csi and has_csi else ("", "")


def _inline(volume: Volume) -> dict[str, str]:
    """Return the driver of a disk that the pod names itself, by the disk's unique name."""
    kind = disk_kind(volume)
    if kind is None or not kind.served_by_csi:
        return {}
    try:
        return {unique_name(kind.driver, inline_handle(volume)): kind.driver}
    except MigrationError as error:
        raise MigrationError(f"converting volume({volume.name}) from inline to csi: {error}") from error
