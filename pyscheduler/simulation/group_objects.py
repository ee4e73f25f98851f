"""How groups are written in the dialects of scenario files: objects, their definitions, and what pods carry."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pyscheduler.podgroup.dialects import DIALECTS, DialectTable, KeyPlace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler.api import ResourceKind
    from pyscheduler.simulation.scenario import CreatePodGroup, UpdatePodGroup

__all__ = [
    "GROUP_KINDS",
    "all_definitions",
    "amounts",
    "definitions",
    "group_kind",
    "group_manifest",
    "group_patch",
    "mark_pod",
    "texts",
]

_TABLE: Final = DialectTable(DIALECTS)
#: Served by the API server itself.
_IN_TREE: Final = "intree"
_WITH_OBJECTS: Final = ("sigs", "ming", "koordinator", _IN_TREE)
#: The kinds that describe groups, by dialect.
GROUP_KINDS: Final[Mapping[str, ResourceKind]] = {name: _TABLE.named(name).kinds[0] for name in _WITH_OBJECTS}
#: The smallest minimum that the definition lets in, where it says one.
_LEAST: Final = {"sigs": 1, "koordinator": 0}


def group_kind(dialect: str) -> ResourceKind:
    """Return the kind of object that describes a group of the dialect."""
    return GROUP_KINDS[dialect]


def definitions() -> list[dict[str, Any]]:
    """Return the CustomResourceDefinitions of all these kinds but Kubernetes' own."""
    return [_definition(dialect, kind) for dialect, kind in GROUP_KINDS.items() if dialect != _IN_TREE]


def all_definitions() -> list[dict[str, Any]]:
    """Return those of every kind that describes groups in any dialect: where all are there, nobody looks for any."""
    kinds = {kind: dialect.name for dialect in DIALECTS for kind in dialect.kinds}
    return [_definition(dialect, kind) for kind, dialect in kinds.items()]


def _definition(dialect: str, kind: ResourceKind) -> dict[str, Any]:
    spec: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    if dialect in _LEAST:
        minimum = {"type": "integer", "format": "int32", "minimum": _LEAST[dialect]}
        spec["properties"] = {
            "minMember": minimum,
            "scheduleTimeoutSeconds": {"type": "integer", "format": "int32"},
        }
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{kind.plural}.{kind.group}",
            # Asked for in groups of k8s.io.
            "annotations": {"api-approved.kubernetes.io": "unapproved, for simulation"},
        },
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": {"plural": kind.plural, "singular": kind.kind.lower(), "kind": kind.kind},
            "versions": [
                {
                    "name": kind.version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


def group_manifest(step: CreatePodGroup, dialect: str) -> dict[str, Any]:
    """Return the object that a step creates."""
    kind = group_kind(dialect)
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": step.name, "namespace": step.ns, "annotations": texts(step.annotations)},
        "spec": _spec(step.min, step.timeout, dialect, amounts(**step.min_resources)),
    }


def group_patch(step: UpdatePodGroup, dialect: str) -> dict[str, Any]:
    """Return the merge patch that a step makes."""
    patch: dict[str, Any] = {"spec": _spec(step.min, step.timeout, dialect, {})}
    if step.annotations:
        patch["metadata"] = {"annotations": texts(step.annotations)}
    return patch


def _spec(minimum: Any, timeout: Any, dialect: str, resources: Mapping[str, str]) -> dict[str, Any]:
    if dialect == _IN_TREE:
        return {"schedulingPolicy": {"basic": {}} if minimum is msgspec.UNSET else {"gang": {"minCount": minimum}}}
    said = {"minMember": minimum, "scheduleTimeoutSeconds": timeout, "minResources": dict(resources) or msgspec.UNSET}
    return {name: value for name, value in said.items() if value is not msgspec.UNSET}


def mark_pod(manifest: dict[str, Any], group: str, dialect: str) -> None:
    """Make the pod a member of the group; of none where `group` is empty, and it is a patch."""
    key = _TABLE.named(dialect).keys[0]
    value = group or None
    if key.place is KeyPlace.FIELD:
        manifest.setdefault("spec", {})["schedulingGroup"] = {"podGroupName": group} if group else None
        return
    where = "labels" if key.place is KeyPlace.LABEL else "annotations"
    manifest.setdefault("metadata", {}).setdefault(where, {})[key.name] = value


def amounts(*, cpu: float = 0, gpu: float = 0, mem: float = 0) -> dict[str, str]:
    """Return requests, or what a node has; what is 0 is left out."""
    said = {
        "cpu": f"{round(cpu * 1000)}m" if cpu else "",
        "nvidia.com/gpu": str(round(gpu)) if gpu else "",
        "memory": f"{round(mem * 1024)}Ki" if mem else "",
    }
    return {name: value for name, value in said.items() if value}


def texts(values: Mapping[str, Any]) -> dict[str, str | None]:
    """Return annotations or labels as the API takes them: strings; numbers and lists become JSON, null stays."""
    return {
        name: value if value is None or isinstance(value, str) else json.dumps(value) for name, value in values.items()
    }
