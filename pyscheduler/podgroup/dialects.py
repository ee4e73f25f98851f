"""The formats (dialects) in which systems such as Koordinator and Volcano describe groups of pods.

For each pod, the dialects are tried in order, until one of them finds the name of a group in the pod.
"""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs

from pyscheduler.framework import ConfigError
from pyscheduler.podgroup.declarations import (
    GANG_ANNOTATIONS,
    LIGHTWEIGHT_KEYS,
    LIGHTWEIGHT_X_KEYS,
    gang_pod_fields,
    in_tree_object_body,
    in_tree_object_fields,
    lightweight_x_pod_fields,
    object_body,
    object_fields,
)
from pyscheduler.podgroup.identity import GroupId
from pyscheduler.podgroup.status import (
    ConditionStatus,
    CountsStatus,
    DialectStatus,
    KubeBatchStatus,
    PhaseStatus,
    coscheduling_phase,
    koordinator_phase,
    ming_phase,
)
from pyscheduler.podgroup.sub_group_fields import kai_sub_groups, volcano_sub_groups
from pyscheduler.podgroup.wire import (
    IN_TREE_PODGROUPS,
    KAI_PODGROUPS,
    KOORDINATOR_PODGROUPS,
    KUBE_BATCH_PODGROUPS,
    MING_PODGROUPS,
    SIGS_PODGROUPS,
    VOLCANO_PODGROUPS,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyscheduler.api import KubeObject, Pod, ResourceKind
    from pyscheduler.podgroup.fields import GroupFields
    from pyscheduler.podgroup.sub_groups import SubGroups

__all__ = ["DIALECTS", "Dialect", "DialectTable", "Key", "KeyPlace", "kinds_of", "resolve"]


class KeyPlace(StrEnum):
    """The place in which a pod names its group."""

    LABEL = "label"
    ANNOTATION = "annotation"
    FIELD = "field"


@attrs.frozen
class Key:
    """A label or annotation by its name, or `spec.schedulingGroup.podGroupName`, the only field."""

    place: KeyPlace
    name: str

    def read(self, pod: Pod) -> str:
        """Return the name of the pod's group, or "" for none."""
        if self.place is KeyPlace.LABEL:
            return pod.labels.get(self.name, "")
        if self.place is KeyPlace.ANNOTATION:
            return pod.annotations.get(self.name, "")
        group = pod.spec.scheduling_group
        return "" if group is None else group.pod_group_name or ""

    def write(self, manifest: dict[str, Any], group: str) -> None:
        """Make the pod of a manifest, or of a merge patch, a member of `group`; of no group if that is empty."""
        if self.place is KeyPlace.FIELD:
            manifest.setdefault("spec", {})["schedulingGroup"] = {"podGroupName": group} if group else None
            return
        metadata = manifest.setdefault("metadata", {})
        metadata.setdefault(f"{self.place}s", {})[self.name] = group or None


def _or_read_only(status: DialectStatus | None) -> DialectStatus:
    return status or _READ_ONLY


_READ_ONLY: Final = DialectStatus()


@attrs.frozen(kw_only=True)
class Dialect:
    """One row. The plugin `claimed_by` serves its groups unless the configuration names another plugin."""

    name: str
    #: The system that writes such groups, in words.
    system: str
    keys: tuple[Key, ...]
    claimed_by: str
    #: Rows of one family share their groups; by default a row is a family of its own.
    family: str = attrs.field(default=attrs.Factory(lambda self: self.name, takes_self=True))
    #: The kinds of objects that describe a group, each with a type of its own. Without kinds, pods describe it.
    kinds: tuple[ResourceKind, ...] = ()
    #: Returns what an object of any of `kinds` says.
    object_fields: Callable[[Any], GroupFields] | None = None
    #: Returns what an object of any of `kinds` says about parts of its group with minimums of their own; None: nothing.
    sub_groups: Callable[[Any], SubGroups] | None = None
    #: Returns the body of an object of the first of `kinds`, from values by the names of `GroupFields`: simulations
    #: create groups with it.
    object_body: Callable[[Mapping[str, Any]], Mapping[str, Any]] = object_body
    #: The smallest `spec.minMember` that the CRD of `kinds` accepts; None if it does not check.
    crd_minimum: int | None = None
    #: Whether objects of `kinds` declare resources, for which groups wait until quotas of their namespace have room.
    declares_resources: bool = False
    #: Returns what a member says; it counts before what the object says.
    pod_fields: Callable[[Pod], GroupFields] | None = None
    #: Whether members that succeeded count although the group has not started, if the living ones are too few.
    count_succeeded: bool = False
    #: What the status of the object holds and how it changes; by default, or for None, other programs write it.
    status: DialectStatus = attrs.field(default=None, converter=_or_read_only)


def _label(name: str) -> Key:
    return Key(KeyPlace.LABEL, name)


def _annotation(name: str) -> Key:
    return Key(KeyPlace.ANNOTATION, name)


_GROUP_NAME: Final = (_annotation("scheduling.k8s.io/group-name"), _annotation("scheduling.volcano.sh/group-name"))

DIALECTS: Final = (
    Dialect(
        name="sigs",
        system="scheduler-plugins",
        keys=(_label("scheduling.x-k8s.io/pod-group"),),
        claimed_by="Coscheduling",
        kinds=(SIGS_PODGROUPS,),
        declares_resources=True,
        # Koordinator reads these objects, too, with its annotations on them.
        object_fields=partial(object_fields, gang_annotations=True),
        crd_minimum=1,
        status=PhaseStatus(coscheduling_phase, has_scheduled=False),
    ),
    Dialect(
        name="ming",
        system="podgroup-scheduler-framework",
        keys=(_label("pod-group.scheduling.ming.io"),),
        claimed_by="Coscheduling",
        kinds=(MING_PODGROUPS,),
        declares_resources=True,
        object_fields=partial(object_fields, least=0),
        status=PhaseStatus(ming_phase),
    ),
    Dialect(
        name="lightweight-x",
        system="scheduler-plugins, without an object",
        keys=(_label(f"{LIGHTWEIGHT_X_KEYS}name"),),
        claimed_by="Coscheduling",
        pod_fields=lightweight_x_pod_fields,
    ),
    Dialect(
        name="kube-batch",
        system="kube-batch",
        family="group-name",
        keys=_GROUP_NAME,
        claimed_by="Coscheduling",
        kinds=KUBE_BATCH_PODGROUPS,
        declares_resources=True,
        object_fields=object_fields,
        count_succeeded=True,
        status=KubeBatchStatus(),
    ),
    Dialect(
        name="volcano",
        system="Volcano",
        family="group-name",
        keys=_GROUP_NAME,
        claimed_by="Coscheduling",
        kinds=(VOLCANO_PODGROUPS,),
        declares_resources=True,
        object_fields=object_fields,
        sub_groups=volcano_sub_groups,
        status=CountsStatus(),
    ),
    Dialect(
        name="kai",
        system="KAI",
        keys=(_annotation("pod-group-name"),),
        claimed_by="Coscheduling",
        kinds=(KAI_PODGROUPS,),
        object_fields=partial(object_fields, least=0),
        sub_groups=kai_sub_groups,
    ),
    Dialect(
        name="koordinator",
        system="Koordinator",
        family="koordinator",
        keys=(_label("pod-group.scheduling.sigs.k8s.io"),),
        claimed_by="Gang",
        kinds=(KOORDINATOR_PODGROUPS,),
        declares_resources=True,
        object_fields=partial(object_fields, least=0, gang_annotations=True),
        crd_minimum=0,
        pod_fields=gang_pod_fields,
        status=PhaseStatus(koordinator_phase),
    ),
    Dialect(
        name="lightweight",
        system="scheduler-plugins of old, without an object",
        family="koordinator",
        keys=(_label(f"{LIGHTWEIGHT_KEYS}name"), _annotation(f"{LIGHTWEIGHT_KEYS}name")),
        claimed_by="Gang",
        pod_fields=gang_pod_fields,
    ),
    Dialect(
        name="annotation",
        system="Koordinator, without an object",
        family="koordinator",
        keys=(_annotation(f"{GANG_ANNOTATIONS}name"),),
        claimed_by="Gang",
        pod_fields=gang_pod_fields,
    ),
    Dialect(
        name="intree",
        system="Kubernetes 1.36",
        keys=(Key(KeyPlace.FIELD, "spec.schedulingGroup.podGroupName"),),
        claimed_by="GangScheduling",
        kinds=(IN_TREE_PODGROUPS,),
        object_fields=in_tree_object_fields,
        object_body=in_tree_object_body,
        status=ConditionStatus(),
    ),
)
"""The built-in dialects, in the order in which they are read."""


def kinds_of(dialects: Iterable[Dialect]) -> tuple[ResourceKind, ...]:
    """Return the kinds that describe groups of these dialects, each once: what its plugin watches."""
    return tuple(dict.fromkeys(kind for dialect in dialects for kind in dialect.kinds))


class DialectTable:
    """The dialects of one program, in the order in which they are read; others may add rows."""

    def __init__(self, dialects: Iterable[Dialect] = DIALECTS) -> None:
        self._rows: dict[str, Dialect] = {}
        self._by_type: dict[type[KubeObject], Dialect] = {}
        for dialect in dialects:
            self.add_dialect(dialect)

    def add_dialect(self, dialect: Dialect) -> None:
        """Add a row at the end; the same row again changes nothing.

        Raises `ConfigError` for another row of that name, a row without keys, and a row that reads a kind of another.
        """
        known = self._rows.get(dialect.name)
        if known == dialect:
            return
        if known is not None:
            raise ConfigError(f'there are two dialects of pod groups called "{dialect.name}"; rename one of them')
        if not dialect.keys:
            raise ConfigError(f'dialect "{dialect.name}" of pod groups has no key by which pods name their group')
        if dialect.kinds and dialect.object_fields is None:
            raise ConfigError(f'dialect "{dialect.name}" of pod groups has kinds, but nothing that reads them')
        for kind in dialect.kinds:
            other = self._by_type.get(kind.type)
            if other is not None:
                whose = f'dialects "{other.name}" and "{dialect.name}" of pod groups'
                raise ConfigError(f"{whose} both read {kind.type.__qualname__}; give each kind a type of its own")
        self._rows[dialect.name] = dialect
        self._by_type.update((kind.type, dialect) for kind in dialect.kinds)

    def __iter__(self) -> Iterator[Dialect]:
        return iter(self._rows.values())

    def __len__(self) -> int:
        return len(self._rows)

    def named(self, name: str) -> Dialect:
        """Return the row of that name; raise a `ConfigError` that lists all names if there is none."""
        try:
            return self._rows[name]
        except KeyError:
            known = ", ".join(self._rows)
            raise ConfigError(f'dialect "{name}" of pod groups does not exist; known are {known}') from None

    def of_object(self, group: KubeObject) -> Dialect | None:
        """Return the row that describes groups by objects of this type; None if none does."""
        return self._by_type.get(type(group))

    def claimed_by(self, plugin: str) -> tuple[Dialect, ...]:
        """Return the rows that a plugin serves by default."""
        return tuple(dialect for dialect in self if dialect.claimed_by == plugin)


def resolve(pod: Pod, dialects: Sequence[Dialect]) -> tuple[GroupId, Dialect] | None:
    """Return the group that a pod names, and the row whose key names it; the first row that finds a name counts."""
    if not pod.labels and not pod.annotations and pod.spec.scheduling_group is None:
        return None
    for dialect in dialects:
        for key in dialect.keys:
            name = key.read(pod)
            if name:
                return GroupId(pod.namespace, name, dialect.family), dialect
    return None
