"""Nodes and pods of about the weight that real ones have: 10 kB a node, 8 kB a pod, most of it never read."""

from __future__ import annotations

from typing import Any

import msgspec

from pyscheduler.testing.builders import node_manifest, pod_manifest

#: What a kubelet and a few controllers leave in an object, as text that the scheduler skips.
_FIELDS_V1: list[tuple[str, dict[str, Any]]] = [
    (f"f:field{number}", {f"f:part{part}": {".": {}, "f:value": {}} for part in range(6)}) for number in range(24)
]


def _managed(manager: str, fields: int = len(_FIELDS_V1)) -> dict[str, Any]:
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": dict(_FIELDS_V1[:fields]),
    }


_COLOR: dict[str, Any] = {"matchLabels": {"color": "blue"}}
_HOST, _ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"

#: What pods want besides room, after the cases of kube-scheduler's own benchmark.
SHAPES: dict[str, dict[str, Any]] = {
    "": {},
    "pod-affinity": {
        "affinity": {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": _COLOR, "topologyKey": _ZONE}]
            }
        }
    },
    "pod-anti-affinity": {
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": _COLOR, "topologyKey": _HOST}]
            }
        }
    },
    "preferred-pod-affinity": {
        "affinity": {
            "podAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "podAffinityTerm": {"labelSelector": _COLOR, "topologyKey": _HOST}}
                ]
            }
        }
    },
    "topology-spreading": {
        "topologySpreadConstraints": [
            {"maxSkew": 5, "topologyKey": _ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": _COLOR}
        ]
    },
}


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
        manifest["metadata"]["managedFields"] = [_managed("kubelet"), _managed("node-controller")]
        manifests.append(manifest)
    return manifests


def pods(count: int, *, distinct: int = 1, prefix: str = "pod", shape: str = "") -> list[dict[str, Any]]:
    """Return `count` pods of a shape (plain ones by default), of `distinct` different sizes."""
    manifests = []
    for number in range(count):
        manifest = pod_manifest(
            f"{prefix}-{number:06d}",
            requests={"cpu": f"{100 + number % distinct}m", "memory": "128Mi"},
            labels={"app": "bench", "color": "blue"},
            spec=SHAPES[shape],
        )
        manifest["metadata"]["managedFields"] = [_managed("bench"), _managed("job-controller")]
        manifests.append(manifest)
    return manifests


def running_pods(count: int, node_count: int) -> list[dict[str, Any]]:
    """Return `count` pods that run on the nodes of `nodes`, with the status that a kubelet writes."""
    manifests = pods(count, prefix="running")
    for number, manifest in enumerate(manifests):
        manifest["metadata"]["managedFields"] = [_managed("bench"), _managed("kubelet", 5)]
        manifest["spec"]["nodeName"] = f"node-{number % node_count:05d}"
        manifest["status"] = {
            "phase": "Running",
            "conditions": [
                {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": "2026-01-01T00:00:00Z"}
                for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
            "hostIP": "10.0.0.1",
            "podIP": "10.1.0.1",
            "podIPs": [{"ip": "10.1.0.1"}],
            "startTime": "2026-01-01T00:00:00Z",
            "containerStatuses": [
                {
                    "name": "c0",
                    "ready": True,
                    "started": True,
                    "restartCount": 0,
                    "image": "app",
                    "imageID": "registry.example/app@sha256:" + "0" * 64,
                    "containerID": "containerd://" + "0" * 64,
                    "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
                    "lastState": {},
                }
            ],
            "qosClass": "Burstable",
        }
    return manifests


def weight(manifest: dict[str, Any]) -> int:
    """Return the size of a manifest as JSON, in bytes."""
    return len(msgspec.json.encode(manifest))
