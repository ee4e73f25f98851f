"""Translate cloud disks of Kubernetes' former built-in volume drivers into CSI volumes.

Source: kube-scheduler 1.36, `csi-translation-lib`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from kube_objects.affinity import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from kube_objects.errors import PySchedulerError
from kube_objects.storage import PersistentVolume, PersistentVolumeSpec, VolumeNodeAffinity
from kube_objects.volumes import Volume

ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"
#: Between the zones of a volume that is in several.
ZONE_DELIMITER: Final = "__"

_UNSPECIFIED: Final = "UNSPECIFIED"
_AWS_PATH: Final = re.compile(r"aws://[^/?#]*(?P<path>[^?#]*)")
_AWS_DISK: Final = re.compile(r"vol-[^/]*")
_GCE_ZONE_PARTS: Final = 3


class MigrationError(PySchedulerError):
    """Report a disk that has no equivalent in CSI; the message says why."""


class DiskKind(NamedTuple):
    """A kind of disk: its attribute in wire objects, the built-in driver's name, the CSI driver's, its zone label.

    Only where `served_by_csi` the CSI driver is taken to serve such disks on every node that has CSI at all.
    """

    attribute: str
    plugin: str
    driver: str
    zone_key: str = ""
    served_by_csi: bool = True


DISK_KINDS: Final = (
    DiskKind("gce_persistent_disk", "kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "topology.gke.io/zone"),
    DiskKind("aws_elastic_block_store", "kubernetes.io/aws-ebs", "ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone"),
    DiskKind("cinder", "kubernetes.io/cinder", "cinder.csi.openstack.org", "topology.cinder.csi.openstack.org/zone"),
    DiskKind("azure_disk", "kubernetes.io/azure-disk", "disk.csi.azure.com"),
    DiskKind("azure_file", "kubernetes.io/azure-file", "file.csi.azure.com", served_by_csi=False),
    DiskKind("vsphere_volume", "kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com", served_by_csi=False),
    DiskKind("portworx_volume", "kubernetes.io/portworx-volume", "pxd.portworx.com"),
)
"""The kinds that were built in once."""


def disk_kind(source: Volume | PersistentVolumeSpec) -> DiskKind | None:
    """Return which of these kinds a pod's volume, or a persistent volume, is of; None for any other."""
    for kind in DISK_KINDS:
        if getattr(source, kind.attribute) is not None:
            return kind
    return None


def provisioned_kind(provisioner: str) -> DiskKind | None:
    """Return the kind that a built-in provisioner makes, by the provisioner's name."""
    return next((kind for kind in DISK_KINDS if kind.plugin == provisioner), None)


def inline_handle(volume: Volume) -> str:
    """Return the CSI handle of a disk that a pod names itself; raise `MigrationError` where it has none."""
    if volume.gce_persistent_disk is not None:
        return _gce_handle("zones", _UNSPECIFIED, volume.gce_persistent_disk.pd_name)
    return _handle(volume)


def volume_handle(volume: PersistentVolume) -> str:
    """Return the CSI handle of a persistent volume of such a kind; raise `MigrationError` where it has none."""
    if volume.spec.gce_persistent_disk is None:
        return _handle(volume.spec)
    name = volume.spec.gce_persistent_disk.pd_name
    label = volume.labels.get(BETA_ZONE) or volume.labels.get(ZONE, "")
    zones = label.split(ZONE_DELIMITER)
    if len(zones) > 1:
        return _gce_handle("regions", _gce_region(zones), name)
    return _gce_handle("zones", label or _UNSPECIFIED, name)


