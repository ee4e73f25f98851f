"""What the tests of volumes are made of: claims, volumes, classes; and a cluster's volume controller in a few lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from pyscheduler.api import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    KubeObject,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
    decode,
)
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.framework.recorder import NullRecorder
from pyscheduler.testing import FakeCluster
from tests.plugins.reading_handle import ReadingHandle

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
SELECTED = "volume.kubernetes.io/selected-node"
COMPLETED = "pv.kubernetes.io/bind-completed"
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"

Manifest = dict[str, Any]
TYPES: dict[str, type[KubeObject]] = {
    each.kind: each
    for each in (
        CSIDriver,
        CSINode,
        CSIStorageCapacity,
        PersistentVolume,
        PersistentVolumeClaim,
        StorageClass,
        VolumeAttachment,
    )
}


def read(manifest: Manifest, *, version: str = "1") -> Any:
    """Return the object as the scheduler reads it; its uid is made from its name."""
    metadata = manifest["metadata"]
    named = {"uid": f"uid-{metadata['name']}", "resourceVersion": version, **metadata}
    return decode(TYPES[manifest["kind"]], msgspec.json.encode({**manifest, "metadata": named}))


def storage_class(name: str = "slow", *, provisioner: str = "csi.example.com", **more: Any) -> Manifest:
    """Make a class that waits for the first consumer unless `volumeBindingMode` says otherwise."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
        **more,
    }


def claim(
    name: str = "c",
    *,
    of: str | None = "slow",
    size: str = "1Gi",
    volume: str = "",
    bound: bool | None = None,
    annotations: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Manifest:
    """Make a claim of a class, bound where it has a volume."""
    bound = bool(volume) if bound is None else bound
    named = {"volumeName": volume} if volume else {}
    if of is not None:
        named["storageClassName"] = of
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": {**({COMPLETED: "yes"} if bound else {}), **(annotations or {})},
            **(metadata or {}),
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            **named,
            **spec,
        },
        "status": {"phase": "Bound" if bound else "Pending"},
    }


def reachable_from(key: str, *values: str) -> Manifest:
    """Make the node affinity of a volume that nodes with one of these label values reach."""
    expression = {"key": key, "operator": "In", "values": list(values)}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def volume(
    name: str = "v",
    *,
    of: str = "slow",
    size: str = "1Gi",
    at: Manifest | None = None,
    promised_to: str = "",
    phase: str = "Available",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Manifest:
    """Make a volume of a class; `promised_to` is the claim it names."""
    body: Manifest = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": of,
        **({"nodeAffinity": at} if at else {}),
        **spec,
    }
    if promised_to:
        body["claimRef"] = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": promised_to}
    if not {"csi", "gcePersistentDisk", "awsElasticBlockStore", "azureDisk"} & set(body):
        body["csi"] = {"driver": "csi.example.com", "volumeHandle": name}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": dict(labels or {}), "annotations": dict(annotations or {})},
        "spec": body,
        "status": {"phase": phase},
    }


def csi_node(name: str, *, annotations: Mapping[str, str] | None = None, **limits: int | None) -> Manifest:
    """Make a CSINode with drivers and their limits; `csi_example_com=2` is the driver csi.example.com."""
    drivers = [
        {
            "name": driver.replace("_", "."),
            "nodeID": name,
            "topologyKeys": [],
            **({"allocatable": {"count": limit}} if limit is not None else {}),
        }
        for driver, limit in limits.items()
    ]
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name, "annotations": dict(annotations or {})},
        "spec": {"drivers": drivers},
    }


def csi_driver(name: str = "csi.example.com", **spec: Any) -> Manifest:
    """Make a driver."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": name},
        "spec": {"attachRequired": True, **spec},
    }


def capacity(name: str, *, of: str = "slow", topology: Mapping[str, str] | None = None, **amounts: str) -> Manifest:
    """Make a report of room; `capacity` and `maximumVolumeSize` are the amounts."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": name, "namespace": "default"},
        "storageClassName": of,
        **({"nodeTopology": {"matchLabels": dict(topology)}} if topology is not None else {}),
        **amounts,
    }


