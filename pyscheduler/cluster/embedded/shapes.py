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
from pyscheduler.api.meta import KubeObject

__all__ = ["BINDING", "DELETE_OPTIONS", "EVICTION", "shapes_of"]

Texts = Mapping[str, str]
Object = Mapping[str, Any]
Quantities = Mapping[str, str | int | float]


class _Shape(msgspec.Struct, rename="camel"):
    """Base of all shapes: unknown fields do not matter."""


class _Identity(_Shape):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    annotations: Texts = {}
    labels: Texts = {}


class _Target(_Shape):
    kind: str = ""
    name: str = ""


class _Binding(_Shape):
    metadata: _Identity = _Identity()
    target: _Target = _Target()


class _Preconditions(_Shape):
    uid: str = ""
    resource_version: str = ""


class _DeleteOptions(_Shape):
    grace_period_seconds: int | None = None
    preconditions: _Preconditions = _Preconditions()
    dry_run: list[str] = []


class _Eviction(_Shape):
    metadata: _Identity = _Identity()
    delete_options: _DeleteOptions = _DeleteOptions()


class _Resources(_Shape):
    requests: Quantities = {}
    limits: Quantities = {}


class _Port(_Shape):
    container_port: int = 0
    host_port: int = 0
    protocol: str = ""


class _Container(_Shape):
    name: str = ""
    image: str = ""
    image_pull_policy: str = ""
    resources: _Resources = _Resources()
    ports: list[_Port] = []


class _Selector(_Shape):
    match_labels: Texts = {}
    match_expressions: list[Object] = []


class _LabelKeys(_Shape):
    label_selector: _Selector | None = None
    match_label_keys: list[str] = []
    mismatch_label_keys: list[str] = []


class _Condition(_Shape):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class _Ended(_Shape):
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    finished_at: str | None = None


class _Waiting(_Shape):
    reason: str = ""


class _ContainerState(_Shape):
    waiting: _Waiting | None = None
    running: Object | None = None
    terminated: _Ended | None = None


class _ContainerStatus(_Shape):
    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: _ContainerState = _ContainerState()
    last_state: _ContainerState = _ContainerState()


class _PodSpec(_Shape):
    init_containers: list[_Container] = []
    containers: list[_Container] = []
    resources: _Resources = _Resources()
    termination_grace_period_seconds: int | None = None
    topology_spread_constraints: list[_LabelKeys] = []
    readiness_gates: list[Texts] = []
    host_network: bool = False
    security_context: Object = {}


class _PodStatus(_Shape):
    conditions: list[_Condition] = []
    container_statuses: list[_ContainerStatus] = []
    init_container_statuses: list[_ContainerStatus] = []
    reason: str = ""
    qos_class: str = ""
    pod_ip: str = msgspec.field(name="podIP", default="")


class _Pod(_Shape):
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


class _Address(_Shape):
    type: str = ""
    address: str = ""


class _NodeStatus(_Shape):
    addresses: list[_Address] = []
    conditions: list[_Condition] = []
    node_info: Mapping[str, Any] = {}


class _Node(_Shape):
    status: _NodeStatus = _NodeStatus()


class _Reference(_Shape):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    field_path: str = ""


class _Series(_Shape):
    count: int = 0
    last_observed_time: str | None = None


class _Source(_Shape):
    component: str = ""
    host: str = ""


class _CoreEvent(_Shape):
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


class _EventsV1Event(_Shape):
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


class _Schema(_Shape):
    open_api_v3_schema: _JSONSchema | None = msgspec.field(name="openAPIV3Schema", default=None)


class _JSONSchema(_Shape):
    """A schema, all the way down: what is allowed in a definition decides what is done to every object of its kind."""

    type: str = ""
    properties: Mapping[str, _JSONSchema] = {}
    items: _JSONSchema | None = None
    additional_properties: _JSONSchema | bool | None = None
    required: list[str] = []
    enum: list[Any] = []
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


class _PrinterColumn(_Shape):
    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    json_path: str = ""


class _SelectableField(_Shape):
    json_path: str


class _Version(_Shape):
    name: str
    served: bool = False
    storage: bool = False
    schema: _Schema = _Schema()
    subresources: Mapping[str, Object] = {}
    additional_printer_columns: list[_PrinterColumn] = []
    selectable_fields: list[_SelectableField] = []


class _Names(_Shape):
    plural: str = ""
    singular: str = ""
    kind: str = ""
    list_kind: str = ""
    short_names: list[str] = []
    categories: list[str] = []


class _DefinitionSpec(_Shape):
    group: str = ""
    scope: str = ""
    names: _Names = _Names()
    versions: list[_Version] = []


class _DefinitionStatus(_Shape):
    conditions: list[_Condition] = []


class _Definition(_Shape):
    spec: _DefinitionSpec = _DefinitionSpec()
    status: _DefinitionStatus = _DefinitionStatus()


class _AnySpec(_Shape):
    spec: Object = {}
    status: Object = {}


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
}


def shapes_of(group: str, version: str, plural: str, *, custom: bool) -> tuple[type, ...]:
    """Return the types that an object of a resource has to fit."""
    wire = _WIRE_TYPES.get((group, version, plural), KubeObject)
    return (wire,) if custom else (wire, _AnySpec, *_EXTRA.get((group, plural), ()))
