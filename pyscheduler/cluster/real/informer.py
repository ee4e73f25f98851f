"""List and watch: keep a local copy of the objects of one kind, and report changes to the handlers.

An informer lists the objects, then watches from the version of the list. When a watch ends, the next watch continues
from the latest version. If that is not possible, the informer lists again, and the handlers get the differences.

Differs from kube-scheduler: if the API server does not serve a built-in kind, pyscheduler runs without this kind.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, TypeVar

from kube_objects.codec import BOOKMARK, DELETED
from pyscheduler.api import BUILT_IN_KINDS, APIStatus, DecodeError, KubeObject, Malformed, decode_event, decode_list
from pyscheduler.cluster.real.informer_rules import (
    SHORT_WATCH_SECONDS,
    InformerRules,
    RelistError,
    SilenceError,
    Step,
)
from pyscheduler.cluster.real.local_copy import CopyLister, UnannouncedError
from pyscheduler.cluster.real.pacing import Backoff, Slices, Watchdog
from pyscheduler.cluster.real.response_errors import error_of, raise_for_status
from pyscheduler.framework.errors import (
    PLUGIN_FAILURES,
    APIError,
    GoneError,
    TransportError,
)
from pyscheduler.framework.plugin_failures import EVENT_HANDLER

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable

    from kube_objects.clock import Clock
    from pyscheduler.api import ResourceKind
    from pyscheduler.cluster.real.outage_log import Outages
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.scheduler.ports import Stream, Transport

__all__ = ["RealInformer"]

_log = logging.getLogger(__name__)

T = TypeVar("T", bound=KubeObject)

#: A page may be megabytes over a slow line, in seconds.
_LIST_SECONDS: Final = 60.0
#: A server is asked to end a watch after this long, plus as much again at random, in seconds; as client-go.
_WATCH_SECONDS: Final = 300.0
#: How often an absent kind is looked for.
_ABSENT_SECONDS: Final = 10.0
#: What a server takes at most to send what has gathered, and the pause between tries of somebody in a hurry.
_BACKLOG_SECONDS: Final = 0.1
_OK: Final = 200
_ERROR_BODY_BYTES: Final = 1 << 16
#: Kinds of this group may be refused: only pods that need devices wait then, and nothing is decided wrongly.
_OF_DEVICES: Final = "resource.k8s.io"
#: No event is longer than this; as client-go.
_LINE_BYTES: Final = 16 << 20


class RealInformer(CopyLister[T]):
    """The local copy of one kind. A lister for plugins; `start`, `wait_synced` and `stop` are for the scheduler."""

    def __init__(  # noqa: PLR0913 - wiring, handed over by name
        self,
        transport: Transport,
        kind: ResourceKind,
        cls: type[T],
        *,
        clock: Clock,
        rng: random.Random,
        recorder: Recorder,
        outages: Outages,
        silence_seconds: float,
        field_selector: str = "",
        optional: bool = False,
    ) -> None:
        self._transport = transport
        self._silence_seconds = silence_seconds
        self._kind = kind
        self._cls = cls
        self._clock = clock
        self._rng = rng
        self._recorder = recorder
        self._outages = outages
        self._name = kind.resource
        self._selection = {"fieldSelector": field_selector} if field_selector else {}
        super().__init__(self._name, recorder)
        self._unreadable_handlers: tuple[Callable[[Malformed, bool], None], ...] = ()
        self._backoff = Backoff(low=0.2, high=30.0, clock=clock, rng=rng)
        needed = kind in BUILT_IN_KINDS and kind.group != _OF_DEVICES
        # Without pods, nodes or volumes there is nothing to schedule; all other groups can be off, or older.
        may_be_absent = kind in BUILT_IN_KINDS and bool(kind.group)
        self._rules = InformerRules(optional=optional, needed=needed, may_be_absent=may_be_absent)
        self._settled = asyncio.Event()
        #: Set while a watch is open.
        self._watching = asyncio.Event()
        #: Set when the pause between two tries is over.
        self._pause_over = asyncio.Event()
        #: The server has asked not to try before, in clock seconds.
        self._may_try_at = 0.0
        #: How many wait in `catch_up`.
        self._hurrying = 0
        #: Since when no watch is open, in clock seconds; None while one is, and if the kind is not served.
        self._broken_since: float | None = None
        self._failed: APIError | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def synced(self) -> bool:
        """Return True if the copy is complete: the first list was delivered, and the kind is served still."""
        return self._rules.synced

    @property
    def kind(self) -> ResourceKind:
        """The kind of the objects."""
        return self._kind

    @property
    def is_absent(self) -> bool:
        """Return True if the server does not serve the kind."""
        return self._task is not None and self._broken_since is None and not self._watching.is_set()

    @property
    def resource(self) -> str:
        """Name of the kind in messages and metrics, with the group: several groups have a kind of one name."""
        return self._name

    @property
    def broken_seconds(self) -> float | None:
        """Seconds for which no watch has been open, 0 while one is or the kind is not served; None before `start`."""
        if self._task is None:
            return None
        return 0.0 if self._broken_since is None else self._clock.now() - self._broken_since

    def add_unreadable_handler(self, callback: Callable[[Malformed, bool], None]) -> None:
        """Call back with every object that cannot be decoded, and whether it is gone."""
        self._unreadable_handlers = (*self._unreadable_handlers, callback)

    # Life

    def start(self) -> None:
        """Begin to list and watch."""
        if self._task is None:
            self._broken_since = self._clock.now()
            self._task = asyncio.create_task(self._run(), name=f"informer {self._name}")

    async def wait_synced(self) -> None:
        """Return when the first list has been delivered, or a kind is known to be absent, or an optional one refused.

        Raises what keeps the first list from ever arriving: `UnauthorizedError`, `ForbiddenError`, `NotFoundError`; for
        an optional kind only where it is built in, and thus there, and refused.
        """
        await self._settled.wait()
        if self._failed is not None:
            raise self._failed

    async def catch_up(self) -> None:
        """Return when a watch is open and what had gathered has come in; where none is, one is tried for at once.

        Returns at once for a kind that is not served.
        """
        self._hurrying += 1
        try:
            while self._rules.synced and not self._watching.is_set():
                self._pause_over.set()
                await self._watching.wait()
                # A server says only now that it has forgotten where to go on, and sends the backlog otherwise.
                await self._clock.sleep(_BACKLOG_SECONDS)
        finally:
            self._hurrying -= 1

    def retry_soon(self) -> None:
        """Shorten the pause between two tries to what the server has asked for."""
        self._clock.call_later(max(self._may_try_at - self._clock.now(), 0.0), self._pause_over.set)

    async def stop(self) -> None:
        """End the watch; idempotent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def require(self) -> None:
        """Treat the kind as required from now on."""
        self._rules.optional = False

    def prime(self, items: Iterable[T]) -> None:
        """Make the copy equal to `items` at once and tell the handlers the difference.

        For those who have the objects at hand, as tests and simulations do. A list or watch that later brings the same
        states tells nothing again, and a watch that is behind does not bring back what is gone.
        """
        self._copy.prime(items, watched=self._task is not None)
        self._rules.synced = True

    async def _run(self) -> None:
        """List and watch until cancelled, or until the first list is refused for good."""
        while self._failed is None:
            began = self._clock.now()
            pause = 0.0
            step = self._rules.next_step()
            try:
                if step is not Step.WATCH:
                    await (self._list() if step is Step.LIST else self._check_version())
                    began = self._clock.now()
                await self._watch()
            except Exception as error:  # noqa: BLE001 - whatever ends a stream, the informer has to live on
                self._note_end(self._clock.now() - began)
                pause = await self._recover(error)
                if isinstance(error, GoneError) and step is not Step.LIST:
                    # A server that came back does not remember old versions: what follows is a list, and no failure.
                    self._backoff.reset()
            else:
                self._note_end(lasted := self._clock.now() - began)
                if lasted >= SHORT_WATCH_SECONDS:
                    continue
            self._may_try_at = self._clock.now() + pause
            await self._rest(max(pause, _BACKLOG_SECONDS if self._hurrying else self._backoff.next()))

    async def _rest(self, seconds: float) -> None:
        """Wait before the next try; `catch_up` and `retry_soon` cut that short."""
        self._pause_over.clear()
        timer = self._clock.call_later(seconds, self._pause_over.set)
        try:
            await self._pause_over.wait()
        finally:
            timer.cancel()

    # What went wrong

    def _note_end(self, lasted: float) -> None:
        """Note how long list and watch lasted, in seconds."""
        if self._rules.ended(lasted):
            self._recorder.warning("relisted")
            _log.info("Listing again resource=%s reason=watches end at once", self._name)

    async def _recover(self, error: Exception) -> float:
        """Do what the rules say about a failure; return how long to wait at least, in seconds."""
        recovery = self._rules.failed(error)
        line = f"{recovery.message} resource=%s {recovery.key}=%s"
        _log.log(recovery.level, line, self._name, error, exc_info=recovery.level == logging.ERROR)
        if recovery.warning:
            self._recorder.warning(recovery.warning)
        if recovery.outage:
            self._outages.failed(self, self._name, error)
        if recovery.fatal and isinstance(error, APIError):
            self._failed = error
        pause = recovery.pause_seconds
        if recovery.absent:
            self._outages.works(self)
            await self._finish_list(set(), set())
            self._rules.emptied()
            self._broken_since = None
            pause = _ABSENT_SECONDS * (0.5 + self._rng.random())
        if self._rules.settled:
            self._settled.set()
        return pause

    # List

    async def _list(self) -> None:
        """Read all pages and tell the handlers what is different from before."""
        seen: set[str] = set()
        unreadable: set[str] = set()
        primed = self._copy.primed
        query = {"limit": str(self._rules.page_size), **self._selection}
        what = f"list {self._name}"
        while True:
            try:
                response = await self._transport.request(
                    "GET", self._kind.path(), query=query, timeout_seconds=_LIST_SECONDS
                )
                page = decode_list(self._cls, raise_for_status(response, what), self._keep)
            except (APIError, TransportError) as error:
                self._rules.list_failed(error)
                raise
            except DecodeError as error:
                raise TransportError(f"{what}: the answer is not a list: {error}") from error
            for failure in page.malformed:
                self._malformed(failure)
                unreadable.add(failure.key)
            await asyncio.sleep(0)
            self._check_not_primed(primed)
            slices = Slices(self._clock)
            for item in page.items:
                seen.add(item.key)
                self._copy.put(item)
                if slices.is_over():
                    await slices.turn()
                    self._check_not_primed(primed)
            if not page.continue_token:
                break
            query["continue"] = page.continue_token
        if not page.resource_version:
            raise TransportError(f"{what}: the answer has no version; is this an API server?")
        await self._finish_list(seen, unreadable)
        self._check_not_primed(primed)
        self._rules.listed(page.resource_version)
        self._settled.set()

    async def _check_version(self) -> None:
        """Ask whether the server still knows the version of the copy; raise `APIError` (504) if it does not."""
        query = {"limit": "1", "resourceVersion": self._rules.version, "resourceVersionMatch": "NotOlderThan"}
        response = await self._transport.request(
            "GET", self._kind.path(), query={**query, **self._selection}, timeout_seconds=_LIST_SECONDS
        )
        raise_for_status(response, f"list {self._name}")
        self._rules.unsure = False

    def _check_not_primed(self, count: int) -> None:
        if self._copy.primed != count:
            raise RelistError("the copy was replaced while it was listed")

    async def _finish_list(self, seen: set[str], unreadable: set[str]) -> None:
        slices = Slices(self._clock)
        for _ in self._copy.finish_list(seen, unreadable):
            if slices.is_over():
                await slices.turn()

    # Watch

    async def _watch(self) -> None:
        """Follow one watch stream until it ends; raise what says that it cannot be continued."""
        seconds = int(_WATCH_SECONDS * (1 + self._rng.random()))
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._rules.version,
            "timeoutSeconds": str(seconds),
            **self._selection,
        }
        what = f"watch {self._name}"
        due = self._clock.now() + seconds
        try:
            async with (
                Watchdog(self._clock, self._silence_seconds) as dog,
                self._transport.stream(self._kind.path(), query=query, timeout_seconds=self._silence_seconds) as stream,
            ):
                if stream.status != _OK:
                    raise error_of(stream.status, await _error_body(stream), stream.headers, what)
                self._rules.opened()
                self._watching.set()
                self._broken_since = None
                self._outages.works(self)
                await self._follow(stream, dog)
                # A server that stops ends its watches before their time, and another may come back in its place.
                self._rules.unsure = self._clock.now() < due
        except TimeoutError as error:
            self._rules.fell_silent()
            kind = SilenceError if self._watching.is_set() else TransportError
            raise kind(f"{what}: silent for {self._silence_seconds:.0f} s") from error
        finally:
            self._watching.clear()
            if self._broken_since is None:
                self._broken_since = self._clock.now()

    async def _follow(self, stream: Stream, dog: Watchdog) -> None:
        rest: list[bytes] = []
        size = 0
        slices = Slices(self._clock)
        async for chunk in stream:
            dog.heard()
            self._rules.heard()
            if b"\n" not in chunk:
                rest.append(chunk)
                size += len(chunk)
                if size > _LINE_BYTES:
                    raise TransportError(f"watch {self._name}: a line of more than {_LINE_BYTES >> 20} MiB")
                continue
            data = b"".join((*rest, chunk)) if rest else chunk
            begin = 0
            # Not by `split`, which looks at byte after byte where this is one jump.
            while (end := data.find(b"\n", begin)) >= 0:
                if end > begin:
                    if slices.is_over():
                        await slices.turn()
                    self._event(data[begin:end])
                begin = end + 1
            rest = [data[begin:]] if begin < len(data) else []
            size = len(data) - begin
        if rest:
            raise TransportError(f"watch {self._name}: ended in the middle of an event")

    def _event(self, line: bytes) -> None:
        """Apply one line of a watch stream."""
        try:
            event = decode_event(self._cls, line, self._keep)
        except DecodeError as error:
            # One event was missed, so only a list can tell what it was.
            self._malformed(Malformed("", "", "", str(error)))
            raise RelistError(f"an event cannot be read: {error}") from error
        item = event.object
        if isinstance(item, APIStatus):
            raise self._rules.refused_in_stream(item, f"watch {self._name}")
        version = item.resource_version
        self._rules.check_order(version)
        if isinstance(item, Malformed):
            self._malformed(item, gone=event.type == DELETED)
            if not item.name:
                raise RelistError("an event is about an object without a name")
            self._copy.apply_unreadable(event.type, item)
        elif event.type != BOOKMARK:
            try:
                self._copy.apply(event.type, item)
            except UnannouncedError as error:
                raise RelistError(str(error)) from error
        self._rules.advanced(version)

    def _malformed(self, failure: Malformed, *, gone: bool = False) -> None:
        self._recorder.warning(f"malformed_{self._kind.kind.lower()}")
        _log.warning(
            "Ignoring malformed object resource=%s key=%s err=%s",
            self._name,
            failure.key or "?",
            failure.error,
        )
        for callback in self._unreadable_handlers:
            try:
                callback(failure, gone)
            except PLUGIN_FAILURES as error:  # as with other handlers: the watch goes on
                about = f"resource={self._name} object={failure.key}"
                self._copy.failures.report(
                    error, plugin="", point=EVENT_HANDLER, about=about, call=callback, warning="handler_failed"
                )


async def _error_body(stream: Stream) -> bytes:
    """Return the body of a refusal, or the beginning of a very long one."""
    body = b""
    async for chunk in stream:
        body += chunk
        if len(body) > _ERROR_BODY_BYTES:
            break
    return body
