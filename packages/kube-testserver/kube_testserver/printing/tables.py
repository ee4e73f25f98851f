"""Tables: the columns and rows that the server sends to `kubectl get`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kube_testserver.printing.columns import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    Column,
    Field,
    Printer,
    age,
    ago,
    definitions,
    field,
    number,
    printer,
    wide,
)
from kube_testserver.printing.other_kinds import OTHER_PRINTERS
from kube_testserver.printing.pods import POD_COLUMNS, pod_cells
from kube_testserver.printing.workloads import WORKLOAD_PRINTERS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kube_testserver.resources.table import Resource
    from kube_testserver.store import Object

__all__ = ["make_table", "partial_metadata"]

_ROLE_PREFIX: Final = "node-role.kubernetes.io/"


def make_table(
    resource: Resource,
    objects: Iterable[Object],
    metadata: Object,
    *,
    now: float,
    include_object: str = "Metadata",
    with_columns: bool = True,
) -> Object:
    """Return the Table of some objects of a resource.

    `include_object` is what each row carries of its object: ``None``, ``Metadata`` or ``Object``. `now` is in seconds
    since the epoch; `with_columns` is off for the later events of a watch.
    """
    printer = _printer_of(resource)
    rows = []
    for obj in objects:
        row: Object = {"cells": printer.cells(obj, now)}
        if include_object == "Metadata":
            row["object"] = partial_metadata(obj)
        elif include_object == "Object":
            row["object"] = {"kind": resource.kind, "apiVersion": resource.api_version, **obj}
        rows.append(row)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": definitions(printer.columns) if with_columns else None,
        "rows": rows,
    }


def partial_metadata(obj: Object) -> Object:
    """Return the metadata of an object as an object of its own."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def _printer_of(resource: Resource) -> Printer:
    if resource.custom:
        return _custom_printer(resource)
    return _PRINTERS.get(resource.collection, _PLAIN)


# --- custom resources ----------------------------------------------------------------------------


def _custom_printer(resource: Resource) -> Printer:
    if not resource.printer_columns:
        return _PLAIN
    return printer(NAME, *map(_custom_field, resource.printer_columns))


def _custom_field(given: Object) -> Field:
    kind, path = given.get("type", "string"), given.get("jsonPath", "")
    column = Column(
        given["name"],
        type=kind,
        format=given.get("format", ""),
        description=given.get("description", ""),
        priority=given.get("priority", 0),
    )
    return column, lambda obj, now: _custom_cell(obj, path, kind, now)


def _custom_cell(obj: Object, path: str, kind: str, now: float) -> Any:
    value: Any = obj
    for step in path.removeprefix(".").replace("[", ".").replace("]", "").split("."):
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    if kind == "date":
        return age(value, now) if isinstance(value, str) else UNKNOWN
    if kind == "string" and value is not None and not isinstance(value, str):
        return str(value)
    return value


# --- built-in kinds ------------------------------------------------------------------------------


def _node_status(node: Object, _now: float) -> str:
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = next((one.get("status") for one in conditions if one.get("type") == "Ready"), None)
    state = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    return f"{state},SchedulingDisabled" if (node.get("spec") or {}).get("unschedulable") else state


def _roles(node: Object, _now: float) -> str:
    labels = node["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles.add(labels.get("kubernetes.io/role") or "")
    return ",".join(sorted(filter(None, roles))) or NONE


def _address(column: str, kind: str) -> Field:
    def first(addresses: list[Object]) -> str:
        return next((one.get("address") or NONE for one in addresses if one.get("type") == kind), NONE)

    return field(column, "status.addresses", otherwise=NONE, convert=first)


def _involved(event: Object, _now: float) -> str:
    involved = event.get("involvedObject") or event.get("regarding") or {}
    return f"{(involved.get('kind') or '').lower()}/{involved.get('name') or ''}"


def _source(event: Object, _now: float) -> str:
    source = event.get("source") or event.get("deprecatedSource") or {}
    origin = source.get("component") or event.get("reportingComponent") or event.get("reportingController") or ""
    where = source.get("host") or event.get("reportingInstance") or ""
    return f"{origin}, {where}" if origin and where else origin or where


_FIRST_SEEN: Final = ("firstTimestamp", "deprecatedFirstTimestamp", "eventTime")
_PLAIN: Final = printer(NAME, AGE)
_PRINTERS: Final[dict[str, Printer]] = {
    "pods": Printer(POD_COLUMNS, pod_cells),
    "nodes": printer(
        NAME,
        (Column("Status"), _node_status),
        (Column("Roles"), _roles),
        AGE,
        field("Version", "status.nodeInfo.kubeletVersion"),
        *wide(
            _address("Internal-IP", "InternalIP"),
            _address("External-IP", "ExternalIP"),
            field("OS-Image", "status.nodeInfo.osImage", otherwise=UNKNOWN),
            field("Kernel-Version", "status.nodeInfo.kernelVersion", otherwise=UNKNOWN),
            field("Container-Runtime", "status.nodeInfo.containerRuntimeVersion", otherwise=UNKNOWN),
        ),
    ),
    "namespaces": printer(NAME, field("Status", "status.phase"), AGE),
    # In either view: core/v1 or events.k8s.io/v1.
    "events": printer(
        ago("Last Seen", "series.lastObservedTime", "lastTimestamp", "deprecatedLastTimestamp", *_FIRST_SEEN),
        field("Type", "type"),
        field("Reason", "reason"),
        (Column("Object"), _involved),
        *wide(field("Subobject", "involvedObject.fieldPath", "regarding.fieldPath"), (Column("Source"), _source)),
        field("Message", "message", "note", convert=str.strip),
        *wide(
            ago("First Seen", *_FIRST_SEEN),
            field("Count", "series.count", "count", "deprecatedCount", otherwise=1, convert=lambda count: count or 1),
            (Column("Name", format="name"), NAME[1]),
        ),
    ),
    "leases.coordination.k8s.io": printer(NAME, field("Holder", "spec.holderIdentity"), AGE),
    "poddisruptionbudgets.policy": printer(
        NAME,
        field("Min Available", "spec.minAvailable", otherwise="N/A", convert=str),
        field("Max Unavailable", "spec.maxUnavailable", otherwise="N/A", convert=str),
        number("Allowed Disruptions", "status.disruptionsAllowed"),
        AGE,
    ),
    **WORKLOAD_PRINTERS,
    **OTHER_PRINTERS,
}