def translated_affinity(volume: PersistentVolume) -> VolumeNodeAffinity | None:
    """Return the nodes from which the CSI driver reaches a volume of such a kind, in the driver's own labels.

    Raise `MigrationError` where the volume has no equivalent in CSI.
    """
    volume_handle(volume)
    kind = disk_kind(volume.spec)
    affinity = volume.spec.node_affinity
    if kind is None or not kind.zone_key:
        return affinity
    required = affinity.required if affinity is not None else None
    terms = required.node_selector_terms if required is not None else ()
    zone, region = _zone_and_region(terms, volume.labels)
    if _values(terms, zone):
        terms = _renamed(terms, zone, kind.zone_key)
    elif zone in volume.labels:
        terms = _with_zones(terms, kind.zone_key, volume.labels[zone])
    if region == BETA_REGION and _values(terms, region):
        terms = _renamed(terms, region, REGION)
    return affinity if not terms else VolumeNodeAffinity(required=NodeSelector(node_selector_terms=terms))


def _handle(source: Volume | PersistentVolumeSpec) -> str:
    if source.aws_elastic_block_store is not None:
        return _aws_handle(source.aws_elastic_block_store.volume_id)
    if source.azure_disk is not None:
        kind = source.azure_disk.kind
        if kind is not None and kind.lower() != "managed":
            raise MigrationError(f"kind({kind}) is not supported in csi migration")
        return source.azure_disk.disk_uri
    if source.cinder is not None:
        return source.cinder.volume_id
    if source.portworx_volume is not None:
        return source.portworx_volume.volume_id
    # Kinds that are not counted per node: that there is a handle is all that matters.
    if source.azure_file is not None:
        return source.azure_file.share_name
    return source.vsphere_volume.volume_path if source.vsphere_volume is not None else ""


@lru_cache(maxsize=1 << 14)
def _aws_handle(volume_id: str) -> str:
    if not volume_id.startswith("aws://"):
        return volume_id
    match = _AWS_PATH.fullmatch(volume_id.partition("?")[0].partition("#")[0])
    disk = match["path"].strip("/") if match is not None else ""
    if _AWS_DISK.fullmatch(disk) is None:
        raise MigrationError(
            f"failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({volume_id})"
        )
    return disk


def _gce_handle(scope: str, place: str, name: str) -> str:
    return f"projects/{_UNSPECIFIED}/{scope}/{place}/disks/{name}"


def _gce_region(zones: Sequence[str]) -> str:
    regions: set[str] = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != _GCE_ZONE_PARTS:
            raise MigrationError(
                "failed to get region from zones: zone in unexpected format, "
                f"expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
            )
        regions.add("-".join(parts[:2]))
    if len(regions) != 1:
        raise MigrationError(
            f"failed to get region from zones: multiple or no regions gotten from zones, got: {sorted(regions)}"
        )
    return regions.pop()


# --- the zone of a volume ------------------------------------------------------------------------

Terms = tuple[NodeSelectorTerm, ...]


def _zone_and_region(terms: Terms, labels: Mapping[str, str]) -> tuple[str, str]:
    """Return the labels in which the volume speaks of its place: those of its affinity, else those it bears."""
    named = {requirement.key for term in terms for requirement in term.match_expressions}
    for keys in (named, labels):
        if ZONE in keys:
            return ZONE, REGION
        if BETA_ZONE in keys:
            return BETA_ZONE, BETA_REGION
    return ZONE, REGION


def _values(terms: Terms, key: str) -> bool:
    """Return whether a requirement on `key` names a value."""
    return any(each.key == key and each.values for term in terms for each in term.match_expressions)


def _renamed(terms: Terms, old: str, new: str) -> Terms:
    return tuple(
        msgspec.structs.replace(
            term,
            match_expressions=tuple(
                msgspec.structs.replace(each, key=new) if each.key == old else each for each in term.match_expressions
            ),
        )
        for term in terms
    )


def _with_zones(terms: Terms, key: str, label: str) -> Terms:
    """Return the terms with a demand for the zones of a label added to each; unchanged where it names none."""
    zones = sorted({zone.strip() for zone in label.split(ZONE_DELIMITER)} - {""})
    if not zones:
        return terms
    demand = NodeSelectorRequirement(key=key, operator="In", values=tuple(zones))
    return tuple(
        msgspec.structs.replace(term, match_expressions=(*term.match_expressions, demand))
        for term in terms or (NodeSelectorTerm(),)
    )
