"""The resources that the embedded API server serves, as rows of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from kube_testserver.schema.kinds import schema_of
from kube_testserver.schema.shapes import shapes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kube_testserver.schema.kinds import Node
    from kube_testserver.store import Object

__all__ = [
    "CHANGE_VERBS",
    "CRUD_VERBS",
    "WORKLOAD",
    "Resource",
    "ResourceTable",
    "ScalePaths",
    "Subresource",
    "field_reader",
]

CRUD_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CHANGE_VERBS: Final = ("get", "patch", "update")
_BOOLEAN_FIELDS: Final = frozenset({"spec.hostNetwork", "spec.unschedulable"})


@attrs.frozen
class ScalePaths:
    """Where an object keeps its numbers: `wanted` and `present` replicas, and the `selector` of its pods."""

    wanted: tuple[str, ...]
    present: tuple[str, ...]
    selector: tuple[str, ...] = ()


WORKLOAD: Final = ScalePaths(("spec", "replicas"), ("status", "replicas"), ("spec", "selector"))
"""The paths of every built-in workload."""


@attrs.frozen
class Subresource:
    """One subresource as discovery shows it; group and version are its kind's where they are not the parent's."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""


def _derived(value: Callable[[Any], Any], *, init: bool = False) -> Any:
    """Return a field that follows from the others; with `init` it may be given instead."""
    return attrs.field(default=attrs.Factory(value, takes_self=True), init=init, eq=init)


@attrs.frozen
class Resource:
    """One served resource in one version."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()
    verbs: tuple[str, ...] = CRUD_VERBS
    singular: str = _derived(lambda self: self.kind.lower(), init=True)
    list_kind: str = _derived(lambda self: f"{self.kind}List", init=True)
    #: Where the objects are kept; two rows with one collection are two views.
    collection: str = _derived(lambda self: f"{self.plural}.{self.group}" if self.group else self.plural, init=True)
    #: The group under which errors speak of it: that of the view in which it is stored.
    storage_group: str = _derived(lambda self: self.group, init=True)
    #: The folder of the real server's storage, which shows in the text of failed preconditions.
    registry_path: str = _derived(lambda self: f"/registry/{self.plural}", init=True)
    #: metadata.generation starts at 1 and counts the changes of what the owner asks for.
    has_generation: bool = True
    #: A status given at creation is kept (nodes), not dropped.
    status_at_creation: bool = False
    #: A PUT without a resourceVersion is taken.
    unconditional_update: bool = True
    #: A PUT of a name that does not exist creates it.
    create_on_update: bool = False
    #: A deletion answers with the object, not with a `Status`.
    returns_deleted: bool = False
    #: Defined by a CustomResourceDefinition.
    custom: bool = False
    #: The OpenAPI v3 schema of a custom resource.
    schema: Object | None = None
    #: The schema has rules in CEL.
    has_rules: bool = False
    #: Results computed from the schema on first use.
    derived: dict[str, Any] = attrs.field(factory=dict, init=False, eq=False, repr=False)
    #: Extra printer columns of a custom resource, as its definition has them.
    printer_columns: tuple[Object, ...] = ()
    #: The fields behind the scale subresource; None without it.
    scale: ScalePaths | None = None
    #: What a field selector may name beside metadata.name and metadata.namespace: its paths inside the object.
    field_paths: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    #: Other spellings of field names in this view.
    field_aliases: Mapping[str, str] = attrs.field(factory=dict)
    #: What a bookmark of this kind carries beside its metadata (Go writes a typed object's required fields).
    bookmark_tail: bytes = b""
    #: Changes between this view and what is stored; None when they are the same.
    to_stored: Callable[[Object], Object] | None = None
    from_stored: Callable[[Object], Object] | None = None
    #: Reads the selectable fields of a stored object; None when there are none.
    read_fields: Callable[[Object], dict[str, str]] | None = _derived(  # noqa: RUF009 - it returns an attrs field
        lambda self: field_reader(self.field_paths)
    )
    #: The subresources by name: every request looks for one.
    _subresources: dict[str, Subresource] = _derived(  # noqa: RUF009 - it returns an attrs field
        lambda self: {one.name: one for one in self.subresources}
    )
    #: There is a status subresource, so a write of the main resource leaves the status alone.
    has_status: bool = _derived(lambda self: self.subresource("status") is not None)
    #: Every object's bytes continue after these.
    head: bytes = _derived(lambda self: f'{{"kind":"{self.kind}","apiVersion":"{self.api_version}",'.encode())

    @property
    def api_version(self) -> str:
        """Return group and version as objects carry them."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def shapes(self) -> tuple[type, ...]:
        """Return the types that an object has to fit."""
        return shapes_of(self.group, self.version, self.kind, custom=self.custom)

    @property
    def fields(self) -> Node | None:
        """Return the schema of the fields that an object may have; None if unknown."""
        return self.schema if self.custom else schema_of(self.group, self.version, self.kind)

    def subresource(self, name: str) -> Subresource | None:
        """Return the subresource of that name, or None."""
        return self._subresources.get(name)

    def view(self, stored: Object) -> Object:
        """Return a stored object in this version, with its kind and apiVersion."""
        seen = stored if self.from_stored is None else self.from_stored(stored)
        return {"kind": self.kind, "apiVersion": self.api_version, **seen}

    def key(self, namespace: str, name: str) -> str:
        """Return the key an object is stored under."""
        return f"{namespace}/{name}" if self.namespaced else name


