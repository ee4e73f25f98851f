"""Nodes and pods of realistic size, for benchmarks over HTTP."""

from __future__ import annotations

from typing import Any

from benchmarks.weight import managed, running_status
from pyscheduler.testing.builders import node_manifest, pod_manifest

__all__ = ["nodes", "pods", "running_pods"]


def nodes(count: int) -> list[dict[str, Any]]:
    """Return `count` equal nodes of 32 CPUs in ten zones."""
    manifests = []
    for number in range(count):
        manifest = node_manifest(
            f"node-{number:05d}",
            allocatable={"cpu": "32", "memory": "128Gi", "pods": "110"},
            labels={"topology.kubernetes.io/zone": f"zone-{number % 10}", "kubernetes.io/os": "linux"},
            images={f"registry.example/image-{image}:v1": 10_000_000 for image in range(20)},
        )
        manifest["metadata"]["managedFields"] = [managed("kubelet"), managed("node-controller")]
        manifests.append(manifest)
    return manifests


def pods(count: int, *, prefix: str = "pod") -> list[dict[str, Any]]:
    """Return `count` plain pods."""
    manifests = []
    for number in range(count):
        manifest = pod_manifest(
            f"{prefix}-{number:06d}", requests={"cpu": "100m", "memory": "128Mi"}, labels={"app": "bench"}
        )
        manifest["metadata"]["managedFields"] = [managed("bench"), managed("job-controller")]
        manifests.append(manifest)
    return manifests


def running_pods(count: int, node_count: int) -> list[dict[str, Any]]:
    """Return `count` pods that run on the nodes of `nodes`, with the status that a kubelet writes."""
    manifests = pods(count, prefix="running")
    for number, manifest in enumerate(manifests):
        manifest["metadata"]["managedFields"] = [managed("bench"), managed("kubelet", 5)]
        manifest["spec"]["nodeName"] = f"node-{number % node_count:05d}"
        manifest["status"] = running_status()
    return manifests
