"""Read what `kubectl podgroup` shows: pods, the objects that describe groups, and Events about groups."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar, Final

from kube_objects.kinds import PODS
from pyscheduler.api import KubeObject, ObjectReference, Pod, Wire, kind_of
from pyscheduler.cluster.kinds_within import within
from pyscheduler.framework.errors import ForbiddenError, NotFoundError
from pyscheduler.podgroup import GroupDirectory, kinds_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyscheduler.api import ResourceKind
    from pyscheduler.podgroup import DialectTable
    from pyscheduler.scheduler.ports import ClusterClient

__all__ = ["CORE_EVENTS", "CoreEvent", "events_about", "list_within", "read_directory", "said_by_server"]


class EventSource(Wire):
    """The source of a core/v1 event."""

    component: str = ""


class CoreEvent(KubeObject):
    """An event of the core group, as `kubectl describe` reads it."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Event"

    involved_object: ObjectReference = ObjectReference()
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int = 0
    event_time: str | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    reporting_component: str = ""
    source: EventSource = EventSource()

    @property
    def last_seen(self) -> str | None:
        """Return the time of the last occurrence, as the event states it."""
        return self.last_timestamp or self.event_time or self.metadata.creation_timestamp

    @property
    def first_seen(self) -> str | None:
        """Return the time of the first occurrence, as the event states it."""
        return self.first_timestamp or self.event_time or self.metadata.creation_timestamp


CORE_EVENTS: Final = kind_of(CoreEvent, "events")
"""The kind of core/v1 events."""


async def read_directory(
    client: ClusterClient, table: DialectTable, namespace: str, warn: Callable[[str], None]
) -> tuple[GroupDirectory, Sequence[ResourceKind]]:
    """List pods and group objects of a namespace ("" for all) in the dialects of `table`.

    Returns the groups, and the kinds that may be listed.

    A kind that is not served has no objects. `warn` is called once for all kinds that may not be listed. Raises
    `APIError` if pods may not be listed.
    """
    # A watch starts their informers later, in one namespace: the user may have no more permissions.
    kinds = [within(kind, namespace) for kind in (PODS, *kinds_of(table))]
    directory = GroupDirectory(table)
    refusals: list[str] = []
    listed = await asyncio.gather(*(list_within(client, kind, namespace, refusals.append) for kind in kinds))
    if refusals:
        names = ", ".join(kind.resource for kind, items in zip(kinds, listed, strict=True) if items is None)
        warn(
            f"{names} may not be listed: only what pods say of these groups is known; the role in "
            "configs/rbac/podgroup-viewer.yaml lets all with the role view list them"
        )
    for items in listed:
        for item in items or ():
            if isinstance(item, Pod):
                directory.pod_added(item)
            else:
                directory.object_added(item)
    return directory, [kind for kind, items in zip(kinds, listed, strict=True) if items is not None]


async def list_within(
    client: ClusterClient, kind: ResourceKind, namespace: str, warn: Callable[[str], None]
) -> Sequence[KubeObject] | None:
    """List the objects of a kind in a namespace ("" for all); return None if they may not be listed.

    `warn` is called then. Raises `APIError` if the kind is that of pods.
    """
    client.informer(within(kind, namespace), optional=True)
    try:
        return await client.list(kind.type, namespace)
    except NotFoundError:
        return ()
    except ForbiddenError as error:
        if kind.type is Pod:
            raise
        warn(f"{kind.resource} may not be listed, and count as absent: {said_by_server(error)}")
        return None


def said_by_server(error: Exception) -> str:
    """Return the server's message without the request that it answers."""
    request, _, words = str(error).partition(": ")
    return words if words and request.partition(" ")[0].isupper() else str(error)


async def events_about(
    client: ClusterClient, table: DialectTable, namespace: str, warn: Callable[[str], None]
) -> Sequence[CoreEvent]:
    """List the events about PodGroups of a namespace, oldest first; `warn` is called if they may not be listed."""
    client.informer(CORE_EVENTS, optional=True)
    found: list[CoreEvent] = []
    try:
        for name in dict.fromkeys(kind.kind for kind in kinds_of(table)):
            async for page in client.pages(CoreEvent, namespace, field_selector=f"involvedObject.kind={name}"):
                found += page
    except ForbiddenError as error:
        warn(f"events may not be listed: {said_by_server(error)}")
    return sorted(found, key=lambda event: event.last_seen or "")
