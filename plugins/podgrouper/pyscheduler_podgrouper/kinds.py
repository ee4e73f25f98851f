"""The kinds of objects that the PodGrouper watches: workloads, their owners, and other objects that it reads."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from types import new_class
from typing import Any, ClassVar, Final

import msgspec

from pyscheduler.api import BUILT_IN_KINDS, KubeObject, Namespace, Pod, PriorityClass, ResourceKind, kind_of
from pyscheduler.podgroup import DIALECTS
from pyscheduler_podgrouper.contract import Grouper

__all__ = ["LINKS", "PODGROUPS", "body_of", "defaults_kind", "kinds_of_row", "owner_kind", "supporting_kinds"]


class _Metadata(KubeObject):
    """An object of which rules read the metadata only."""


class _Spec(KubeObject):
    """An object whose spec rules read."""

    spec: Any = None


class _Status(KubeObject):
    """An object whose status rules read."""

    status: Any = None


class _SpecAndStatus(KubeObject):
    """An object whose spec and status rules read."""

    spec: Any = None
    status: Any = None


_BASES: Final = {
    frozenset[str](): _Metadata,
    frozenset({"spec"}): _Spec,
    frozenset({"status"}): _Status,
    frozenset({"spec", "status"}): _SpecAndStatus,
}
#: Kinds that the scheduler reads as well: one kind has one type.
_BUILT_IN: Final = {(kind.group, kind.version, kind.kind): kind for kind in BUILT_IN_KINDS if not kind.field_selector}

PODGROUPS: Final = next(dialect for dialect in DIALECTS if dialect.name == "kai").kinds[0]
"""PodGroups of KAI."""


@cache
def owner_kind(  # one type for each kind, so that two profiles share an informer
    group: str, version: str, kind: str, plural: str, reads: frozenset[str] = frozenset(), *, namespaced: bool = True
) -> ResourceKind:
    """Return the row of a kind, with a type that keeps the metadata and the fields in `reads`."""
    built_in = _BUILT_IN.get((group, version, kind))
    if built_in is not None:
        return built_in
    names = {"api_version": f"{group}/{version}" if group else version, "kind": kind}
    base = _BASES.get(reads, _SpecAndStatus)
    cls = new_class(kind, (base,), {}, lambda namespace: namespace.update(names))
    return kind_of(cls, plural, namespaced=namespaced)


def kinds_of_row(row: Grouper) -> Iterable[ResourceKind]:
    """Return a row's kind in each version that is watched."""
    reads = frozenset(row.reads)
    return [
        owner_kind(row.group, version, row.kind, row.plural, reads, namespaced=row.namespaced)
        for version in row.watched_versions
    ]


#: Owners between workloads and pods that no row names, and objects that rules look up.
LINKS: Final = (
    owner_kind("serving.knative.dev", "v1", "Configuration", "configurations"),
    owner_kind("serving.knative.dev", "v1", "Revision", "revisions"),
    owner_kind("kubevirt.io", "v1", "VirtualMachine", "virtualmachines"),
    owner_kind("grove.io", "v1alpha1", "PodClique", "podcliques"),
    owner_kind("grove.io", "v1alpha1", "PodCliqueScalingGroup", "podcliquescalinggroups"),
    owner_kind("scheduler.grove.io", "v1alpha1", "PodGang", "podgangs", frozenset({"spec"})),
)


def supporting_kinds(*, has_namespaces: bool) -> Collection[ResourceKind]:
    """Return the kinds beside workloads: pod groups, priority classes and, for a selector, namespaces."""
    wanted = (PriorityClass, Namespace) if has_namespaces else (PriorityClass,)
    return (PODGROUPS, *(kind for kind in BUILT_IN_KINDS if kind.type in wanted))


class DefaultsConfigMap(KubeObject):
    """The ConfigMap with the defaults of kinds."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "ConfigMap"

    data: Mapping[str, str] = {}


def defaults_kind(name: str, namespace: str) -> ResourceKind:
    """Return the row of that one ConfigMap."""
    selector = f"metadata.name={name},metadata.namespace={namespace}"
    return kind_of(DefaultsConfigMap, "configmaps", field_selector=selector)


def body_of(item: KubeObject) -> dict[str, Any]:
    """Return the fields of an object beside its metadata, in wire form."""
    if isinstance(item, Pod):
        return {}
    body = {name: getattr(item, name) for name in ("spec", "status", "data") if getattr(item, name, None) is not None}
    # What owners have there is in wire form already.
    if isinstance(item, (_Metadata, _Spec, _Status, _SpecAndStatus)):
        return body
    return {name: msgspec.to_builtins(value) for name, value in body.items()}