def attachment(name: str, *, node: str, of: str, driver: str = "csi.example.com") -> Manifest:
    """Make the attachment of a volume to a node."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": name},
        "spec": {"attacher": driver, "nodeName": node, "source": {"persistentVolumeName": of}},
    }


def using(*claims: str) -> Manifest:
    """Make the part of a pod's spec that uses claims."""
    return {
        "volumes": [
            {"name": f"v{number}", "persistentVolumeClaim": {"claimName": name}} for number, name in enumerate(claims)
        ]
    }


class Errors(NullRecorder):
    """Remembers at which stages volumes failed."""

    def __init__(self) -> None:
        self.stages: list[str] = []

    def count(self, family: str, *labels: str) -> None:
        """Remember."""
        if family == "scheduler_volume_scheduling_stage_error_total":
            self.stages += labels


class StorageHandle(ReadingHandle):
    """As much of a handle as plugins use that look after volumes."""

    def __init__(
        self, snapshot: Snapshot | None = None, manifests: Iterable[Manifest] = (), gates: Mapping[str, bool] = {}
    ) -> None:
        super().__init__(snapshot, gates=gates)
        self.recorder = Errors()
        for manifest in manifests:
            self.put(manifest)

    def put(self, manifest: Manifest, *, version: str = "1") -> None:
        """Add or replace an object."""
        self.lister(TYPES[manifest["kind"]]).put(read(manifest, version=version))

    def drop(self, manifest: Manifest) -> None:
        """Remove an object."""
        metadata = manifest["metadata"]
        self.lister(TYPES[manifest["kind"]]).drop(metadata["name"], metadata.get("namespace", ""))


def add(cluster: FakeCluster, *manifests: Manifest) -> None:
    """Put objects into the API server, with their status."""
    for manifest in manifests:
        cluster.add(manifest, TYPES[manifest["kind"]])


def get(cluster: FakeCluster, type_: type[Any], name: str) -> Any:
    """Return an object as the API server has it."""
    return next(each for each in cluster.objects(type_) if each.name == name)


class Controller:
    """The cluster's own part: binds claims to the volumes that name them, and makes volumes where it is told to."""

    def __init__(self, cluster: FakeCluster, *, makes: Sequence[str] = ("slow",)) -> None:
        self._cluster = cluster
        self._makes = makes

    def work(self) -> None:
        """Do once what there is to do."""
        self.make()
        self.bind()

    def make(self) -> None:
        """Make a volume for each claim with a selected node, reachable from there alone."""
        for each in self._cluster.objects(PersistentVolumeClaim):
            node = each.annotations.get(SELECTED)
            if node and not each.spec.volume_name and each.spec.storage_class_name in self._makes:
                made = volume(f"made-{each.name}", at=reachable_from(HOST, node), promised_to=each.name)
                made["spec"]["claimRef"]["uid"] = each.uid
                add(self._cluster, made)

    def bind(self) -> None:
        """Complete the binding of each claim that a volume names."""
        for each in self._cluster.objects(PersistentVolume):
            reference = each.spec.claim_ref
            if reference is None or not reference.uid:
                continue
            wanted = get(self._cluster, PersistentVolumeClaim, reference.name)
            if not wanted.spec.volume_name:
                patch = {"metadata": {"annotations": {COMPLETED: "yes"}}, "spec": {"volumeName": each.name}}
                self._cluster.patch(PersistentVolumeClaim, wanted.name, patch)
                self._cluster.patch(PersistentVolumeClaim, wanted.name, {"status": {"phase": "Bound"}}, status=True)
                self._cluster.patch(PersistentVolume, each.name, {"status": {"phase": "Bound"}}, status=True)
