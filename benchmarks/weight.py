"""Pad objects to about 10 kB per node and 8 kB per pod, mostly with fields that schedulers do not read."""

from __future__ import annotations

from typing import Any, Final

import msgspec

__all__ = ["environment", "managed", "running_status", "weight"]

#: What a kubelet and a few controllers leave in an object, as text that the scheduler skips.
_FIELDS_V1: Final[list[tuple[str, dict[str, Any]]]] = [
    (f"f:field{number}", {f"f:part{part}": {".": {}, "f:value": {}} for part in range(6)}) for number in range(24)
]


def managed(manager: str, fields: int = len(_FIELDS_V1)) -> dict[str, Any]:
    """Return what one writer leaves in `managedFields`, 4.8 kB of it unless there are fewer `fields`."""
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": dict(_FIELDS_V1[:fields]),
    }


def environment() -> list[dict[str, str]]:
    """Return the variables of a container, 7 kB of them: the embedded server drops `managedFields` of a new object."""
    return [{"name": f"VARIABLE_{number:03d}", "value": "x" * 64} for number in range(64)]


def running_status() -> dict[str, Any]:
    """Return the status that a kubelet writes for a running pod."""
    return {
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


def weight(manifest: dict[str, Any]) -> int:
    """Return the size of a manifest as JSON, in bytes."""
    return len(msgspec.json.encode(manifest))
