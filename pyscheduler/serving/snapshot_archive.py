"""`/debug/snapshot`: a zip file with the objects, the queue and the configuration of the scheduler.

    snapshot.json           the time, the version of pyscheduler, and whether this replica leads
    configuration.json      the effective configuration, as a file for --config
    queue.json              each pod that waits or is being scheduled: its place, attempts and backoff
    objects/v1/Pod.json     the pods, as a List for explain --objects; each watched kind has such a file

The file has no Secrets and no private keys of extenders.
"""

from __future__ import annotations

import asyncio
import zipfile
from typing import TYPE_CHECKING, Final

import attrs
import msgspec
from aiohttp import web
from msgspec.structs import replace

from kube_objects.times import format_micro_time
from pyscheduler.api import encode
from pyscheduler.config.dump import to_data
from pyscheduler.config.snapshot_file import CONFIGURATION, OBJECTS
from pyscheduler.serving.api_status import api_status
from pyscheduler.serving.version import version_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator

    from pyscheduler.api import KubeObject
    from pyscheduler.config.types import Configuration
    from pyscheduler.scheduler.scheduler import Scheduler

__all__ = ["SnapshotArchive"]

#: How long the writer works before other tasks run.
_STEP_SECONDS: Final = 0.002
#: A reader that takes nothing for so long is disconnected, because others wait for it.
_WRITE_SECONDS: Final = 60.0
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_SECRET: Final = "Secret"  # noqa: S105 - a kind
_HEADERS: Final = {
    "Content-Type": "application/zip",
    "Content-Disposition": 'attachment; filename="pyscheduler-snapshot.zip"',
    "Cache-Control": "no-cache, private",
    "X-Content-Type-Options": "nosniff",
}


@attrs.define(kw_only=True)
class SnapshotArchive:
    """Writes snapshots, one at a time."""

    scheduler: Scheduler
    #: Returns the effective configuration.
    configuration: Callable[[], Configuration]
    is_leader: Callable[[], bool]
    _is_busy: bool = False

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Send a snapshot."""
        if self._is_busy:
            return api_status(request, 429, "TooManyRequests", "a snapshot is being written; try again when it is done")
        self._is_busy = True
        try:
            response = web.StreamResponse(headers=_HEADERS)
            await response.prepare(request)
            async for part in self.parts():
                async with asyncio.timeout(_WRITE_SECONDS):
                    await response.write(part)
        except (ConnectionError, TimeoutError):  # the reader has gone, or takes nothing
            request.protocol.force_close()
        finally:
            self._is_busy = False
        return response

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield the file in parts, and let other tasks run between them."""
        now = self.scheduler.clock.now
        file = _Unsent()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            began = now()
            for name, texts in self._members():
                with archive.open(name, "w") as member:
                    for text in texts:
                        member.write(text)
                        if now() - began >= _STEP_SECONDS:
                            yield file.take()
                            await asyncio.sleep(0)
                            began = now()
            yield file.take()
        yield file.take()

    def _members(self) -> Iterator[tuple[str, Iterator[bytes]]]:
        """Yield name and content of each member; the objects are those of the call."""
        scheduler = self.scheduler
        assumed = scheduler.cache.assumed_pods()
        by_kind: dict[str, list[Iterable[KubeObject]]] = {}
        for informer in (scheduler.nodes, scheduler.pods, *scheduler.others):
            items = [*informer]
            if items and items[0].kind != _SECRET:
                by_kind.setdefault(f"{OBJECTS}{items[0].api_version}/{items[0].kind}.json", []).append(items)
        about = {
            "time": format_micro_time(scheduler.clock.wall()),
            "isLeader": self.is_leader(),
            "version": version_text(""),
        }
        yield "snapshot.json", iter([msgspec.json.encode(about)])
        configuration = to_data(_without_keys(self.configuration()))
        yield CONFIGURATION, iter([msgspec.json.format(msgspec.json.encode(configuration))])
        yield "queue.json", _list(msgspec.json.encode(entry) for entry in scheduler.queue.dump())
        for name, lists in by_kind.items():
            objects = (assumed.get(item.uid, item) for items in lists for item in items)
            yield name, _list(encode(_stripped(item)) for item in objects)


class _Unsent:
    """A file for `zipfile` that cannot seek: it keeps what is written until that is taken."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes, /) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Do nothing: what is written is there."""

    def close(self) -> None:
        """Do nothing: nothing is open."""

    def take(self) -> bytes:
        """Return and forget what was written since the last call."""
        text = b"".join(self._parts)
        self._parts.clear()
        return text


def _list(items: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a `List` of items in JSON, an item at a time."""
    before = b'{"apiVersion":"v1","kind":"List","items":[\n'
    for item in items:
        yield before + item
        before = b",\n"
    yield b"]}\n" if before == b",\n" else before + b"]}\n"


def _stripped(item: KubeObject) -> KubeObject:
    """Return the object without the annotation of `kubectl apply`."""
    annotations = item.metadata.annotations
    if _LAST_APPLIED not in annotations:
        return item
    left = {key: value for key, value in annotations.items() if key != _LAST_APPLIED}
    return replace(item, metadata=replace(item.metadata, annotations=left))


def _without_keys(configuration: Configuration) -> Configuration:
    """Return the configuration without the credentials that it has for extenders."""
    extenders = tuple(
        attrs.evolve(one, tls_config=attrs.evolve(one.tls_config, cert_data=b"", key_data=b""))
        if one.tls_config is not None
        else one
        for one in configuration.extenders
    )
    return attrs.evolve(configuration, extenders=extenders)
