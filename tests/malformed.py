"""Objects with amounts that cannot be read, which `pod_manifest` and `node_manifest` refuse to build."""

from __future__ import annotations

from typing import Any

import msgspec

from pyscheduler.api import Node, Pod, decode
from pyscheduler.testing import node_manifest, pod_manifest

__all__ = ["bad_node", "bad_pod", "bad_pod_manifest"]


def bad_pod_manifest(name: str, requests: dict[str, str], **keywords: Any) -> dict[str, Any]:
    """Return a pod as `pod_manifest` does, with `requests` as they are."""
    manifest = pod_manifest(name, **keywords)
    if requests:
        manifest["spec"]["containers"][0]["resources"] = {"requests": requests}
    return manifest


def bad_pod(name: str, requests: dict[str, str], *, uid: str = "", resource_version: str = "1") -> Pod:
    """Return a pod as the scheduler reads it, with `requests` as they are."""
    manifest = bad_pod_manifest(name, requests)
    manifest["metadata"] |= {"uid": uid or f"uid-{name}", "resourceVersion": resource_version}
    return decode(Pod, msgspec.json.encode(manifest))


def bad_node(name: str, allocatable: dict[str, str], **keywords: Any) -> Node:
    """Return a node as the scheduler reads it, with `allocatable` as it is."""
    manifest = node_manifest(name, **keywords)
    manifest["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": "1"}
    manifest["status"]["allocatable"] |= allocatable
    return decode(Node, msgspec.json.encode(manifest))
