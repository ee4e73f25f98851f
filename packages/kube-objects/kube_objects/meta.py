"""Types that many kinds of objects share: the base class, metadata, references and label selectors.

The types in this package follow these rules, so that code can read fields without checks:

- A list is a tuple and a map is a mapping. Both are empty if they are absent or ``null``, and never ``None``.
- ``X | None`` is for fields whose absence is not the same as the zero value (``spec.priority``, ``affinity``), and for
  timestamps.
- Many of Kubernetes' fields are not declared. Decoding drops them, so never write a decoded object back: send a patch.
- Objects are immutable. To change something, make a new object with `msgspec.structs.replace`. Mappings are plain dicts
  for speed; do not write to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias, dataclass_transform

import msgspec

RawQuantity: TypeAlias = str | int | float
"""A resource quantity as it stands in JSON: a text such as ``"1500m"``, or a bare number in files written by hand."""

ResourceList: TypeAlias = Mapping[str, RawQuantity]
"""Quantities by resource name; `kube_objects.quantity` reads the values."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class WireMeta(msgspec.StructMeta):
    """Make constructors keyword-only in every subclass; msgspec inherits all other settings, but not this one."""

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **config: Any) -> WireMeta:
        """Create the class."""
        config.setdefault("kw_only", True)
        return super().__new__(mcls, name, bases, namespace, **config)


class Wire(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename="camel",
    omit_defaults=True,
    repr_omit_defaults=True,
    metaclass=WireMeta,
):
    """Base of all wire types: immutable, keyword-only, camelCase on the wire, tolerant of unknown fields.

    Instances form trees, never cycles, which is why the garbage collector need not look at them.
    """


class OwnerReference(Wire):
    """Name an object that this one belongs to, in the same namespace or cluster-wide."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Wire):
    """Identify an object; times are wire strings, see `kube_objects.times`."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class ListMeta(Wire):
    """Describe a page of a list: where to continue, and the version a watch starts from."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")
    remaining_item_count: int | None = None


class ObjectReference(Wire):
    """Point at another object."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class KubeObject(Wire):
    """Base of the types that have a URL of their own; derive from it to describe a custom resource.

    A subclass sets `api_version` and `kind`. They are class attributes because the API server leaves them out of
    list items, and because an object cannot be of another kind than its type.
    """

    api_version: ClassVar[str] = ""
    kind: ClassVar[str] = ""

    metadata: ObjectMeta = ObjectMeta()

    @property
    def name(self) -> str:
        """The name, unique within kind and namespace."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """The namespace, empty for a cluster-scoped object."""
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        """The identity: an object deleted and created again under the same name has another."""
        return self.metadata.uid

    @property
    def resource_version(self) -> str:
        """The version; opaque, but `is_older` can order versions that are numbers."""
        return self.metadata.resource_version

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels; read-only."""
        return self.metadata.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations; read-only."""
        return self.metadata.annotations

    @property
    def key(self) -> str:
        """``namespace/name``, or the bare name of a cluster-scoped object."""
        metadata = self.metadata
        return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name


def is_older(version: str, than: str) -> bool:
    """Return True if a resource version comes before another; versions that are no numbers have no order."""
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)


class LabelSelectorRequirement(Wire):
    """One condition on a label: operator ``In``, ``NotIn``, ``Exists`` or ``DoesNotExist``."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Wire):
    """Conditions on labels, all of which must hold; an empty one selects everything.

    Where the field that holds it is ``None``, nothing is selected. `kube_objects.selectors` evaluates it.
    """

    match_labels: Mapping[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class StatusCause(Wire):
    """One reason among several for a refused request, with the field it concerns."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Wire):
    """The object and the causes of a failed request."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class APIStatus(Wire):
    """The API server's answer when it has no object to give: ``Status`` on the wire.

    Not the `Status` of a scheduling plugin.
    """

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Status"

    metadata: ListMeta = ListMeta()
    status: str = ""
    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None
    code: int = 0
