"""Record the event by which a controller reports a problem with an object."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kube_objects.times import format_time
from kube_testserver.errors import StatusError
from kube_testserver.resources.builtin import EVENTS

if TYPE_CHECKING:
    from kube_testserver.registry import Registry
    from kube_testserver.resources.table import Resource
    from kube_testserver.store import Object, Record

__all__ = ["record_warning"]

_log = logging.getLogger(__name__)


def record_warning(
    registry: Registry,
    resource: Resource,
    record: Record,
    reason: str,
    message: str,
    *,
    component: str,
    node: str = "",
    last: Record | None = None,
) -> Record | None:
    """Store an event of type Warning about an object, reported by a component (on a node), and return it.

    `last` is the event that reported the same problem before; if it still exists, its count grows and its message
    changes. None: the event could not be stored, because the namespace is terminating.
    """
    now = format_time(registry.wall())
    stored = registry.collection(EVENTS).get(last.key) if last is not None else None
    if stored is not None:
        known = stored.decode()
        changed = {"count": known["count"] + 1, "lastTimestamp": now, "message": message}
        return registry.put(EVENTS, stored, known | changed)
    event: Object = {
        "metadata": {"generateName": f"{record.name}."},
        "involvedObject": {
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "namespace": record.namespace,
            "name": record.name,
            "uid": record.uid,
            "resourceVersion": str(record.version),
        },
        "type": "Warning",
        "reason": reason,
        "message": message,
        "source": {"component": component, "host": node} if node else {"component": component},
        "reportingComponent": component,
        "reportingInstance": node,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    try:
        return registry.create(EVENTS, record.namespace, event)
    except StatusError as error:
        _log.debug("%s=%s event=%s was not stored: %s", resource.kind.lower(), record.key, reason, error)
        return None
