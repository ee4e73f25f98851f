"""The rows of storage, configuration and access: mostly a field per column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyscheduler.cluster.embedded.printing.columns import AGE, NAME, NONE, Column, Printer, age_of, columns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyscheduler.cluster.embedded.store import Object

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


def _phase(obj: Object) -> str:
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    return (obj.get("status") or {}).get("phase") or ""


def _modes(modes: Iterable[str] | None) -> str:
    given = set(modes or ())
    return ",".join(short for mode, short in _MODES.items() if mode in given)


def _class_of(obj: Object, spec: Object) -> str:
    return (obj["metadata"].get("annotations") or {}).get(_CLASS) or spec.get("storageClassName") or ""


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _claim_cells(claim: Object, now: float) -> list[Any]:
    spec, status = claim.get("spec") or {}, claim.get("status") or {}
    bound = bool(spec.get("volumeName"))
    return [
        claim["metadata"]["name"],
        _phase(claim),
        spec.get("volumeName") or "",
        _text((status.get("capacity") or {}).get("storage")) if bound else "",
        _modes(status.get("accessModes")) if bound else "",
        _class_of(claim, spec),
        spec.get("volumeAttributesClassName") or _UNSET,
        age_of(claim, now),
        spec.get("volumeMode") or _UNSET,
    ]


def _volume_cells(volume: Object, now: float) -> list[Any]:
    spec, status = volume.get("spec") or {}, volume.get("status") or {}
    claim = spec.get("claimRef")
    return [
        volume["metadata"]["name"],
        _text((spec.get("capacity") or {}).get("storage")),
        _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy") or "",
        _phase(volume),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        _class_of(volume, spec),
        spec.get("volumeAttributesClassName") or _UNSET,
        status.get("reason") or "",
        age_of(volume, now),
        spec.get("volumeMode") or _UNSET,
    ]


def _storage_class_cells(one: Object, now: float) -> list[Any]:
    annotations = one["metadata"].get("annotations") or {}
    is_default = any(annotations.get(key) == "true" for key in _DEFAULT_CLASS)
    return [
        one["metadata"]["name"] + (" (default)" if is_default else ""),
        one.get("provisioner") or "",
        one.get("reclaimPolicy") or "Delete",
        one.get("volumeBindingMode") or "Immediate",
        bool(one.get("allowVolumeExpansion")),
        age_of(one, now),
    ]


def _driver_cells(driver: Object, now: float) -> list[Any]:
    spec = driver.get("spec") or {}
    tokens = spec.get("tokenRequests")
    return [
        driver["metadata"]["name"],
        spec.get("attachRequired") is not False,
        bool(spec.get("podInfoOnMount")),
        bool(spec.get("storageCapacity")),
        _UNSET if tokens is None else ",".join(one.get("audience") or "" for one in tokens),
        bool(spec.get("requiresRepublish")),
        ",".join(spec.get("volumeLifecycleModes") or ()) or NONE,
        age_of(driver, now),
    ]


def _csi_node_cells(node: Object, now: float) -> list[Any]:
    return [node["metadata"]["name"], len((node.get("spec") or {}).get("drivers") or ()), age_of(node, now)]


def _capacity_cells(one: Object, _now: float) -> list[Any]:
    capacity = one.get("capacity")
    return [one["metadata"]["name"], one.get("storageClassName") or "", _UNSET if capacity is None else str(capacity)]


def _attachment_cells(one: Object, now: float) -> list[Any]:
    spec, status = one.get("spec") or {}, one.get("status") or {}
    volume = (spec.get("source") or {}).get("persistentVolumeName") or ""
    attached = bool(status.get("attached"))
    name, attacher, node = one["metadata"]["name"], spec.get("attacher") or "", spec.get("nodeName") or ""
    return [name, attacher, volume, node, attached, age_of(one, now)]


def _config_map_cells(one: Object, now: float) -> list[Any]:
    return [one["metadata"]["name"], len(one.get("data") or ()) + len(one.get("binaryData") or ()), age_of(one, now)]


def _secret_cells(one: Object, now: float) -> list[Any]:
    return [one["metadata"]["name"], one.get("type") or "", len(one.get("data") or ()), age_of(one, now)]


def _role_cells(role: Object, _now: float) -> list[Any]:
    return [role["metadata"]["name"], role["metadata"].get("creationTimestamp", "")]


def _binding_cells(binding: Object, now: float) -> list[Any]:
    role = binding.get("roleRef") or {}
    named: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in binding.get("subjects") or ():
        prefix = f"{subject.get('namespace', '')}/" if subject.get("kind") == "ServiceAccount" else ""
        named.setdefault(subject.get("kind") or "", []).append(prefix + (subject.get("name") or ""))
    return [
        binding["metadata"]["name"],
        f"{role.get('kind', '')}/{role.get('name', '')}",
        age_of(binding, now),
        *(", ".join(named[kind]) for kind in ("User", "Group", "ServiceAccount")),
    ]


def _flag(name: str) -> Column:
    return Column(name, type="boolean")


_BINDINGS: Final = Printer(columns(NAME, "Role", AGE, wide=("Users", "Groups", "ServiceAccounts")), _binding_cells)
_ROLES: Final = Printer((NAME, Column("Created At", type="date")), _role_cells)
OTHER_PRINTERS: Final[dict[str, Printer]] = {
    "persistentvolumeclaims": Printer(
        columns(
            NAME,
            *("Status", "Volume", "Capacity", "Access Modes", "StorageClass", "VolumeAttributesClass"),
            AGE,
            wide=("VolumeMode",),
        ),
        _claim_cells,
    ),
    "persistentvolumes": Printer(
        columns(
            NAME,
            *("Capacity", "Access Modes", "Reclaim Policy", "Status", "Claim", "StorageClass"),
            *("VolumeAttributesClass", "Reason"),
            AGE,
            wide=("VolumeMode",),
        ),
        _volume_cells,
    ),
    "storageclasses.storage.k8s.io": Printer(
        columns(NAME, "Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion", AGE),
        _storage_class_cells,
    ),
    "csidrivers.storage.k8s.io": Printer(
        columns(
            NAME,
            *(_flag(name) for name in ("AttachRequired", "PodInfoOnMount", "StorageCapacity")),
            "TokenRequests",
            _flag("RequiresRepublish"),
            "Modes",
            AGE,
        ),
        _driver_cells,
    ),
    "csinodes.storage.k8s.io": Printer(columns(NAME, Column("Drivers", type="integer"), AGE), _csi_node_cells),
    "csistoragecapacities.storage.k8s.io": Printer(columns(NAME, "StorageClassName", "Capacity"), _capacity_cells),
    "volumeattachments.storage.k8s.io": Printer(
        columns(NAME, Column("Attacher", format="name"), "PV", "Node", _flag("Attached"), AGE), _attachment_cells
    ),
    "configmaps": Printer(columns(NAME, "Data", AGE), _config_map_cells),
    "secrets": Printer(columns(NAME, "Type", "Data", AGE), _secret_cells),
    "roles.rbac.authorization.k8s.io": _ROLES,
    "clusterroles.rbac.authorization.k8s.io": _ROLES,
    "rolebindings.rbac.authorization.k8s.io": _BINDINGS,
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDINGS,
}
"""By collection: how these kinds are printed."""
