"""List and watch: a local copy of one kind of object, and every change told exactly once.

An informer lists in pages, then watches from the list's version. Bookmarks keep the version fresh, so that a watch
that ends (servers end them every few minutes) is taken up where it stopped. When the server has forgotten that version
(410), or the stream is not to be trusted any more (a line that is no event, a version that runs backwards), it lists
again and tells the handlers the difference. Handlers run on the event loop, in order, one object at a time; a long list
yields between chunks.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import attrs

from pyscheduler.api import APIStatus, DecodeError, KubeObject, Malformed, decode_event, decode_list
from pyscheduler.api.codec import BOOKMARK, DELETED
from pyscheduler.cluster.real.responses import error_of, raise_for_status
from pyscheduler.framework.errors import APIError, GoneError, NotFoundError, TransportError

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

    from pyscheduler.api import ResourceKind
    from pyscheduler.framework.clock import Clock
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.scheduler.ports import Stream, Transport

__all__ = ["RealInformer"]

_log = logging.getLogger(__name__)

T = TypeVar("T", bound=KubeObject)

#: Objects per page of a list.
_PAGE: Final = 500
#: Handlers run for at most so many objects before the loop turns.
_CHUNK: Final = 100
#: A server is asked to end a watch after this long, plus as much again at random, in seconds.
_WATCH_SECONDS: Final = 300.0
#: How much longer than that a silent stream is waited for: bookmarks come every minute, so it is dead.
_GRACE_SECONDS: Final = 30.0
_OK: Final = 200
_GONE: Final = 410
_BACKOFF_SECONDS: Final = (0.2, 30.0)
#: How often an absent kind is looked for.
_ABSENT_SECONDS: Final = 10.0


class _RelistError(Exception):
    """The stream cannot be continued; the message says why."""


@attrs.define
class _Handler(Generic[T]):
    on_add: Callable[[T], None] | None
    on_update: Callable[[T, T], None] | None
    on_delete: Callable[[T], None] | None


class RealInformer(Generic[T]):
    """The local copy of one kind. A lister for plugins; `start` and `wait_synced` are for the scheduler."""

    def __init__(
        self,
        transport: Transport,
        kind: ResourceKind,
        cls: type[T],
        *,
        clock: Clock,
        rng: random.Random,
        recorder: Recorder,
        field_selector: str = "",
        optional: bool = False,
    ) -> None:
        self._transport = transport
        self._kind = kind
        self._cls = cls
        self._clock = clock
        self._rng = rng
        self._recorder = recorder
        self._field_selector = field_selector
        self._optional = optional
        self._objects: dict[str, T] = {}
        self._handlers: list[_Handler[T]] = []
        self._version = ""
        self._synced = asyncio.Event()
        self._failed: BaseException | None = None
        self._task: asyncio.Task[None] | None = None

    # Lister

    @property
    def synced(self) -> bool:
        """Tell whether the first list has been delivered."""
        return self._synced.is_set()

    def get(self, name: str, namespace: str = "") -> T | None:
        """Return one object, or None."""
        return self._objects.get(f"{namespace}/{name}" if namespace else name)

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def __len__(self) -> int:
        return len(self._objects)

    def add_event_handler(
        self,
        *,
        on_add: Callable[[T], None] | None = None,
        on_update: Callable[[T, T], None] | None = None,
        on_delete: Callable[[T], None] | None = None,
    ) -> None:
        """Call back on every change from now on, and `on_add` at once for what is already there."""
        handler = _Handler(on_add, on_update, on_delete)
        self._handlers.append(handler)
        if on_add is not None:
            for item in list(self._objects.values()):
                self._call(on_add, item)

    # Life

    def start(self) -> None:
        """Begin to list and watch."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"informer {self._kind.plural}")

    async def wait_synced(self) -> None:
        """Return when the first list has been delivered. An optional kind does not make anyone wait.

        Raises what keeps the first list from ever arriving: `UnauthorizedError`, `ForbiddenError`, `NotFoundError`.
        """
        if self._optional:
            return
        await self._synced.wait()
        if self._failed is not None:
            raise self._failed

    async def stop(self) -> None:
        """End the watch."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        """List and watch until cancelled."""
        low, high = _BACKOFF_SECONDS
        delay = low
        relist = True
        while True:
            try:
                if relist:
                    await self._list()
                    relist = False
                    self._synced.set()
                delay = low
                await self._watch()
                continue
            except (GoneError, _RelistError) as why:
                _log.info("Listing again resource=%s reason=%s", self._kind.plural, why)
                relist = True
            except TransportError as error:
                self._recorder.warning("watch_broken")
                _log.warning("Reconnecting resource=%s err=%s", self._kind.plural, error)
            except NotFoundError as error:
                # The kind is not served (any more): a CRD that is not installed, or was removed.
                if await self._absent(error):
                    return
                relist = True
                continue
            except APIError as error:
                if self._refused(error):
                    return
                relist = True
                delay = max(delay, error.retry_after_seconds or 0.0)
            await self._clock.sleep(delay * (0.5 + self._rng.random()))
            delay = min(delay * 2, high)

    def _refused(self, error: APIError) -> bool:
        """Report a refusal; return True when there is no point in going on, which is so only before the first sync."""
        self._recorder.warning("list_refused")
        _log.warning("API server refused resource=%s err=%s", self._kind.plural, error)
        if error.status in {401, 403} and not self.synced and not self._optional:
            self._failed = error
            self._synced.set()
            return True
        return False

    async def _absent(self, error: NotFoundError) -> bool:
        """Deal with a kind that is not served; return True when that is fatal."""
        if not self._optional and not self.synced:
            self._failed = error
            self._synced.set()
            return True
        await self._deliver_gone(set())
        await self._clock.sleep(_ABSENT_SECONDS * (0.5 + self._rng.random()))
        return False

    # List

    async def _list(self) -> None:
        """Read all pages and tell the handlers what is different from before."""
        seen: set[str] = set()
        query = {"limit": str(_PAGE)}
        if self._field_selector:
            query["fieldSelector"] = self._field_selector
        while True:
            response = await self._transport.request("GET", self._kind.path(), query=query)
            body = raise_for_status(response, f"list {self._kind.plural}")
            try:
                page = decode_list(self._cls, body)
            except DecodeError as error:
                raise TransportError(f"list {self._kind.plural}: the answer is not a list: {error}") from error
            for failure in page.malformed:
                self._malformed(failure.key, failure.error)
                # What cannot be read is not gone: keep what was known of it.
                seen.add(failure.key)
            for number, item in enumerate(page.items, 1):
                seen.add(item.key)
                self._apply(item)
                if number % _CHUNK == 0:
                    await asyncio.sleep(0)
            if not page.continue_token:
                break
            query["continue"] = page.continue_token
            await asyncio.sleep(0)
        await self._deliver_gone(seen)
        self._version = page.resource_version

    async def _deliver_gone(self, seen: set[str]) -> None:
        for number, key in enumerate(self._objects.keys() - seen, 1):
            self._remove(key)
            if number % _CHUNK == 0:
                await asyncio.sleep(0)

    # Watch

    async def _watch(self) -> None:
        """Follow one watch stream until it ends; raise `GoneError` or `_RelistError` when a list is needed."""
        timeout = _WATCH_SECONDS * (1 + self._rng.random())
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(int(timeout)),
        }
        if self._field_selector:
            query["fieldSelector"] = self._field_selector
        async with self._transport.stream(
            self._kind.path(), query=query, timeout_seconds=timeout + _GRACE_SECONDS
        ) as stream:
            if stream.status != _OK:
                body = b"".join([chunk async for chunk in stream])
                what = f"watch {self._kind.plural}"
                raise error_of(stream.status, body, stream.headers.get("retry-after", ""), what)
            await self._follow(stream)

    async def _follow(self, stream: Stream) -> None:
        rest = b""
        handled = 0
        async for chunk in stream:
            lines = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
            rest = lines.pop()
            for line in lines:
                if line:
                    self._event(line)
                    handled += 1
                    if handled % _CHUNK == 0:
                        await asyncio.sleep(0)
        if rest.strip():
            raise TransportError(f"watch {self._kind.plural} ended in the middle of an event")

    def _event(self, line: bytes) -> None:
        """Apply one line of a watch stream."""
        try:
            event = decode_event(self._cls, line)
        except DecodeError as error:
            # One event was missed, so only a list can tell what it was.
            self._malformed("?", str(error))
            raise _RelistError(f"an event cannot be read: {error}") from error
        item = event.object
        if isinstance(item, APIStatus):
            if item.code == _GONE:
                raise GoneError(item.message, status=_GONE, reason=item.reason)
            raise _RelistError(f"server ended the watch: {item.message or item.reason}")
        version = item.resource_version
        if version.isdecimal() and self._version.isdecimal() and int(version) < int(self._version):
            raise _RelistError(f"version {version} came after {self._version}")
        if isinstance(item, Malformed):
            self._malformed(item.key, item.error)
        elif event.type == DELETED:
            self._remove(item.key)
        elif event.type != BOOKMARK:
            self._apply(item)
        self._version = version or self._version

    # Store

    def _apply(self, item: T) -> None:
        key = item.key
        old = self._objects.get(key)
        self._objects[key] = item
        if old is None:
            for handler in self._handlers:
                if handler.on_add is not None:
                    self._call(handler.on_add, item)
        elif old.resource_version != item.resource_version:
            for handler in self._handlers:
                if handler.on_update is not None:
                    self._call(handler.on_update, old, item)

    def _remove(self, key: str) -> None:
        old = self._objects.pop(key, None)
        if old is None:
            return
        # Handlers get the version they know: a deletion may carry a state that was never announced.
        for handler in self._handlers:
            if handler.on_delete is not None:
                self._call(handler.on_delete, old)

    def _call(self, handler: Callable[..., None], *objects: T) -> None:
        """Run a handler; its failure is reported and stops neither the others nor the watch."""
        try:
            handler(*objects)
        except Exception:  # noqa: BLE001 - handlers are anybody's, plugins' included
            self._recorder.warning("event_handler_failed")
            _log.exception("Event handler failed resource=%s", self._kind.plural)

    def _malformed(self, key: str, message: str) -> None:
        self._recorder.warning(f"malformed_{self._kind.kind.lower()}")
        _log.warning(
            "Passing over an object that cannot be read resource=%s key=%s err=%s", self._kind.plural, key, message
        )
