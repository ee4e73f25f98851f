"""Find the PersistentVolumeClaims of a pod, and the storage class of a claim or a volume.

Source: kube-scheduler 1.36, `component-helpers/storage`.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Final, NamedTuple

from kube_objects.pods import Pod
from kube_objects.storage import PersistentVolume, PersistentVolumeClaim
from kube_objects.volumes import Volume

#: The annotation that named the class before there was a field for it; it still comes first.
_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
#: What a volume may be that some plugin counts or keeps apart; read at once, as every pod is asked.
_STORAGE: Final = attrgetter(
    "persistent_volume_claim",
    "ephemeral",
    "gce_persistent_disk",
    "aws_elastic_block_store",
    "azure_disk",
    "azure_file",
    "cinder",
    "portworx_volume",
    "vsphere_volume",
    "rbd",
    "iscsi",
)
_NO_STORAGE: Final = _STORAGE(Volume())


class PodClaim(NamedTuple):
    """A claim that a pod uses: its name in the pod's namespace, and whether it is made for the pod."""

    name: str
    ephemeral: bool


def claim_of(pod: Pod, volume: Volume) -> PodClaim | None:
    """Return the claim behind a volume of `pod`, None for a volume of another kind."""
    if volume.persistent_volume_claim is not None:
        return PodClaim(volume.persistent_volume_claim.claim_name, ephemeral=False)
    if volume.ephemeral is not None:
        return PodClaim(f"{pod.name}-{volume.name}", ephemeral=True)
    return None


def claims_of(pod: Pod) -> Iterator[PodClaim]:
    """Yield the claims of a pod, in the order of its volumes."""
    for volume in pod.spec.volumes:
        claim = claim_of(pod, volume)
        if claim is not None:
            yield claim


def uses_storage(pod: Pod) -> bool:
    """Return whether the pod has a claim or names a disk itself; most volumes are neither (tokens, config maps ...)."""
    for volume in pod.spec.volumes:  # noqa: SIM110 - a generator costs more than the test itself
        if _STORAGE(volume) != _NO_STORAGE:
            return True
    return False


def ownership_error(pod: Pod, claim: PersistentVolumeClaim) -> str | None:
    """Return why a claim cannot be that of an ephemeral volume of `pod`, None where it is."""
    owner = next((each for each in claim.metadata.owner_references if each.controller), None)
    if claim.namespace == pod.namespace and owner is not None and owner.uid == pod.uid:
        return None
    return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"


def claim_class(claim: PersistentVolumeClaim) -> str:
    """Return the name of the storage class that the claim wants, "" for none."""
    annotated = claim.annotations.get(_CLASS_ANNOTATION)
    return annotated if annotated is not None else claim.spec.storage_class_name or ""


def volume_class(volume: PersistentVolume) -> str:
    """Return the name of the storage class that the volume is of, "" for none."""
    annotated = volume.annotations.get(_CLASS_ANNOTATION)
    return annotated if annotated is not None else volume.spec.storage_class_name
