"""Kinds of pods and nodes that between them concern every plugin, for `twins`."""

from __future__ import annotations

from typing import Any

__all__ = ["CLAIM", "CLASS", "CLASS_CLAIM", "CSI_NODE", "KINDS", "NODES", "OWNER", "WEB", "make_volume"]

_WEB = {"app": "web"}
#: The selector of what concerns the pods of one application.
WEB = {"matchLabels": _WEB}
#: Who owns pods of kind "owned".
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": True}
_ZONE, _HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
_SMALL = {"cpu": "300m", "memory": "256Mi"}


def _spread(key: str, action: str) -> dict[str, Any]:
    return {
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": action, "labelSelector": WEB}
        ]
    }


def _affinity(kind: str, key: str, **more: Any) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": WEB, **more}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _wish(key: str, value: str) -> dict[str, Any]:
    preference = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    wishes = [{"weight": 10, "preference": preference}]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wishes}}


#: Keywords of `pod_manifest` by name of the kind.
KINDS: dict[str, dict[str, Any]] = {
    "plain": {"requests": _SMALL},
    "other plain": {"requests": _SMALL, "labels": {"app": "db"}},
    "silent": {},
    "large": {"requests": {"cpu": "1500m", "memory": "1Gi"}},
    "huge": {"requests": {"cpu": "900"}},
    "gpu": {"requests": {"cpu": "100m", "example.com/gpu": "1"}},
    "important": {"requests": {"cpu": "1500m"}, "priority": 100},
    "selecting": {"requests": _SMALL, "node_selector": {"disk": "ssd"}},
    "wishing": {"requests": _SMALL, "affinity": _wish("disk", "ssd")},
    "tolerating": {"requests": _SMALL, "tolerations": [{"operator": "Exists"}]},
    "port": {"requests": _SMALL, "host_ports": (8080,)},
    "with image": {"requests": _SMALL, "images": ("registry.example/large:v1", "registry.example/other")},
    "demanding": {
        "requests": _SMALL,
        "spec": {
            "containers": [
                {"name": "c", "image": "app", "restartPolicyRules": [{"action": "RestartAllContainers"}]},
            ]
        },
    },
    "web": {"requests": _SMALL, "labels": _WEB},
    "owned": {"requests": _SMALL, "labels": _WEB},
    "near": {"requests": _SMALL, "labels": _WEB, "affinity": _affinity("podAffinity", _ZONE)},
    "apart": {"requests": _SMALL, "labels": _WEB, "affinity": _affinity("podAntiAffinity", _HOST)},
    "near a team": {
        "requests": _SMALL,
        "affinity": _affinity("podAffinity", _ZONE, namespaceSelector={"matchLabels": {"team": "red"}}),
    },
    "spread": {"requests": _SMALL, "labels": _WEB, "spec": _spread(_ZONE, "DoNotSchedule")},
    "spread somewhat": {"requests": _SMALL, "labels": _WEB, "spec": _spread(_HOST, "ScheduleAnyway")},
    "with claim": {
        "requests": _SMALL,
        "spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "claim"}}]},
    },
    "with class": {
        "requests": _SMALL,
        "spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "of-a-class"}}]},
    },
}

NODES: dict[str, list[Any]] = {
    "allocatable": [
        {"cpu": "4", "memory": "8Gi"},
        {"cpu": "4", "memory": "8Gi"},
        {"cpu": "2", "memory": "16Gi", "example.com/gpu": "2"},
        {"cpu": "8", "memory": "4Gi", "pods": "5"},
    ],
    "labels": [{}, {"disk": "ssd"}, {"disk": "hdd"}],
    "taints": [
        [],
        [],
        [{"key": "soft", "effect": "PreferNoSchedule"}],
        [{"key": "hard", "value": "yes", "effect": "NoSchedule"}],
    ],
    "images": [{}, {"registry.example/large:v1": 900_000_000}, {"registry.example/other:latest": 200_000_000}],
}

_DRIVER = "csi.example.com"
#: Bound to the volume of that name, if there is one.
CLAIM: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {
        "name": "claim",
        "namespace": "default",
        "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
    },
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}},
        "volumeName": "volume",
    },
    "status": {"phase": "Bound"},
}
#: Waits for a volume of a class.
CLASS_CLAIM: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "of-a-class", "namespace": "default"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "slow",
        "resources": {"requests": {"storage": "1Gi"}},
    },
    "status": {"phase": "Pending"},
}
#: Makes volumes where no node is, as soon as there is a pod for them.
CLASS: dict[str, Any] = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "slow"},
    "provisioner": _DRIVER,
    "volumeBindingMode": "WaitForFirstConsumer",
    "allowedTopologies": [{"matchLabelExpressions": [{"key": _ZONE, "values": ["nowhere"]}]}],
}
#: Of a node that can attach no volume.
CSI_NODE: dict[str, Any] = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "CSINode",
    "spec": {"drivers": [{"name": _DRIVER, "nodeID": "id", "allocatable": {"count": 0}}]},
}


def make_volume(zone: str) -> dict[str, Any]:
    """Return the volume of `CLAIM`, which can be reached from one zone."""
    terms = [{"matchExpressions": [{"key": _ZONE, "operator": "In", "values": [zone]}]}]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "volume"},
        "spec": {
            "capacity": {"storage": "2Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
            "csi": {"driver": _DRIVER, "volumeHandle": "handle"},
            "claimRef": {"namespace": "default", "name": "claim"},
        },
        "status": {"phase": "Bound"},
    }
