"""Record the changes of pods, nodes, events, groups and queues, for the checks in `pyscheduler_lab.audit`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from kube_testserver.resources.builtin import CUSTOM_RESOURCE_DEFINITIONS
from pyscheduler_lab.audit import Change, History
from pyscheduler_lab.audit.batch_objects import dialect_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from kube_testserver.cluster import EmbeddedCluster
    from kube_testserver.resources.table import Resource

__all__ = ["WriteLog"]

_PLACES: Final = frozenset(
    {
        ("", "v1", "nodes"),
        ("", "v1", "pods"),
        ("events.k8s.io", "v1", "events"),
        ("scheduling.k8s.io", "v1", "priorityclasses"),
    }
)
_BATCH: Final = frozenset({"podgroups", "queues"})
_MANY: Final = 1 << 30


class WriteLog:
    """Copies the changes of pods, nodes, events, priority classes, pod groups and queues as they are written.

    Kinds that are defined later are followed from their definition on. Times are those of the cluster's clock.
    """

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster
        self._changes: list[Change] = []
        self._positions: dict[str, int] = {}
        self._stops: list[Callable[[], None]] = []

    def start(self) -> None:
        """Copy what is there, and follow."""
        definitions = self._cluster.registry.collection(CUSTOM_RESOURCE_DEFINITIONS)
        self._stops.append(definitions.listen(self._follow_all))
        self._follow_all()

    def stop(self) -> None:
        """Follow no more; idempotent."""
        for stop in self._stops:
            stop()
        self._stops.clear()

    def history(self) -> History:
        """Return the log until now."""
        self._follow_all()
        return History.of(self._changes, end=self._cluster.clock.wall())

    def _follow_all(self) -> None:
        for resource in self._cluster.table:
            place = (resource.group, resource.version, resource.plural)
            is_batch = resource.plural in _BATCH and bool(dialect_of(resource.group))
            if (place in _PLACES or is_batch) and resource.collection not in self._positions:
                self._follow(resource)

    def _follow(self, resource: Resource) -> None:
        collection = self._cluster.registry.collection(resource)
        self._positions[resource.collection] = collection.position_after(collection.store.version)
        for record in collection.page().records:
            self._keep(resource, record.version, "ADDED", record.decode())
        self._stops.append(collection.listen(partial(self._read, resource)))

    def _read(self, resource: Resource) -> None:
        collection = self._cluster.registry.collection(resource)
        changes = collection.read(self._positions[resource.collection], _MANY)
        self._positions[resource.collection] += len(changes)
        for change in changes:
            self._keep(resource, change.version, change.type, change.record.decode())

    def _keep(self, resource: Resource, version: int, kind: str, obj: dict[str, object]) -> None:
        shown = resource.view(obj) | {"apiVersion": resource.api_version, "kind": resource.kind}
        self._changes.append(Change(at=self._cluster.clock.wall(), revision=version, type=kind, obj=shown))
