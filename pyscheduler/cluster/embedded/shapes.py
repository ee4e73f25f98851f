"""The shapes of objects: what Go's typed decoder would insist on, for every field that the server itself reads.

The types the scheduler decodes say it for most of what schedulers read. What is missing there, because only the API
server looks at it (definitions, deletions, events, the defaults of a container), is declared here. An object is
converted to each type that concerns it, and the results are thrown away: only whether it fits counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pyscheduler.api.kinds import BUILT_IN_KINDS
from pyscheduler.api.meta import KubeObject, Wire
from pyscheduler.cluster.embedded.access.objects import BINDING_SHAPE, ROLE_SHAPE

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


class _Eviction(Wire):
    metadata: _Identity = _Identity()
    delete_options: _DeleteOptions = _DeleteOptions()


class _Resources(Wire):
    requests: Mapping[str, str | int | float] = {}
    limits: Mapping[str, str | int | float] = {}


class _Port(Wire):
    container_port: int = 0
    host_port: int = 0
    protocol: str = ""


class _Container(Wire):
    name: str = ""
    image: str = ""
    image_pull_policy: str = ""
    resources: _Resources = _Resources()
    ports: tuple[_Port, ...] = ()


class _Selector(Wire):
    match_labels: Mapping[str, str] = {}
    match_expressions: tuple[Mapping[str, Any], ...] = ()


class _LabelKeys(Wire):
    label_selector: _Selector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class _Condition(Wire):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class _Ended(Wire):
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    finished_at: str | None = None


class _Waiting(Wire):
    reason: str = ""


class _ContainerState(Wire):
    waiting: _Waiting | None = None
    running: Mapping[str, Any] | None = None
    terminated: _Ended | None = None


class _ContainerStatus(Wire):
    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: _ContainerState = _ContainerState()
    last_state: _ContainerState = _ContainerState()


class _PodSpec(Wire):
    init_containers: tuple[_Container, ...] = ()
    containers: tuple[_Container, ...] = ()
    resources: _Resources = _Resources()
    termination_grace_period_seconds: int | None = None
    topology_spread_constraints: tuple[_LabelKeys, ...] = ()
    readiness_gates: tuple[Mapping[str, str], ...] = ()
    host_network: bool = False
    security_context: Mapping[str, Any] = {}


class _PodStatus(Wire):
    conditions: tuple[_Condition, ...] = ()
    container_statuses: tuple[_ContainerStatus, ...] = ()
    init_container_statuses: tuple[_ContainerStatus, ...] = ()
    reason: str = ""
    qos_class: str = ""
    pod_ip: str = msgspec.field(name="podIP", default="")


class _Pod(Wire):
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


class _Address(Wire):
    type: str = ""
    address: str = ""


class _NodeStatus(Wire):
    addresses: tuple[_Address, ...] = ()
    conditions: tuple[_Condition, ...] = ()
    node_info: Mapping[str, Any] = {}


class _Node(Wire):
    status: _NodeStatus = _NodeStatus()


class _Reference(Wire):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    field_path: str = ""


class _Series(Wire):
    count: int = 0
    last_observed_time: str | None = None


class _Source(Wire):
    component: str = ""
    host: str = ""


class _CoreEvent(Wire):
    involved_object: _Reference = _Reference()
    source: _Source = _Source()
    series: _Series | None = None
    event_time: str | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    count: int = 0
    type: str = ""
    reason: str = ""
    action: str = ""
    message: str = ""
    reporting_component: str = ""
    reporting_instance: str = ""


class _EventsV1Event(Wire):
    regarding: _Reference = _Reference()
    deprecated_source: _Source = _Source()
    series: _Series | None = None
    event_time: str | None = None
    deprecated_first_timestamp: str | None = None
    deprecated_last_timestamp: str | None = None
    deprecated_count: int = 0
    type: str = ""
    reason: str = ""
    action: str = ""
    note: str = ""
    reporting_controller: str = ""
    reporting_instance: str = ""


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
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    json_path: str = ""


class _SelectableField(Wire):
    json_path: str


class _Version(Wire):
    name: str
    served: bool = False
    storage: bool = False
    schema: _Schema = _Schema()
    subresources: Mapping[str, Mapping[str, Any]] = {}
    additional_printer_columns: tuple[_PrinterColumn, ...] = ()
    selectable_fields: tuple[_SelectableField, ...] = ()


class _Names(Wire):
    plural: str = ""
    singular: str = ""
    kind: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


class _DefinitionSpec(Wire):
    group: str = ""
    scope: str = ""
    names: _Names = _Names()
    versions: tuple[_Version, ...] = ()


class _DefinitionStatus(Wire):
    conditions: tuple[_Condition, ...] = ()


class _Definition(Wire):
    spec: _DefinitionSpec = _DefinitionSpec()
    status: _DefinitionStatus = _DefinitionStatus()


class _AnySpec(Wire):
    spec: Mapping[str, Any] = {}
    status: Mapping[str, Any] = {}


BINDING: Final = (_Binding,)
EVICTION: Final = (_Eviction,)
DELETE_OPTIONS: Final = (_DeleteOptions,)

_WIRE_TYPES: Final = {(kind.group, kind.version, kind.plural): kind.type for kind in BUILT_IN_KINDS}
_EXTRA: Final[dict[tuple[str, str], tuple[type, ...]]] = {
    ("", "pods"): (_Pod,),
    ("", "nodes"): (_Node,),
    ("", "events"): (_CoreEvent,),
    ("events.k8s.io", "events"): (_EventsV1Event,),
    ("apiextensions.k8s.io", "customresourcedefinitions"): (_Definition,),
    ("rbac.authorization.k8s.io", "roles"): (ROLE_SHAPE,),
    ("rbac.authorization.k8s.io", "clusterroles"): (ROLE_SHAPE,),
    ("rbac.authorization.k8s.io", "rolebindings"): (BINDING_SHAPE,),
    ("rbac.authorization.k8s.io", "clusterrolebindings"): (BINDING_SHAPE,),
}


def shapes_of(group: str, version: str, plural: str, *, custom: bool) -> tuple[type, ...]:
    """Return the types that an object of a resource has to fit."""
    wire = _WIRE_TYPES.get((group, version, plural), KubeObject)
    return (wire,) if custom else (wire, _AnySpec, *_EXTRA.get((group, plural), ()))
