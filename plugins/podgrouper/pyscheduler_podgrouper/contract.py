"""The interface of rules. A rule is a function for one kind of workload: it computes the group to which a pod belongs.

A rule gets the pod and its owners, and reads other objects only through `lookup`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

import attrs

from pyscheduler.api import KubeObject, ObjectMeta, OwnerReference, Pod
from pyscheduler_podgrouper.fields import GroupingError

__all__ = [
    "GroupPlan",
    "Grouper",
    "Lookup",
    "ObjectForbiddenError",
    "ObjectNotFoundError",
    "Owner",
    "Rule",
    "Settings",
    "SubGroupPlan",
    "TopologyPlan",
    "split_version",
]


class ObjectNotFoundError(GroupingError):
    """An object that a rule needs does not exist."""


class ObjectForbiddenError(GroupingError):
    """The grouper may not read an object."""


def split_version(api_version: str) -> tuple[str, str]:
    """Return group and version of an `apiVersion`; the core group is "" ."""
    group, _, version = api_version.rpartition("/")
    return group, version


@attrs.frozen(kw_only=True)
class Owner:
    """An object of any kind, as rules read it."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    labels: Mapping[str, str] = attrs.field(factory=dict)
    annotations: Mapping[str, str] = attrs.field(factory=dict)
    owner_references: Sequence[OwnerReference] = ()
    #: The fields beside the metadata: `spec`, `status`, `data`. Read them with `fields`.
    body: Mapping[str, Any] = attrs.field(factory=dict)

    @classmethod
    def from_metadata(cls, api_version: str, kind: str, metadata: ObjectMeta, body: Mapping[str, Any]) -> Owner:
        """Return the view of an object whose metadata is decoded."""
        return cls(
            api_version=api_version,
            kind=kind,
            name=metadata.name,
            namespace=metadata.namespace,
            uid=metadata.uid,
            labels=metadata.labels,
            annotations=metadata.annotations,
            owner_references=metadata.owner_references,
            body=body,
        )

    @classmethod
    def from_object(cls, item: KubeObject, body: Mapping[str, Any] | None = None) -> Owner:
        """Return the view of a decoded object; `body` holds the fields that rules may read."""
        return cls.from_metadata(item.api_version, item.kind, item.metadata, body or {})

    @property
    def gvk(self) -> tuple[str, str, str]:
        """Return group, version and kind."""
        return (*split_version(self.api_version), self.kind)

    @property
    def reference(self) -> OwnerReference:
        """Return the reference by which a group names its owner."""
        return OwnerReference(api_version=self.api_version, kind=self.kind, name=self.name, uid=self.uid)

    def with_missing_from(self, other: Owner) -> Owner:
        """Return this owner with the labels and annotations of another one where it has no such key."""
        return attrs.evolve(
            self,
            labels={**other.labels, **self.labels},
            annotations={**other.annotations, **self.annotations},
        )


@attrs.frozen(kw_only=True)
class Settings:
    """The settings that rules read."""

    queue_label_key: str = "kai.scheduler/queue"
    node_pool_label_key: str = "kai.scheduler/node-pool"
    default_queue: str = "default-queue"
    #: Keep the name of an existing group that has the name of an older version.
    search_for_legacy_pod_groups: bool = True
    #: Make one group for each Revision of Knative instead of one for each pod.
    gang_schedule_knative: bool = True
    #: ConfigMap with the default priority and preemptibility of kinds; none without a name and a namespace.
    defaults_config_map: str = ""
    defaults_config_map_namespace: str = ""


class Lookup(Protocol):
    """The objects that rules may read besides the pod and its owners."""

    @property
    def settings(self) -> Settings:
        """Return the settings."""
        ...

    def get(self, api_version: str, kind: str, name: str, namespace: str = "") -> Owner:
        """Return an object; raise `ObjectNotFoundError` or `ObjectForbiddenError` if there is none to read."""
        ...

    def pods(self, namespace: str, *, labels: Mapping[str, str]) -> Sequence[Pod]:
        """Return the pods of a namespace that have all these labels, whatever their scheduler."""
        ...

    def members(self, namespace: str, group: str) -> Sequence[Pod]:
        """Return the pods of a namespace that name this group in their annotation."""
        ...


@attrs.frozen(kw_only=True)
class TopologyPlan:
    """The topology levels at which the pods of a group must be together; empty texts constrain nothing."""

    topology: str = ""
    required: str = ""
    preferred: str = ""

    def __bool__(self) -> bool:
        return bool(self.topology or self.required or self.preferred)

    def wire(self) -> dict[str, str]:
        """Return the fields that are set, as a PodGroup has them."""
        named = {
            "topology": self.topology,
            "requiredTopologyLevel": self.required,
            "preferredTopologyLevel": self.preferred,
        }
        return {name: value for name, value in named.items() if value}


@attrs.frozen(kw_only=True)
class SubGroupPlan:
    """One sub-group of a group."""

    name: str
    min_member: int
    parent: str | None = None
    topology: TopologyPlan | None = None
    #: Names of the pods that are known to belong to it.
    pods: Sequence[str] = ()

    def wire(self) -> dict[str, Any]:
        """Return the sub-group as a PodGroup has it; a minimum of 0 is not written."""
        return {
            "name": self.name,
            **({"minMember": self.min_member} if self.min_member > 0 else {}),
            **({"parent": self.parent} if self.parent is not None else {}),
            **({"topologyConstraint": self.topology.wire()} if self.topology is not None else {}),
        }


@attrs.frozen(kw_only=True)
class GroupPlan:
    """The group that a pod belongs to, as the rule of its workload wants it."""

    name: str
    namespace: str
    owner: OwnerReference
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    queue: str
    priority_class_name: str
    #: `preemptible`, `non-preemptible`, or "" for what follows from the priority.
    preemptibility: str = ""
    min_member: int = 1
    topology: TopologyPlan = TopologyPlan()
    sub_groups: Sequence[SubGroupPlan] = ()
    #: Whether the rule read which pods have a node; it is then asked again when this pod gets one.
    follows_nodes: bool = False

    def sub_group_of(self, pod: Pod) -> str | None:
        """Return the name of a pod's sub-group; None if it has none."""
        if pod.namespace != self.namespace:
            return None
        return next((each.name for each in self.sub_groups if pod.name in each.pods), None)


Rule: TypeAlias = Callable[[Owner, Sequence[Owner], Pod, Lookup], GroupPlan]
"""A rule gets the top owner, all readable owners (the nearest first, the top owner last), the pod, and the lookup."""

_ANY_VERSION: Final = "*"


def _no_rule(_top: Owner, _chain: Sequence[Owner], _pod: Pod, _lookup: Lookup) -> GroupPlan:
    raise AssertionError("a kind that is passed over has no rule")


@attrs.frozen(kw_only=True)
class Grouper:
    """One row: a kind of workload in some versions, and its rule."""

    group: str
    kind: str
    plural: str
    #: `"*"` is any version, at the top of a chain of owners only.
    versions: Sequence[str]
    rule: Rule = _no_rule
    #: Pass over this owner: the rule of the owner below it counts.
    skips: bool = False
    #: The fields beside the metadata that the rule reads.
    reads: Sequence[str] = ()
    #: The versions to watch, if `versions` has `"*"`.
    served: Sequence[str] = ()
    namespaced: bool = True

    @property
    def watched_versions(self) -> Sequence[str]:
        """Return the versions to watch."""
        return tuple(version for version in self.versions if version != _ANY_VERSION) or self.served
