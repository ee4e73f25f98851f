"""Serve the resources of a CustomResourceDefinition while the definition exists.

Differs from kube-apiserver: if a definition is deleted, its objects are deleted at once, even with finalizers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kube_objects.times import format_time
from kube_testserver.resources.builtin import CUSTOM_RESOURCE_DEFINITIONS
from kube_testserver.resources.definitions import served_resources
from kube_testserver.resources.table import field_reader

if TYPE_CHECKING:
    from kube_testserver.registry import Registry
    from kube_testserver.resources.table import Resource
    from kube_testserver.store import Object, Record

__all__ = ["react"]


def react(registry: Registry, record: Record, *, deleted: bool) -> None:
    """Serve what a stored definition defines; drop it, objects and all, when the definition is gone."""
    definition = record.decode()
    spec = definition["spec"]
    served = [] if deleted else list(served_resources(definition))
    place = (spec["group"], spec["names"]["plural"])
    before = [one for one in registry.table if one.custom and (one.group, one.plural) == place]
    if served != before:
        for resource in before:
            registry.table.remove(resource)
        for resource in served:
            registry.table.add(resource)
        _begin_anew(registry, before or served, served)
    if deleted:
        return
    if (definition.get("status") or {}).get("conditions"):
        return
    now = format_time(registry.wall())
    accepted: Object = {"type": "NamesAccepted", "status": "True", "lastTransitionTime": now}
    accepted |= {"reason": "NoConflicts", "message": "no conflicts found"}
    established: Object = {"type": "Established", "status": "True", "lastTransitionTime": now}
    established |= {"reason": "InitialNamesAccepted", "message": "the initial names have been accepted"}
    status = {**definition["status"], "conditions": [accepted, established], "acceptedNames": spec["names"]}
    registry.put(CUSTOM_RESOURCE_DEFINITIONS, record, {**definition, "status": status})


def _begin_anew(registry: Registry, before: list[Resource], served: list[Resource]) -> None:
    """End the watches of a kind that is now served differently; delete its objects first if it is not served."""
    if not before:
        return
    collection = registry.collection(before[0])
    if not served:
        for one in collection.page().records:
            collection.remove(one)
    fields = {name: path for resource in served for name, path in resource.field_paths.items()}
    collection.end_term(field_reader(fields))
