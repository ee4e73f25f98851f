"""Build pods and nodes for tests.

`make_pod` and `make_node` return typed objects, as the scheduler reads them. `pod_manifest` and `node_manifest` return
dicts, as the API server accepts them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import msgspec

from pyscheduler.api import Node, Pod, decode
from pyscheduler.testing.argument_checks import check_amounts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["NodeKeywords", "PodKeywords", "make_node", "make_pod", "node_manifest", "pod_manifest"]

_CREATED = "2026-01-01T00:00:00Z"


class PodKeywords(TypedDict, total=False):
    """The keywords of `pod_manifest`, for functions that pass them on."""

    namespace: str
    scheduler_name: str
    requests: Mapping[str, str] | None
    labels: Mapping[str, str] | None
    annotations: Mapping[str, str] | None
    priority: int | None
    node_name: str
    node_selector: Mapping[str, str] | None
    tolerations: Sequence[Mapping[str, object]]
    affinity: Mapping[str, object] | None
    scheduling_gates: Sequence[str]
    host_ports: Sequence[int]
    images: Sequence[str]
    spec: Mapping[str, object] | None
    status: Mapping[str, object] | None


class NodeKeywords(TypedDict, total=False):
    """The keywords of `node_manifest`, for functions that pass them on."""

    allocatable: Mapping[str, str] | None
    labels: Mapping[str, str] | None
    annotations: Mapping[str, str] | None
    taints: Sequence[Mapping[str, str]]
    unschedulable: bool
    images: Mapping[str, int] | None
    spec: Mapping[str, object] | None
    status: Mapping[str, object] | None


def pod_manifest(  # noqa: PLR0913 - one keyword for each field that tests vary
    name: str,
    *,
    namespace: str = "default",
    scheduler_name: str = "pyscheduler",
    requests: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    priority: int | None = None,
    node_name: str = "",
    node_selector: Mapping[str, str] | None = None,
    tolerations: Sequence[Mapping[str, object]] = (),
    affinity: Mapping[str, object] | None = None,
    scheduling_gates: Sequence[str] = (),
    host_ports: Sequence[int] = (),
    images: Sequence[str] = ("app",),
    spec: Mapping[str, object] | None = None,
    status: Mapping[str, object] | None = None,
) -> dict[str, Any]:
    """Return a pod as a manifest; the first container gets `requests` and `host_ports`."""
    containers: list[dict[str, Any]] = [{"name": f"c{number}", "image": image} for number, image in enumerate(images)]
    if requests:
        containers[0]["resources"] = {"requests": check_amounts(requests, "requests")}
    if host_ports:
        containers[0]["ports"] = [{"containerPort": port, "hostPort": port} for port in host_ports]
    body: dict[str, Any] = {"schedulerName": scheduler_name, "containers": containers}
    optional: dict[str, Any] = {
        "priority": priority,
        "nodeName": node_name or None,
        "nodeSelector": dict(node_selector) if node_selector else None,
        "tolerations": [dict(toleration) for toleration in tolerations] or None,
        "affinity": affinity,
        "schedulingGates": [{"name": gate} for gate in scheduling_gates] or None,
    }
    body.update({key: value for key, value in optional.items() if value is not None})
    body.update(spec or {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
        },
        "spec": body,
        "status": dict(status or {}),
    }


def make_pod(name: str, *, uid: str = "", resource_version: str = "1", **keywords: Unpack[PodKeywords]) -> Pod:
    """Return a pod as the scheduler reads it; keywords as for `pod_manifest`. The uid is derived from the name."""
    manifest = pod_manifest(name, **keywords)
    _identify(manifest, uid or f"pod-{manifest['metadata']['namespace']}-{name}", resource_version)
    return decode(Pod, msgspec.json.encode(manifest))


def node_manifest(  # noqa: PLR0913 - same
    name: str,
    *,
    allocatable: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    unschedulable: bool = False,
    images: Mapping[str, int] | None = None,
    spec: Mapping[str, object] | None = None,
    status: Mapping[str, object] | None = None,
) -> dict[str, Any]:
    """Return a node as a manifest.

    By default it has room for 110 pods, and its name as hostname label. `images` gives sizes in bytes by image name.
    """
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "110", **check_amounts(allocatable or {}, "allocatable")}
    body: dict[str, Any] = {"unschedulable": True} if unschedulable else {}
    if taints:
        body["taints"] = [dict(taint) for taint in taints]
    body.update(spec or {})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, **(labels or {})},
            "annotations": dict(annotations or {}),
        },
        "spec": body,
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "images": [{"names": [image], "sizeBytes": size} for image, size in (images or {}).items()],
            **(status or {}),
        },
    }


def make_node(name: str, *, uid: str = "", resource_version: str = "1", **keywords: Unpack[NodeKeywords]) -> Node:
    """Return a node as the scheduler reads it; keywords as for `node_manifest`."""
    manifest = node_manifest(name, **keywords)
    _identify(manifest, uid or f"node-{name}", resource_version)
    return decode(Node, msgspec.json.encode(manifest))


def _identify(manifest: dict[str, Any], uid: str, resource_version: str) -> None:
    manifest["metadata"].update({"uid": uid, "resourceVersion": resource_version, "creationTimestamp": _CREATED})