def field_reader(paths: Mapping[str, tuple[str, ...]]) -> Callable[[Object], dict[str, str]] | None:
    """Return a function that reads the selectable fields of an object, or None when there are none."""
    if not paths:
        return None
    # This runs for every write: each parent is looked up once, and most fields are absent.
    places: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for name, path in paths.items():
        places.setdefault(path[:-1], []).append((path[-1], name))
    absent = {name: _shown(name, None) for name in paths}

    def read(obj: Object) -> dict[str, str]:
        fields = absent.copy()
        for parents, leaves in places.items():
            inner: Any = obj
            for parent in parents:
                inner = inner.get(parent) if isinstance(inner, dict) else None
            if isinstance(inner, dict):
                for leaf, name in leaves:
                    if leaf in inner:
                        fields[name] = _shown(name, inner[leaf])
        return fields

    return read


def _shown(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool):
        return "true" if value else "false" if name in _BOOLEAN_FIELDS else ""
    return str(value)


class ResourceTable:
    """The served resources by group, version and plural name."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._rows: dict[tuple[str, str, str], Resource] = {}
        self._versions: set[tuple[str, str]] = set()
        #: Counts the changes of the table.
        self.revision = 0
        for resource in resources:
            self.add(resource)

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._rows.values())

    def add(self, resource: Resource) -> None:
        """Serve a resource, in the place of an earlier one of that name."""
        self._rows[resource.group, resource.version, resource.plural] = resource
        self._versions.add((resource.group, resource.version))
        self.revision += 1

    def remove(self, resource: Resource) -> None:
        """Serve a resource no more."""
        self._rows.pop((resource.group, resource.version, resource.plural), None)
        self._versions = {(group, version) for group, version, _ in self._rows}
        self.revision += 1

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """Return the resource behind a URL path."""
        return self._rows.get((group, version, plural))

    def find_kind(self, api_version: str, kind: str) -> Resource | None:
        """Return the resource of an object's apiVersion and kind."""
        for resource in self._rows.values():
            if resource.kind == kind and resource.api_version == api_version and "list" in resource.verbs:
                return resource
        return None

    def has_version(self, group: str, version: str) -> bool:
        """Return True if anything is served under a group and version."""
        return (group, version) in self._versions

    def groups(self) -> dict[str, dict[str, list[Resource]]]:
        """Return the rows by group, then by version, each in the order they were added; core is group ``""``."""
        groups: dict[str, dict[str, list[Resource]]] = {}
        for resource in self._rows.values():
            groups.setdefault(resource.group, {}).setdefault(resource.version, []).append(resource)
        return groups
