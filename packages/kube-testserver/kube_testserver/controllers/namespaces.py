"""Remove a terminating namespace with its objects, even those with finalizers, within the DELETE request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_testserver.resources import builtin
from kube_testserver.rules.deletion import DeleteOptions

if TYPE_CHECKING:
    from kube_testserver.registry import Registry
    from kube_testserver.store import Record

__all__ = ["BOOTSTRAP", "react"]

#: The namespaces that are there from the beginning.
BOOTSTRAP: Final = ("default", "kube-node-lease", "kube-public", "kube-system")

_AT_ONCE: Final = DeleteOptions(grace_seconds=0)


def react(registry: Registry, record: Record, *, deleted: bool) -> None:
    """Empty and remove a namespace that was marked for deletion."""
    if deleted or record.fields.get("status.phase") != "Terminating":
        return
    emptied: set[str] = set()
    for resource in list(registry.table):
        if not resource.namespaced or resource.collection in emptied or "list" not in resource.verbs:
            continue
        emptied.add(resource.collection)
        collection = registry.collection(resource)
        for one in collection.page(prefix=f"{record.name}/").records:
            left, gone = registry.delete(resource, one.namespace, one.name, _AT_ONCE)
            if not gone:  # no controller runs its finalizers, so they would block the namespace
                collection.remove(left)
    namespaces = registry.collection(builtin.NAMESPACES)
    present = namespaces.get(record.key)
    if present is not None:
        namespaces.remove(present)
