"""The shapes of objects: what Go's typed decoder would insist on.

For built-in kinds the types are made from the table of their fields (`kinds`); beside them stand the types that the
scheduler decodes, so that nothing is stored that it could not read. What has no kind of its own in a collection
(bindings, deletions, evictions), and schemas all the way down, is declared here. An object is converted to each type
that concerns it, and the results are thrown away: only whether it fits counts.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from kube_objects.kinds import BUILT_IN_KINDS
from kube_objects.meta import KubeObject, Wire
from kube_testserver.schema.structs import struct_of

__all__ = ["BINDING", "DELETE_OPTIONS", "EVICTION", "shapes_of"]


class _Identity(Wire):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    annotations: Mapping[str, str] = {}
    labels: Mapping[str, str] = {}


class _Target(Wire):
    kind: str = ""
    name: str = ""


class _Binding(Wire):
    metadata: _Identity = _Identity()
    target: _Target = _Target()


class _Preconditions(Wire):
    uid: str = ""
    resource_version: str = ""


class _DeleteOptions(Wire):
    grace_period_seconds: int | None = None
    preconditions: _Preconditions = _Preconditions()
    dry_run: tuple[str, ...] = ()
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None


class _Eviction(Wire):
    metadata: _Identity = _Identity()
    delete_options: _DeleteOptions = _DeleteOptions()


class _Condition(Wire):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class _Schema(Wire):
    open_api_v3_schema: _JSONSchema | None = msgspec.field(name="openAPIV3Schema", default=None)


class _JSONSchema(Wire):
    """A schema, all the way down: what is allowed in a definition decides what is done to every object of its kind."""

    type: str = ""
    properties: Mapping[str, _JSONSchema] = {}
    items: _JSONSchema | None = None
    additional_properties: _JSONSchema | bool | None = None
    required: tuple[str, ...] = ()
    enum: tuple[Any, ...] = ()
    minimum: int | float | None = None
    maximum: int | float | None = None
    exclusive_minimum: bool = False
    exclusive_maximum: bool = False
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    min_properties: int | None = None
    max_properties: int | None = None
    pattern: str = ""
    nullable: bool = False
    default: Any = None


class _PrinterColumn(Wire):
    name: str


class _SelectableField(Wire):
    json_path: str


class _Version(Wire):
    name: str
    schema: _Schema = _Schema()
    additional_printer_columns: tuple[_PrinterColumn, ...] = ()
    selectable_fields: tuple[_SelectableField, ...] = ()


class _DefinitionSpec(Wire):
    versions: tuple[_Version, ...] = ()


class _Definition(Wire):
    """What the table of fields does not say about a definition: required names, and schemas all the way down."""

    spec: _DefinitionSpec = _DefinitionSpec()


class _Constraints(Wire):
    topology: tuple[Mapping[str, Any], ...] = ()


class _GangPolicy(Wire):
    min_count: int = 0


class _SchedulingPolicy(Wire):
    basic: Mapping[str, Any] | None = None
    gang: _GangPolicy | None = None


class _PodGroupTemplate(Wire):
    name: str = ""
    scheduling_policy: _SchedulingPolicy = _SchedulingPolicy()
    scheduling_constraints: _Constraints | None = None
    resource_claims: tuple[Mapping[str, Any], ...] = ()
    priority_class_name: str = ""
    priority: int | None = None


class _PodGroupStatus(Wire):
    conditions: tuple[_Condition, ...] = ()


class _PodGroup(Wire):
    metadata: _Identity = _Identity()
    spec: _PodGroupTemplate = _PodGroupTemplate()
    status: _PodGroupStatus = _PodGroupStatus()


class _WorkloadSpec(Wire):
    controller_ref: Mapping[str, Any] | None = None
    pod_group_templates: tuple[_PodGroupTemplate, ...] = ()


class _Workload(Wire):
    metadata: _Identity = _Identity()
    spec: _WorkloadSpec = _WorkloadSpec()


BINDING: Final = (_Binding,)
EVICTION: Final = (_Eviction,)
DELETE_OPTIONS: Final = (_DeleteOptions,)

_WIRE_TYPES: Final = {(kind.group, kind.version, kind.kind): kind.type for kind in BUILT_IN_KINDS}
_POD_GROUPS: Final = {
    ("scheduling.k8s.io", "v1alpha2", "PodGroup"): _PodGroup,
    ("scheduling.k8s.io", "v1alpha2", "Workload"): _Workload,
}
_DEFINITIONS: Final = "CustomResourceDefinition"


@functools.cache
def shapes_of(group: str, version: str, kind: str, *, custom: bool) -> tuple[type, ...]:
    """Return the types that an object of a kind has to fit; the first knows every field, where the kind is built in."""
    wire = _WIRE_TYPES.get((group, version, kind), KubeObject)
    if not custom and (group, version, kind) in _POD_GROUPS:
        return (_POD_GROUPS[group, version, kind], wire)
    known = None if custom else struct_of(group, version, kind)
    if known is None:
        return (wire,)
    return (known, wire, _Definition) if kind == _DEFINITIONS else (known, wire)
