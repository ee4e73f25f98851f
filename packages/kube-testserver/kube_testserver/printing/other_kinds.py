"""The columns of `kubectl get` for volumes, configuration, access rules and devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kube_testserver.printing.columns import (
    AGE,
    NAME,
    Column,
    Field,
    Printer,
    field,
    number,
    printer,
    wide,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kube_testserver.store import Object

__all__ = ["OTHER_PRINTERS"]

_UNSET: Final = "<unset>"
_DEFAULT_CLASS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _phase(obj: Object, _now: float) -> str:
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    return (obj.get("status") or {}).get("phase") or ""


def _modes(modes: Iterable[str]) -> str:
    given = set(modes)
    return ",".join(short for mode, short in _MODES.items() if mode in given)


def _class_of(obj: Object, _now: float) -> Any:
    by_annotation = (obj["metadata"].get("annotations") or {}).get(_CLASS)
    return by_annotation or (obj.get("spec") or {}).get("storageClassName") or ""


def _if_bound(shown: Field) -> Field:
    column, cell = shown
    return column, lambda claim, now: cell(claim, now) if (claim.get("spec") or {}).get("volumeName") else ""


def _storage_class_name(one: Object, _now: float) -> Any:
    annotations = one["metadata"].get("annotations") or {}
    is_default = any(annotations.get(key) == "true" for key in _DEFAULT_CLASS)
    return one["metadata"]["name"] + (" (default)" if is_default else "")


def _claim_state(claim: Object, _now: float) -> str:
    leaving, status = "deletionTimestamp" in claim["metadata"], claim.get("status") or {}
    states = ["deleted"] if leaving else []
    if status.get("allocation") is not None:
        states += ["allocated", "reserved"] if status.get("reservedFor") else ["allocated"]
    elif not leaving:
        states.append("pending")
    return ",".join(states)


_ATTRIBUTES_CLASS: Final = field("VolumeAttributesClass", "spec.volumeAttributesClassName", otherwise=_UNSET)
_VOLUME_MODE: Final = wide(field("VolumeMode", "spec.volumeMode", otherwise=_UNSET))
_ROLES: Final = printer(NAME, field("Created At", "metadata.creationTimestamp", type="date"))
_BINDINGS: Final = printer(
    NAME,
    field("Role", "roleRef", otherwise="/", convert=lambda role: f"{role.get('kind', '')}/{role.get('name', '')}"),
    AGE,
)
OTHER_PRINTERS: Final[dict[str, Printer]] = {
    "persistentvolumeclaims": printer(
        NAME,
        (Column("Status"), _phase),
        field("Volume", "spec.volumeName"),
        _if_bound(field("Capacity", "status.capacity.storage", convert=str)),
        _if_bound(field("Access Modes", "status.accessModes", convert=_modes)),
        (Column("StorageClass"), _class_of),
        _ATTRIBUTES_CLASS,
        AGE,
        *_VOLUME_MODE,
    ),
    "persistentvolumes": printer(
        NAME,
        field("Capacity", "spec.capacity.storage", convert=str),
        field("Access Modes", "spec.accessModes", convert=_modes),
        field("Reclaim Policy", "spec.persistentVolumeReclaimPolicy"),
        (Column("Status"), _phase),
        field("Claim", "spec.claimRef", convert=lambda one: f"{one.get('namespace', '')}/{one.get('name', '')}"),
        (Column("StorageClass"), _class_of),
        _ATTRIBUTES_CLASS,
        field("Reason", "status.reason"),
        AGE,
        *_VOLUME_MODE,
    ),
    "storageclasses.storage.k8s.io": printer(
        (NAME[0], _storage_class_name),
        field("Provisioner", "provisioner"),
        field("ReclaimPolicy", "reclaimPolicy", otherwise="Delete"),
        field("VolumeBindingMode", "volumeBindingMode", otherwise="Immediate"),
        field("AllowVolumeExpansion", "allowVolumeExpansion", otherwise=False),
        AGE,
    ),
    "configmaps": printer(
        NAME,
        (Column("Data"), lambda one, _: len(one.get("data") or ()) + len(one.get("binaryData") or ())),
        AGE,
    ),
    "secrets": printer(NAME, field("Type", "type"), field("Data", "data", otherwise=0, convert=len), AGE),
    "priorityclasses.scheduling.k8s.io": printer(
        NAME,
        number("Value", "value"),
        field("Global-Default", "globalDefault", otherwise=False, type="boolean", convert=bool),
        AGE,
        field("PreemptionPolicy", "preemptionPolicy"),
    ),
    "customresourcedefinitions.apiextensions.k8s.io": _ROLES,
    "roles.rbac.authorization.k8s.io": _ROLES,
    "clusterroles.rbac.authorization.k8s.io": _ROLES,
    "rolebindings.rbac.authorization.k8s.io": _BINDINGS,
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDINGS,
    "resourceclaims.resource.k8s.io": printer(NAME, (Column("State"), _claim_state), AGE),
    "resourceslices.resource.k8s.io": printer(
        NAME, field("Node", "spec.nodeName"), field("Driver", "spec.driver"), field("Pool", "spec.pool.name"), AGE
    ),
}
"""By collection: how these kinds are printed."""
