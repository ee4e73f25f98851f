"""What the tests of devices are made of: device classes, slices, claims, and the pods that use them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyscheduler.api import DeviceClass, KubeObject, ResourceClaim, ResourceSlice
from pyscheduler.testing import FakeCluster

DRIVER = "gpu.example.com"
FINALIZER = "resource.kubernetes.io/delete-protection"

Manifest = dict[str, Any]
TYPES: dict[str, type[KubeObject]] = {each.kind: each for each in (DeviceClass, ResourceClaim, ResourceSlice)}


def cel(expression: str) -> Manifest:
    """Make a device selector."""
    return {"cel": {"expression": expression}}


def device_class(name: str = "gpu", *expressions: str) -> Manifest:
    """Make a class; without expressions of all devices there are."""
    spec = {"selectors": [cel(each) for each in expressions]} if expressions else {}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def device(name: str, **fields: Any) -> Manifest:
    """Make a device of a slice."""
    return {"name": name, **fields}


def resource_slice(node: str = "n1", *devices: str | Manifest, name: str = "", **spec: Any) -> Manifest:
    """Make the slice of a node's own pool; without devices it has one, `gpu-0`."""
    listed = [device(each) if isinstance(each, str) else each for each in devices or ("gpu-0",)]
    where = {"nodeName": node} if node else {}
    body = {
        "driver": DRIVER,
        "pool": {"name": node or "pool", "generation": 1, "resourceSliceCount": 1},
        "devices": listed,
        **where,
        **spec,
    }
    metadata = {"name": name or f"{node or 'shared'}-slice"}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": metadata, "spec": body}


def request(name: str = "gpu", of: str = "gpu", **exactly: Any) -> Manifest:
    """Make a request for one device of a class."""
    return {"name": name, "exactly": {"deviceClassName": of, **exactly}}


def claim(name: str = "c", *requests: Manifest, metadata: Mapping[str, Any] | None = None, **devices: Any) -> Manifest:
    """Make a claim; without requests it asks for one device of the class `gpu`."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", **(metadata or {})},
        "spec": {"devices": {"requests": list(requests) or [request()], **devices}},
    }


def allocation(*devices: str, pool: str = "n1", ask: str = "gpu", **more: Any) -> Manifest:
    """Make the status of a claim that was given these devices of a node's pool."""
    named = {"key": "metadata.name", "operator": "In", "values": [pool]}
    return {
        "devices": {"results": [{"request": ask, "driver": DRIVER, "pool": pool, "device": each} for each in devices]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [named]}]},
        **more,
    }


def using(*claims: str) -> Manifest:
    """Make the part of a pod's spec that names claims."""
    return {"resourceClaims": [{"name": each, "resourceClaimName": each} for each in claims]}


def add(cluster: FakeCluster, *manifests: Manifest) -> None:
    """Put objects into the API server, with their status."""
    for manifest in manifests:
        cluster.add(manifest, TYPES[manifest["kind"]])


def get_claim(cluster: FakeCluster, name: str = "c") -> ResourceClaim:
    """Return a claim as the API server has it."""
    return next(each for each in cluster.objects(ResourceClaim) if each.name == name)


def devices_of(found: ResourceClaim) -> list[str]:
    """Return the devices that a claim has, as `pool/device`."""
    given = found.status.allocation
    return [f"{each.pool}/{each.device}" for each in given.devices.results] if given is not None else []


def users_of(found: ResourceClaim) -> list[str]:
    """Return the names of the pods that may use a claim."""
    return [each.name for each in found.status.reserved_for]


def taken_twice(claims: Iterable[ResourceClaim]) -> list[tuple[str, ...]]:
    """Return the devices that are allocated more often than once, though not shared and not for an administrator."""
    seen: set[tuple[str, ...]] = set()
    twice = []
    for each in claims:
        given = each.status.allocation
        for result in given.devices.results if given is not None else ():
            if result.admin_access:
                continue
            key = (result.driver, result.pool, result.device, result.share_id or "")
            if key in seen:
                twice.append(key)
            seen.add(key)
    return twice
