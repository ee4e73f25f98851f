"""PersistentVolumeClaim: each claim that names no volume gets a new volume, not tied to a node.

Differs from kube-controller-manager, which first looks for an existing volume.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_testserver.workloads.contract import Child, Plan
from kube_testserver.workloads.objects import name_of, uid_of
from kube_testserver.workloads.problems import NotExpandedError

if TYPE_CHECKING:
    from kube_testserver.workloads.contract import Object, View

__all__ = ["claim"]

_SELECTED: Final = "volume.kubernetes.io/selected-node"
_COMPLETED: Final = "pv.kubernetes.io/bind-completed"


def claim(obj: Object, view: View) -> Plan:
    """Return the volume of a claim, and bind the claim to it."""
    spec, metadata = obj["spec"], obj["metadata"]
    annotations = metadata.get("annotations") or {}
    if spec.get("volumeName"):
        return Plan()
    if class_name := spec.get("storageClassName"):
        storage_class = view.storage_class(class_name)
        if storage_class is None:
            raise NotExpandedError("ProvisioningFailed", f'storageclass.storage.k8s.io "{class_name}" not found')
        if storage_class.get("volumeBindingMode") == "WaitForFirstConsumer" and _SELECTED not in annotations:
            return Plan()
    name = f"pvc-{uid_of(obj)}"
    storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage", "0")
    modes = spec.get("accessModes") or []
    volume: Object = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": modes,
            "capacity": {"storage": storage},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": name_of(obj),
                "uid": uid_of(obj),
            },
            "hostPath": {"path": f"/volumes/{name}"},
            "persistentVolumeReclaimPolicy": "Delete",
            **({"storageClassName": class_name} if class_name else {}),
        },
        "status": {"phase": "Bound"},
    }
    return Plan(
        children=(Child(obj=volume, owned=False),),
        change={"spec": {"volumeName": name}, "metadata": {"annotations": {_COMPLETED: "yes"}}},
        status={"phase": "Bound", "accessModes": modes, "capacity": {"storage": storage}},
    )
