"""Read a dump of a cluster: manifests, a snapshot of pyscheduler, or a snapshot of KAI-Scheduler.

`kubectl get -o yaml` prints manifests. A snapshot is a zip file that a scheduler serves: pyscheduler at
`/debug/snapshot`, KAI-Scheduler at `/get-snapshot`.

Source: NVIDIA/KAI-Scheduler, `pkg/scheduler/plugins/snapshot/snapshot.go`.
"""

from __future__ import annotations

import io
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
import msgspec

from kube_objects.codec import strip_nulls
from kube_objects.pods import TERMINAL_PHASES
from pyscheduler.cluster.manifest_objects import read_manifests
from pyscheduler.config.snapshot_file import OBJECTS, is_snapshot, members
from pyscheduler.framework.errors import ConfigError, os_error_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Dump", "Key", "Object", "is_terminal", "key_of", "name_of", "read_dump"]

Object: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[str, str, str]
"""Kind, namespace and name of an object."""

_KAI_MEMBER: Final = "snapshot.json"
#: apiVersion and kind of the lists of a snapshot of KAI-Scheduler.
_KAI_LISTS: Final = {
    "pods": ("v1", "Pod"),
    "nodes": ("v1", "Node"),
    "queues": ("scheduling.run.ai/v2", "Queue"),
    "podGroups": ("scheduling.run.ai/v2alpha2", "PodGroup"),
    "bindRequests": ("scheduling.run.ai/v1alpha2", "BindRequest"),
    "priorityClasses": ("scheduling.k8s.io/v1", "PriorityClass"),
    "configMaps": ("v1", "ConfigMap"),
    "persistentVolumeClaims": ("v1", "PersistentVolumeClaim"),
    "csiStorageCapacities": ("storage.k8s.io/v1", "CSIStorageCapacity"),
    "storageClasses": ("storage.k8s.io/v1", "StorageClass"),
    "csiDrivers": ("storage.k8s.io/v1", "CSIDriver"),
    "resourceClaims": ("resource.k8s.io/v1", "ResourceClaim"),
    "resourceSlices": ("resource.k8s.io/v1", "ResourceSlice"),
    "deviceClasses": ("resource.k8s.io/v1", "DeviceClass"),
    "topologies": ("kai.scheduler/v1alpha1", "Topology"),
}
_CLUSTER_SCOPED: Final = frozenset({"Node", "Namespace", "PersistentVolume", "PriorityClass", "StorageClass"})


@attrs.frozen(kw_only=True)
class Dump:
    """The objects of a cluster. Each has `kind`, `apiVersion` and `metadata.name`; they are read, never changed."""

    objects: Sequence[Object]
    #: The names of the files, for messages.
    source: str
    #: A file that has the configuration of the scheduler, too; "" if there is none.
    config_file: str = ""
    #: The `schedulerName` of KAI-Scheduler, if the dump is its snapshot.
    kai_scheduler: str = ""

    def of_kind(self, kind: str) -> Iterator[Object]:
        """Yield the objects of a kind."""
        return (one for one in self.objects if one["kind"] == kind)


def read_dump(files: Sequence[str]) -> Dump:
    """Return the objects of the files; `-` is standard input.

    Raises `ConfigError` for a file that cannot be read, and for an object that occurs twice.
    """
    objects: list[Object] = []
    config_file = kai_scheduler = ""
    for file in files:
        content = _content(file)
        source = "standard input" if file == "-" else file
        if _is_of_kai(content):
            found, kai_scheduler = _kai_objects(content, source)
            objects += found
            continue
        objects += read_manifests(content, source=source)
        if is_snapshot(content) and file != "-":
            config_file = file
    dump = Dump(objects=objects, source=", ".join(files), config_file=config_file, kai_scheduler=kai_scheduler)
    _check(dump)
    return dump


def key_of(one: Object) -> Key:
    """Return the key of an object; namespaced objects that name no namespace are in `default`."""
    metadata = one["metadata"]
    namespace = "" if one["kind"] in _CLUSTER_SCOPED else metadata.get("namespace") or "default"
    return one["kind"], namespace, metadata["name"]


def name_of(pod: Object) -> str:
    """Return `namespace/name` of a pod."""
    return "/".join(key_of(pod)[1:])


def is_terminal(pod: Object) -> bool:
    """Return True if a pod has ended."""
    return (pod.get("status") or {}).get("phase") in TERMINAL_PHASES


def _content(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise ConfigError(os_error_text(error), source=file) from error


def _is_of_kai(content: bytes) -> bool:
    if not is_snapshot(content):
        return False
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile:
        return False  # the other reader says that it is damaged
    return _KAI_MEMBER in names and not any(name.startswith(OBJECTS) for name in names)


def _kai_objects(content: bytes, source: str) -> tuple[list[Object], str]:
    """Return the objects of a snapshot of KAI-Scheduler, and its `schedulerName`."""
    try:
        data = msgspec.json.decode(members(content, _KAI_MEMBER, source=source)[0])
    except msgspec.DecodeError as error:
        raise ConfigError(f"{_KAI_MEMBER} is not JSON: {error}; fetch the snapshot again", source=source) from error
    lists = data.get("rawObjects") if isinstance(data, dict) else None
    if not isinstance(lists, dict):
        raise ConfigError(f"{_KAI_MEMBER} has no rawObjects; give the zip file of /get-snapshot", source=source)
    found: list[Object] = []
    for name, items in lists.items():
        if name not in _KAI_LISTS or not items:
            continue
        api_version, kind = _KAI_LISTS[name]
        for position, item in enumerate(items, 1):
            one = strip_nulls(item)
            if not isinstance(one, dict) or not (one.get("metadata") or {}).get("name"):
                raise ConfigError(f"rawObjects.{name}: object {position} has no metadata.name", source=source)
            found.append({**one, "apiVersion": api_version, "kind": kind})
    if not found:
        raise ConfigError("no object in it", source=source)
    return found, str((data.get("schedulerParams") or {}).get("schedulerName") or "")


def _check(dump: Dump) -> None:
    """Raise `ConfigError` for an object that occurs twice, and for a dump without nodes."""
    seen: set[tuple[str, Key]] = set()
    for one in dump.objects:
        group = str(one.get("apiVersion") or "").partition("/")[0]
        if (group, key_of(one)) in seen:
            kind, namespace, name = key_of(one)
            where = f"{namespace}/{name}" if namespace else name
            raise ConfigError(f"{kind} {where} occurs twice; give each object once", source=dump.source)
        seen.add((group, key_of(one)))
    if not any(True for _ in dump.of_kind("Node")):
        raise ConfigError("no node in it; dump nodes and pods: kubectl get nodes,pods -A -o yaml", source=dump.source)
