"""The clusters that `pyscheduler queue` reads: an API server, or files with manifests."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import attrs
from msgspec.structs import replace

from kube_objects.kinds import PODS
from pyscheduler.api import EndedPod, Pod, PriorityClass, format_time
from pyscheduler.cli.manifests import manifests_of
from pyscheduler.cluster.object_sources import read_once
from pyscheduler.framework.errors import ConfigError
from pyscheduler_batch.cli.queue.reader import CLASSES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

    from kube_objects.clock import Clock
    from pyscheduler.api import KubeObject, ResourceKind
    from pyscheduler_batch.cli.queue.reader import Read

__all__ = ["Source", "check_namespace", "open_source", "overlay"]


@attrs.frozen(kw_only=True)
class Source:
    """A cluster to read. Each kind is listed once."""

    read: Read
    #: The namespace of the kubeconfig's context.
    namespace: str = "default"
    #: The resources that may not be listed; `read` adds them.
    unread: list[str] = attrs.Factory(list)


@asynccontextmanager
async def open_source(
    *, kubeconfig: str | None, context: str | None, objects: Sequence[str] = ()
) -> AsyncIterator[Source]:
    """Yield the cluster of the kubeconfig, or of files with manifests.

    Raises `ConfigError` for a file or credentials that cannot be used, and the client's errors.
    """
    if objects:
        from pyscheduler.cluster.manifest_objects import manifest_objects

        manifests = [one for file in objects for one in manifests_of(file)]
        yield Source(read=read_once(manifest_objects(manifests, source=", ".join(objects))))
        return
    import random

    from kube_objects.clock import LoopClock
    from pyscheduler.cli.client_settings import COMMAND_CLIENT
    from pyscheduler.cluster.object_sources import live_objects
    from pyscheduler.cluster.real import auth
    from pyscheduler.cluster.real.http import HTTPTransport
    from pyscheduler.cluster.real.startup_check import check_server
    from pyscheduler.framework.recorder import NullRecorder

    credentials = await auth.load(kubeconfig=kubeconfig, context=context)
    transport = HTTPTransport(credentials)
    client = transport.connect(COMMAND_CLIENT, clock=LoopClock(), rng=random.Random(), recorder=NullRecorder())
    try:
        await check_server(transport)
        unread: list[str] = []
        read = read_once(live_objects(client, unread=unread))
        yield Source(read=read, namespace=credentials.namespace, unread=unread)
    finally:
        await client.close()


def check_namespace(manifests: Iterable[Mapping[str, Any]], namespace: str, *, source: str) -> None:
    """Raise `ConfigError`, with kubectl's words, if an object names another namespace."""
    for one in manifests:
        named = one["metadata"].get("namespace") or namespace
        if named != namespace:
            raise ConfigError(
                f'{one["kind"]} {one["metadata"]["name"]}: the namespace from the provided object "{named}" does not '
                f"match the namespace \"{namespace}\". You must pass '--namespace={named}' to perform this operation.",
                source=source,
            )


def overlay(read: Read, manifests: Sequence[Mapping[str, Any]], *, source: str, namespace: str, clock: Clock) -> Read:
    """Return a `read` of the cluster as if these objects had been created or replaced now.

    `namespace` is that of objects that name none. Pods get the defaults and the priority that the API server would give
    them. `read` raises `ConfigError`, with `source`, for an object that the API server would refuse.
    """
    from pyscheduler.cluster.manifest_objects import admit, manifest_objects

    now = format_time(clock.wall())
    pods = [
        {**one, "metadata": {**one["metadata"], "namespace": one["metadata"].get("namespace") or namespace}}
        for one in manifests
        if one["kind"] == "Pod"
    ]
    others = [
        {**one, "metadata": {"creationTimestamp": now, **one["metadata"]}} for one in manifests if one["kind"] != "Pod"
    ]
    read_others = manifest_objects(others, source=source, namespace=namespace)

    async def read_both(kind: ResourceKind) -> Iterable[KubeObject]:
        found = [*await read(kind)]
        new: list[KubeObject] = []
        if kind == PODS:
            classes = [one for one in await read(CLASSES) if isinstance(one, PriorityClass)]
            try:
                new += admit(pods, classes, clock=clock)
            except ConfigError as error:
                raise ConfigError(*error.problems, source=source) from error
        elif kind.type is not EndedPod:
            new += await read_others(kind)
        known = {one.key: one for one in found}
        for one in new:
            before = known.get(one.key)
            if before is not None and not isinstance(one, Pod):
                # The same object with another content: its identity and its age stay.
                kept = {"uid": before.uid, "creation_timestamp": before.metadata.creation_timestamp}
                one = replace(one, metadata=replace(one.metadata, **kept))
            known[one.key] = one
        return known.values()

    return read_once(read_both)
