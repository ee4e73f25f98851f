"""Tables: what the server prints for `kubectl get`, so that every client shows an object the same way.

A `Table` has columns (those of priority 1 only show with ``-o wide``) and one row of cells per object. Built-in kinds
have a printer each; a custom resource prints what its definition names; everything else prints name and age.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyscheduler.cluster.embedded.printing.columns import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    Column,
    Printer,
    age,
    age_of,
    columns,
    definitions,
)
from pyscheduler.cluster.embedded.printing.devices import DEVICE_PRINTERS
from pyscheduler.cluster.embedded.printing.other_kinds import OTHER_PRINTERS
from pyscheduler.cluster.embedded.printing.pods import POD_COLUMNS, pod_cells
from pyscheduler.cluster.embedded.printing.workloads import WORKLOAD_PRINTERS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyscheduler.cluster.embedded.resources.table import Resource
    from pyscheduler.cluster.embedded.store import Object

__all__ = ["make_table"]

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
            row["object"] = {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": obj["metadata"],
            }
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


def _printer_of(resource: Resource) -> Printer:
    if resource.custom:
        return _custom_printer(resource)
    return _PRINTERS.get(resource.collection, _PLAIN)


def _plain_cells(obj: Object, now: float) -> list[Any]:
    return [obj["metadata"]["name"], age_of(obj, now)]


# --- custom resources ----------------------------------------------------------------------------


def _custom_printer(resource: Resource) -> Printer:
    if not resource.printer_columns:
        return _PLAIN
    shown = [NAME]
    paths: list[tuple[str, str]] = []
    for one in resource.printer_columns:
        shown.append(
            Column(
                one["name"],
                type=one.get("type", "string"),
                format=one.get("format", ""),
                description=one.get("description", ""),
                priority=one.get("priority", 0),
            )
        )
        paths.append((one.get("jsonPath", ""), one.get("type", "string")))

    def cells(obj: Object, now: float) -> list[Any]:
        return [obj["metadata"]["name"], *(_custom_cell(obj, path, kind, now) for path, kind in paths)]

    return Printer(tuple(shown), cells)


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


def _node_cells(node: Object, now: float) -> list[Any]:
    metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    ready = next((one for one in status.get("conditions") or () if one.get("type") == "Ready"), None)
    state = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    if spec.get("unschedulable"):
        state += ",SchedulingDisabled"
    labels = metadata.get("labels") or {}
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles |= {value for key, value in labels.items() if key == "kubernetes.io/role" and value}
    info = status.get("nodeInfo") or {}
    addresses = {one.get("type"): one.get("address") for one in reversed(status.get("addresses") or [])}
    return [
        metadata["name"],
        state,
        ",".join(sorted(roles)) or NONE,
        age_of(node, now),
        info.get("kubeletVersion") or "",
        addresses.get("InternalIP") or NONE,
        addresses.get("ExternalIP") or NONE,
        info.get("osImage") or UNKNOWN,
        info.get("kernelVersion") or UNKNOWN,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _namespace_cells(namespace: Object, now: float) -> list[Any]:
    phase = (namespace.get("status") or {}).get("phase") or ""
    return [namespace["metadata"]["name"], phase, age_of(namespace, now)]


def _event_cells(event: Object, now: float) -> list[Any]:
    """Return the cells of an event, which may come in either view."""
    involved = event.get("involvedObject") or event.get("regarding") or {}
    series = event.get("series") or {}
    first = event.get("firstTimestamp") or event.get("deprecatedFirstTimestamp") or event.get("eventTime")
    last = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("deprecatedLastTimestamp") or first
    source = event.get("source") or event.get("deprecatedSource") or {}
    origin = source.get("component") or event.get("reportingComponent") or event.get("reportingController") or ""
    where = source.get("host") or event.get("reportingInstance") or ""
    about = f"{(involved.get('kind') or '').lower()}/{involved.get('name') or ''}"
    return [
        age(last, now) if last else UNKNOWN,
        event.get("type") or "",
        event.get("reason") or "",
        about,
        involved.get("fieldPath") or "",
        f"{origin}, {where}" if origin and where else origin or where,
        (event.get("message") or event.get("note") or "").strip(),
        age(first, now) if first else UNKNOWN,
        series.get("count") or event.get("count") or event.get("deprecatedCount") or 1,
        event["metadata"]["name"],
    ]


def _lease_cells(lease: Object, now: float) -> list[Any]:
    return [lease["metadata"]["name"], (lease.get("spec") or {}).get("holderIdentity") or "", age_of(lease, now)]


def _priority_class_cells(one: Object, now: float) -> list[Any]:
    return [
        one["metadata"]["name"],
        one.get("value", 0),
        bool(one.get("globalDefault")),
        age_of(one, now),
        one.get("preemptionPolicy") or "",
    ]


def _budget_cells(budget: Object, now: float) -> list[Any]:
    spec, status = budget.get("spec") or {}, budget.get("status") or {}
    return [
        budget["metadata"]["name"],
        str(spec["minAvailable"]) if "minAvailable" in spec else "N/A",
        str(spec["maxUnavailable"]) if "maxUnavailable" in spec else "N/A",
        status.get("disruptionsAllowed", 0),
        age_of(budget, now),
    ]


def _definition_cells(definition: Object, _now: float) -> list[Any]:
    return [definition["metadata"]["name"], definition["metadata"].get("creationTimestamp", "")]


_PLAIN: Final = Printer((NAME, AGE), _plain_cells)
_PRINTERS: Final[dict[str, Printer]] = {
    "pods": Printer(POD_COLUMNS, pod_cells),
    "nodes": Printer(
        columns(
            NAME,
            "Status",
            "Roles",
            AGE,
            "Version",
            wide=("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"),
        ),
        _node_cells,
    ),
    "namespaces": Printer(columns(NAME, "Status", AGE), _namespace_cells),
    "events": Printer(
        (
            Column("Last Seen"),
            Column("Type"),
            Column("Reason"),
            Column("Object"),
            Column("Subobject", priority=1),
            Column("Source", priority=1),
            Column("Message"),
            Column("First Seen", priority=1),
            Column("Count", priority=1),
            Column("Name", format="name", priority=1),
        ),
        _event_cells,
    ),
    "leases.coordination.k8s.io": Printer(columns(NAME, "Holder", AGE), _lease_cells),
    "priorityclasses.scheduling.k8s.io": Printer(
        columns(
            NAME, Column("Value", type="integer"), Column("Global-Default", type="boolean"), AGE, "PreemptionPolicy"
        ),
        _priority_class_cells,
    ),
    "poddisruptionbudgets.policy": Printer(
        columns(NAME, "Min Available", "Max Unavailable", Column("Allowed Disruptions", type="integer"), AGE),
        _budget_cells,
    ),
    "customresourcedefinitions.apiextensions.k8s.io": Printer(
        (NAME, Column("Created At", type="date")), _definition_cells
    ),
    **WORKLOAD_PRINTERS,
    **OTHER_PRINTERS,
    **DEVICE_PRINTERS,
}
