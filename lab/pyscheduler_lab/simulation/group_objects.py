"""Make the pod group objects of a simulation, their CustomResourceDefinitions, and priority classes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from pyscheduler.podgroup import DIALECTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kube_testserver.cluster import EmbeddedCluster
    from pyscheduler.api import ResourceKind
    from pyscheduler.podgroup import Dialect
    from pyscheduler_lab.simulation.scenario import CreatePodGroup, UpdatePodGroup

__all__ = [
    "amounts",
    "class_name",
    "default_dialect",
    "definitions",
    "group_manifest",
    "group_patch",
    "priority_classes",
    "texts",
]


def default_dialect(plugins: Iterable[str], dialects: Iterable[Dialect] = DIALECTS) -> str:
    """Return the first dialect that the first of these plugins claims, or the first of all if none claims one.

    Dialects without objects do not count: a group needs one.
    """
    rows = [row for row in dialects if row.kinds]
    return next((row.name for plugin in plugins for row in rows if row.claimed_by == plugin), rows[0].name)


def definitions(dialects: Iterable[Dialect], cluster: EmbeddedCluster | None = None) -> list[dict[str, Any]]:
    """Return the CustomResourceDefinitions of these dialects' kinds, but of those that `cluster` serves already."""
    found: dict[str, dict[str, Any]] = {}
    for dialect in dialects:
        for kind in dialect.kinds:
            if cluster is not None and cluster.table.find_kind(kind.api_version, kind.kind) is not None:
                continue
            definition = found.setdefault(f"{kind.plural}.{kind.group}", _definition(kind))
            versions = definition["spec"]["versions"]
            versions.append(_version(kind, dialect.crd_minimum, stored=not versions))
    return list(found.values())


def _definition(kind: ResourceKind) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{kind.plural}.{kind.group}",
            # The API server wants this annotation for groups of k8s.io.
            "annotations": {"api-approved.kubernetes.io": "unapproved, for simulation"},
        },
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {"plural": kind.plural, "singular": kind.kind.lower(), "kind": kind.kind},
            "versions": [],
        },
    }


def _version(kind: ResourceKind, minimum: int | None, *, stored: bool) -> dict[str, Any]:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    spec = dict(anything)
    if minimum is not None:
        number = {"type": "integer", "format": "int32"}
        spec["properties"] = {"minMember": {**number, "minimum": minimum}, "scheduleTimeoutSeconds": number}
    return {
        "name": kind.version,
        "served": True,
        "storage": stored,
        "schema": {"openAPIV3Schema": {**anything, "properties": {"spec": spec, "status": anything}}},
        "subresources": {"status": {}},
    }


def group_manifest(step: CreatePodGroup, dialect: Dialect) -> dict[str, Any]:
    """Return the object that a step creates."""
    kind = dialect.kinds[0]
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": step.name, "namespace": step.ns, "annotations": texts(step.annotations)},
        **dialect.object_body(_said(step, amounts(**step.min_resources))),
    }


def group_patch(step: UpdatePodGroup, dialect: Dialect) -> dict[str, Any]:
    """Return the merge patch of a step."""
    patch = dict(dialect.object_body(_said(step, {})))
    if step.annotations:
        patch["metadata"] = {"annotations": texts(step.annotations)}
    return patch


def _said(step: CreatePodGroup | UpdatePodGroup, resources: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of a step by the names of `GroupFields`."""
    said = {"min": step.min, "wait_seconds": step.timeout, "min_resources": resources or msgspec.UNSET}
    return {name: value for name, value in said.items() if value is not msgspec.UNSET}


def amounts(*, cpu: float = 0, gpu: float = 0, mem: float = 0) -> dict[str, str]:
    """Return amounts by resource, for requests or a node's capacity; without those that are 0."""
    said = {
        "cpu": f"{round(cpu * 1000)}m" if cpu else "",
        "nvidia.com/gpu": str(round(gpu)) if gpu else "",
        "memory": f"{round(mem * 1024)}Ki" if mem else "",
    }
    return {name: value for name, value in said.items() if value}


def texts(values: Mapping[str, Any]) -> dict[str, str | None]:
    """Return annotations or labels as strings, as the API wants them; numbers and lists become JSON, null stays."""
    return {
        name: value if value is None or isinstance(value, str) else json.dumps(value) for name, value in values.items()
    }


def class_name(value: int) -> str:
    """Return the name of the priority class of a value."""
    return f"priority-{value}"


def priority_classes(values: Iterable[int]) -> list[dict[str, Any]]:
    """Return a priority class for each value."""
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return [{**head, "metadata": {"name": class_name(value)}, "value": value} for value in sorted({*values})]
