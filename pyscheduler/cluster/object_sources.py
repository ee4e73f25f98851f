"""Read the objects of a cluster once from an API server, for commands such as `explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kube_objects.kinds import NODES, PODS
from pyscheduler.api import EndedPod, Pod
from pyscheduler.cluster.kinds_within import namespace_of
from pyscheduler.framework.errors import ForbiddenError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from pyscheduler.api import KubeObject, ResourceKind
    from pyscheduler.scheduler.ports import ClusterClient

    Read: TypeAlias = Callable[[ResourceKind], Awaitable[Iterable[KubeObject]]]

__all__ = ["is_wanted", "live_objects", "read_once"]


def live_objects(
    client: ClusterClient, *, unread: list[str], keep: Callable[[KubeObject, bytes], object] | None = None
) -> Read:
    """Return a `read` that lists each kind; one that is not served has no objects.

    Nor has one that may not be read, but for pods and nodes: its `resource` is put into `unread`. `keep` is handed
    each object with its whole text.
    """

    async def read(kind: ResourceKind) -> Sequence[KubeObject]:
        client.informer(kind, optional=True)  # Lets the client know the kind; it is not started.
        namespace = namespace_of(kind)  # The client may know the kind by then, without a namespace.
        try:
            if keep is None:
                found = await client.list(kind.type, namespace)
            else:
                found = [one async for page in client.pages(kind.type, namespace, keep=keep) for one in page]
        except NotFoundError:
            return ()
        except ForbiddenError:
            if kind in {PODS, NODES}:
                raise
            unread.append(kind.resource)
            return ()
        return [one for one in found if is_wanted(one)]

    return read


def read_once(read: Read) -> Read:
    """Return a `read` that asks for each kind once and remembers the objects."""
    known: dict[tuple[ResourceKind, str], Sequence[KubeObject]] = {}

    async def remembered(kind: ResourceKind) -> Sequence[KubeObject]:
        key = kind, kind.path()  # kinds of one namespace are equal to those of all namespaces
        if key not in known:
            known[key] = [*await read(kind)]
        return known[key]

    return remembered


def is_wanted(one: KubeObject) -> bool:
    """Return True if a list with the selector of its kind would have the object in it."""
    return one.is_terminal == isinstance(one, EndedPod) if isinstance(one, Pod | EndedPod) else True
