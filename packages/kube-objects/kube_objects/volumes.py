"""Types of volumes, for pods and PersistentVolumes, with the fields that plugins read."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kube_objects.meta import LabelSelector, ObjectMeta, RawQuantity, Wire


class GCEPersistentDiskVolumeSource(Wire):
    """A Google Compute Engine disk."""

    pd_name: str = ""
    fs_type: str = ""
    partition: int = 0
    read_only: bool = False


class AWSElasticBlockStoreVolumeSource(Wire):
    """An AWS disk."""

    volume_id: str = msgspec.field(name="volumeID", default="")
    fs_type: str = ""
    partition: int = 0
    read_only: bool = False


class AzureDiskVolumeSource(Wire):
    """An Azure disk; its `kind` is ``Shared``, ``Dedicated`` or ``Managed``."""

    disk_name: str = ""
    disk_uri: str = msgspec.field(name="diskURI", default="")
    caching_mode: str | None = None
    fs_type: str | None = None
    read_only: bool | None = None
    kind: str | None = None


class AzureFileVolumeSource(Wire):
    """An Azure file share."""

    secret_name: str = ""
    secret_namespace: str | None = None
    share_name: str = ""
    read_only: bool = False


class CinderVolumeSource(Wire):
    """An OpenStack disk."""

    volume_id: str = msgspec.field(name="volumeID", default="")
    fs_type: str = ""
    read_only: bool = False


class PortworxVolumeSource(Wire):
    """A Portworx volume."""

    volume_id: str = msgspec.field(name="volumeID", default="")
    fs_type: str = ""
    read_only: bool = False


class VsphereVirtualDiskVolumeSource(Wire):
    """A vSphere disk."""

    volume_path: str = ""
    fs_type: str = ""


class RBDVolumeSource(Wire):
    """A Ceph block device; two pods clash when they share a monitor, pool and image."""

    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = ""
    fs_type: str = ""
    read_only: bool = False


class ISCSIVolumeSource(Wire):
    """An iSCSI disk."""

    target_portal: str = ""
    iqn: str = ""
    lun: int = 0
    fs_type: str = ""
    read_only: bool = False


class CSIVolumeSource(Wire):
    """An inline volume of a CSI driver."""

    driver: str = ""
    read_only: bool | None = None
    fs_type: str | None = None


class CSIPersistentVolumeSource(Wire):
    """A persistent volume of a CSI driver."""

    driver: str = ""
    volume_handle: str = ""
    read_only: bool = False
    fs_type: str = ""


class ImageVolumeSource(Wire):
    """An image mounted as a volume."""

    reference: str = ""
    pull_policy: str = ""


class PersistentVolumeClaimVolumeSource(Wire):
    """A claim in the pod's namespace."""

    claim_name: str = ""
    read_only: bool = False


class VolumeResourceRequirements(Wire):
    """The amount of storage that a claim requests."""

    requests: Mapping[str, RawQuantity] = {}
    limits: Mapping[str, RawQuantity] = {}


class PersistentVolumeClaimSpec(Wire):
    """The request of a claim.

    `storage_class_name` distinguishes ``None`` (the default class) from ``""`` (no class); an empty `volume_name`
    means not bound.
    """

    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: VolumeResourceRequirements = VolumeResourceRequirements()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimTemplate(Wire):
    """The claim that is made for a generic ephemeral volume."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class EphemeralVolumeSource(Wire):
    """A volume whose claim, named ``<pod>-<volume>``, lives and dies with the pod."""

    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class Volume(Wire):
    """A volume of a pod; at most one of the sources is set."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    csi: CSIVolumeSource | None = None
    image: ImageVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: AzureFileVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    vsphere_volume: VsphereVirtualDiskVolumeSource | None = None
    rbd: RBDVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
