"""The table of kinds: the URL and the Python type of each kind.

Each scheduler in a process has its own `KindTable`, to which plugins add their custom resources.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from kube_objects.config_maps import ConfigMap
from kube_objects.coordination import Event, Lease
from kube_objects.device_classes import DeviceClass
from kube_objects.errors import DecodeError
from kube_objects.meta import KubeObject
from kube_objects.nodes import Namespace, Node
from kube_objects.pods import EndedPod, Pod
from kube_objects.policy import PodDisruptionBudget, PriorityClass
from kube_objects.resource_claims import ResourceClaim, ResourceClaimTemplate
from kube_objects.resource_slices import ResourceSlice
from kube_objects.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from kube_objects.workloads import ReplicaSet, ReplicationController, Service, StatefulSet


class ResourceKind(NamedTuple):
    """One row: where objects of a kind are served, and the type they are decoded to."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    type: type[KubeObject]
    #: Which of the objects are meant, in a form that the API server takes; "" for all. A row that means some of a kind
    #: has a type of its own, which reads what is needed of those.
    field_selector: str = ""
    #: False for a kind that is read with `client.get` and `client.list` only; the API server may not let it be watched.
    watch: bool = True

    @property
    def api_version(self) -> str:
        """``group/version``, or the bare version of the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """``plural.group``, or the bare plural of the core group: the name for kubectl, in messages and metrics."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of the collection, of one object in it, or of a part of that object.

        Without `namespace`, the path of a namespaced kind covers all namespaces.
        """
        parts = ["/apis" if self.group else "/api", self.api_version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/".join(parts)


def kind_of(
    cls: type[KubeObject], plural: str, *, namespaced: bool = True, field_selector: str = "", watch: bool = True
) -> ResourceKind:
    """Make the row for a type from its `api_version` and `kind`."""
    group, _, version = cls.api_version.rpartition("/")
    return ResourceKind(group, version, plural, cls.kind, namespaced, cls, field_selector, watch)


PODS: Final = kind_of(Pod, "pods")
NODES: Final = kind_of(Node, "nodes", namespaced=False)
NAMESPACES: Final = kind_of(Namespace, "namespaces", namespaced=False)
EVENTS: Final = kind_of(Event, "events")
LEASES: Final = kind_of(Lease, "leases")

ENDED_PODS: Final = kind_of(
    EndedPod, "pods", field_selector="status.phase!=Pending,status.phase!=Running,status.phase!=Unknown"
)
"""Pods that have succeeded or failed, for those who count them. The scheduler itself reads the others only."""

BUILT_IN_KINDS: Final = (
    PODS,
    NODES,
    NAMESPACES,
    EVENTS,
    LEASES,
    kind_of(ConfigMap, "configmaps"),
    kind_of(PriorityClass, "priorityclasses", namespaced=False),
    kind_of(PersistentVolume, "persistentvolumes", namespaced=False),
    kind_of(PersistentVolumeClaim, "persistentvolumeclaims"),
    kind_of(StorageClass, "storageclasses", namespaced=False),
    kind_of(CSINode, "csinodes", namespaced=False),
    kind_of(CSIDriver, "csidrivers", namespaced=False),
    kind_of(CSIStorageCapacity, "csistoragecapacities"),
    kind_of(VolumeAttachment, "volumeattachments", namespaced=False),
    kind_of(PodDisruptionBudget, "poddisruptionbudgets"),
    kind_of(Service, "services"),
    kind_of(ReplicationController, "replicationcontrollers"),
    kind_of(ReplicaSet, "replicasets"),
    kind_of(StatefulSet, "statefulsets"),
    kind_of(DeviceClass, "deviceclasses", namespaced=False),
    kind_of(ResourceSlice, "resourceslices", namespaced=False),
    kind_of(ResourceClaim, "resourceclaims"),
    kind_of(ResourceClaimTemplate, "resourceclaimtemplates"),
)
"""All kinds that the scheduler itself reads or writes."""


def declaration_of(cls: type) -> str:
    """Return the call of `kind_of` that declares a type, for messages; of a type that is not built in, a guess."""
    known = next((kind for kind in BUILT_IN_KINDS if kind.type is cls), None)
    plural = known.plural if known is not None else f"{cls.__name__.lower()}s"
    scope = ", namespaced=False" if known is not None and not known.namespaced else ""
    return f'kind_of({cls.__name__}, "{plural}"{scope})'


class KindTable:
    """Kinds by group, version and plural, by kind, and by type.

    A type may serve several rows (the same kind in two versions); by type, the row registered first is found.
    """

    def __init__(self, kinds: Iterable[ResourceKind] = BUILT_IN_KINDS) -> None:
        self._by_plural: dict[tuple[str, str, str], ResourceKind] = {}
        self._by_kind: dict[tuple[str, str], ResourceKind] = {}
        self._by_type: dict[type[KubeObject], ResourceKind] = {}
        for kind in kinds:
            self.register(kind)

    def register(self, kind: ResourceKind) -> None:
        """Add a row; the same row again is fine, another one in its place raises `DecodeError`.

        A row that means some of a kind is found by its type only. Whether it is watched makes no other row.
        """
        if self._by_type.get(kind.type) is kind:
            return
        kind = kind if kind.watch else kind._replace(watch=True)
        if kind.field_selector:
            self._by_type.setdefault(kind.type, kind)
            return
        plural = (kind.group, kind.version, kind.plural)
        for known in (self._by_plural.get(plural), self._by_kind.get((kind.api_version, kind.kind))):
            if known is not None and known != kind:
                raise DecodeError(_contradiction(known, kind))
        self._by_plural[plural] = kind
        self._by_kind[kind.api_version, kind.kind] = kind
        self._by_type.setdefault(kind.type, kind)

    def find(self, group: str, version: str, plural: str) -> ResourceKind | None:
        """Return the row served at ``group/version/plural``; the core group is the empty text."""
        return self._by_plural.get((group, version, plural))

    def find_kind(self, api_version: str, kind: str) -> ResourceKind | None:
        """Return the row of what an object calls itself."""
        return self._by_kind.get((api_version, kind))

    def of(self, cls: type[KubeObject]) -> ResourceKind:
        """Return the row of a type; raise `DecodeError` if it was not registered."""
        try:
            return self._by_type[cls]
        except KeyError:
            raise DecodeError(
                f"{_qualified(cls)} is not a declared kind; add {declaration_of(cls)} to the `watches` of the plugin "
                "that reads it, with watch=False if it is only listed"
            ) from None

    def __iter__(self) -> Iterator[ResourceKind]:
        return iter(self._by_plural.values())

    def __len__(self) -> int:
        return len(self._by_plural)


def _contradiction(known: ResourceKind, kind: ResourceKind) -> str:
    """Return what differs between two rows of one kind."""
    if known.type is not kind.type:
        return (
            f"{kind.plural} of {kind.api_version} is already decoded to {_qualified(known.type)}, "
            f"not to {_qualified(kind.type)}; both have to use one type"
        )
    what = "plural" if known.plural != kind.plural else "namespaced"
    had, has = getattr(known, what), getattr(kind, what)
    return f"{kind.kind} of {kind.api_version} is already declared with {what}={had!r}, not {has!r}; use one of them"


def _qualified(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
