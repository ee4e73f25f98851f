"""The types of PersistentVolumeClaims, volumes, storage classes, and CSI drivers with their capacity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from kube_objects.affinity import NodeSelector
from kube_objects.meta import KubeObject, LabelSelector, ObjectReference, RawQuantity, Wire
from kube_objects.volumes import (
    AWSElasticBlockStoreVolumeSource,
    AzureDiskVolumeSource,
    AzureFileVolumeSource,
    CinderVolumeSource,
    CSIPersistentVolumeSource,
    GCEPersistentDiskVolumeSource,
    ISCSIVolumeSource,
    PersistentVolumeClaimSpec,
    PortworxVolumeSource,
    RBDVolumeSource,
    VsphereVirtualDiskVolumeSource,
)


class PersistentVolumeClaimStatus(Wire):
    """The phase of a claim: ``Pending``, ``Bound`` or ``Lost``."""

    phase: str = ""
    access_modes: tuple[str, ...] = ()
    capacity: Mapping[str, RawQuantity] = {}


class PersistentVolumeClaim(KubeObject):
    """A demand for storage in a namespace."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "PersistentVolumeClaim"

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class VolumeNodeAffinity(Wire):
    """The nodes from which a volume can be reached."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(Wire):
    """A volume: how large, for whom, from where."""

    capacity: Mapping[str, RawQuantity] = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    persistent_volume_reclaim_policy: str = ""
    storage_class_name: str = ""
    volume_mode: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    volume_attributes_class_name: str | None = None
    csi: CSIPersistentVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: AzureFileVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    vsphere_volume: VsphereVirtualDiskVolumeSource | None = None
    rbd: RBDVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None


class PersistentVolumeStatus(Wire):
    """The phase of a volume: ``Pending``, ``Available``, ``Bound``, ``Released`` or ``Failed``."""

    phase: str = ""


class PersistentVolume(KubeObject):
    """A piece of storage in the cluster."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "PersistentVolume"

    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class TopologySelectorLabelRequirement(Wire):
    """A node label that must have one of some values."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Wire):
    """Node labels that must all fit; a term without any fits every node."""

    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


class StorageClass(KubeObject):
    """The way volumes are made: the provisioner, the time (`volume_binding_mode`) and the topologies."""

    api_version: ClassVar[str] = "storage.k8s.io/v1"
    kind: ClassVar[str] = "StorageClass"

    provisioner: str = ""
    reclaim_policy: str | None = None
    volume_binding_mode: str | None = None
    allow_volume_expansion: bool | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class VolumeNodeResources(Wire):
    """The number of volumes of a driver that a node can hold; ``None`` is no limit."""

    count: int | None = None


class CSINodeDriver(Wire):
    """A CSI driver that is installed on a node."""

    name: str = ""
    node_id: str = msgspec.field(name="nodeID", default="")
    topology_keys: tuple[str, ...] = ()
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Wire):
    """The CSI drivers of a node."""

    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(KubeObject):
    """The CSI drivers on the node of the same name."""

    api_version: ClassVar[str] = "storage.k8s.io/v1"
    kind: ClassVar[str] = "CSINode"

    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(Wire):
    """Properties of a CSI driver."""

    attach_required: bool | None = None
    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(KubeObject):
    """A CSI driver of the cluster."""

    api_version: ClassVar[str] = "storage.k8s.io/v1"
    kind: ClassVar[str] = "CSIDriver"

    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(KubeObject):
    """The capacity that a CSI driver can still provide to the nodes that `node_topology` selects."""

    api_version: ClassVar[str] = "storage.k8s.io/v1"
    kind: ClassVar[str] = "CSIStorageCapacity"

    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: RawQuantity | None = None
    maximum_volume_size: RawQuantity | None = None


class VolumeAttachmentSource(Wire):
    """The volume of an attachment: by name, or spelled out when it was inline in a pod."""

    persistent_volume_name: str | None = None
    inline_volume_spec: PersistentVolumeSpec | None = None


class VolumeAttachmentSpec(Wire):
    """Which driver is to attach what to which node."""

    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachmentStatus(Wire):
    """The state of an attachment of a volume."""

    attached: bool = False


class VolumeAttachment(KubeObject):
    """A volume that is, or shall be, attached to a node."""

    api_version: ClassVar[str] = "storage.k8s.io/v1"
    kind: ClassVar[str] = "VolumeAttachment"

    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
    status: VolumeAttachmentStatus = VolumeAttachmentStatus()
