"""Writing events.k8s.io/v1 events, behind the bindings and never in front of them.

Events are queued and written by a few workers with a rate limit of their own. Events that differ in their note only are
one series, as in client-go: the first is created, the second turns it into a series of two, further ones are counted
and written when the series has been quiet for a while. A queue that is full drops the newest and counts it.
Source: client-go `tools/events`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import attrs
import msgspec
from cachetools import TTLCache

from pyscheduler.cluster.real.responses import raise_for_status
from pyscheduler.framework.errors import APIError, NotFoundError, TransportError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyscheduler.cluster.real.rate_limit import TokenBucket
    from pyscheduler.framework.clock import Clock
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.scheduler.ports import Transport

__all__ = ["EventWriter", "NamedEventRecorder"]

_log = logging.getLogger(__name__)

#: Events that wait to be written; a burst of a large cluster's pods fits.
_QUEUE_LIMIT: Final = 20_000
_WORKERS: Final = 4
_TRIES: Final = 3
_RETRY_SECONDS: Final = 1.0
#: After so long without a repetition a series is over, in seconds.
_SERIES_SECONDS: Final = 360.0
_SERIES_LIMIT: Final = 10_000
_DEFAULT_NAMESPACE: Final = "default"


@attrs.define
class _Series:
    """An event that was written, and how often it happened since."""

    namespace: str
    name: str
    count: int = 1


class EventWriter:
    """The queue of events and the workers that write them."""

    def __init__(
        self, transport: Transport, *, limiter: TokenBucket, clock: Clock, recorder: Recorder, host_name: str
    ) -> None:
        self._transport = transport
        self._limiter = limiter
        self._clock = clock
        self._recorder = recorder
        self._host_name = host_name
        self._queue: deque[Callable[[], tuple[str, str, dict[str, object]]]] = deque()
        self._wake = asyncio.Event()
        self._workers: list[asyncio.Task[None]] = []
        self._busy = 0
        self._series: TTLCache[tuple[str, ...], _Series] = TTLCache(
            maxsize=_SERIES_LIMIT, ttl=_SERIES_SECONDS, timer=clock.now
        )
        self._last_stamp = 0

    def named(self, reporting_controller: str) -> NamedEventRecorder:
        """Return a recorder in the name of one controller."""
        instance = f"{reporting_controller}-{self._host_name}" if self._host_name else reporting_controller
        return NamedEventRecorder(self, reporting_controller, instance)

    def submit(self, event: dict[str, object], key: tuple[str, ...]) -> None:
        """Queue an event for writing; `key` says which events are the same but for note and time."""
        series = self._series.get(key)
        if series is not None:
            series.count += 1
            if series.count > 2:
                return
            stamp = _micro(self._clock.wall())
            patch: dict[str, object] = {"series": {"count": series.count, "lastObservedTime": stamp}}
            self._put(lambda: ("PATCH", f"{_path(series.namespace)}/{series.name}", patch))
            return
        metadata = self._metadata(event)
        self._series[key] = _Series(metadata["namespace"], metadata["name"])
        event["metadata"] = metadata
        self._put(lambda: ("POST", _path(metadata["namespace"]), event))

    def _metadata(self, event: Mapping[str, object]) -> dict[str, str]:
        regarding = event["regarding"]
        assert isinstance(regarding, dict)
        # Names end in the nanosecond, as client-go's; two in one nanosecond would collide.
        self._last_stamp = max(self._last_stamp + 1, int(self._clock.wall() * 1e9))
        return {
            "name": f"{regarding['name']}.{self._last_stamp:x}",
            "namespace": regarding.get("namespace") or _DEFAULT_NAMESPACE,
        }

    def _put(self, write: Callable[[], tuple[str, str, dict[str, object]]]) -> None:
        if len(self._queue) >= _QUEUE_LIMIT:
            self._recorder.warning("event_dropped")
            return
        self._queue.append(write)
        self._wake.set()
        if not self._workers:
            self._workers = [
                asyncio.create_task(self._work(), name=f"event writer {number}") for number in range(_WORKERS)
            ]

    async def _work(self) -> None:
        while True:
            if not self._queue:
                self._wake.clear()
                await self._wake.wait()
                continue
            write = self._queue.popleft()
            self._busy += 1
            try:
                await self._write(*write())
            finally:
                self._busy -= 1

    async def _write(self, method: str, path: str, body: dict[str, object]) -> None:
        content_type = "application/json" if method == "POST" else "application/merge-patch+json"
        data = msgspec.json.encode(body)
        for attempt in range(1, _TRIES + 1):
            await self._limiter.acquire()
            try:
                response = await self._transport.request(method, path, body=data, content_type=content_type)
                raise_for_status(response, "write event")
            except NotFoundError:
                # The event expired, or its namespace is gone: nobody will miss it.
                return
            except TransportError as error:
                _log.debug("Event not written yet try=%d err=%s", attempt, error)
            except APIError as error:
                if error.status < 500 and error.status != 429:
                    self._recorder.warning("event_refused")
                    _log.warning("Server rejected event (will not retry!) err=%s", error)
                    return
            else:
                return
            await self._clock.sleep(_RETRY_SECONDS * attempt)
        self._recorder.warning("event_lost")
        _log.warning("Unable to write event (retry limit exceeded!) path=%s", path)

    @property
    def idle(self) -> bool:
        """Tell whether everything is written."""
        return not self._queue and not self._busy

    async def close(self, *, timeout_seconds: float) -> None:
        """Write what is queued, for at most `timeout_seconds`, then drop the rest and count it."""
        deadline = self._clock.now() + timeout_seconds
        while not self.idle and self._clock.now() < deadline:
            await self._clock.sleep(0.01)
        for _ in self._queue:
            self._recorder.warning("event_dropped")
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)


class NamedEventRecorder:
    """Records events in the name of one controller; see `framework.handle.EventRecorder`."""

    __slots__ = ("_controller", "_instance", "_writer")

    def __init__(self, writer: EventWriter, controller: str, instance: str) -> None:
        self._writer = writer
        self._controller = controller
        self._instance = instance

    def event(
        self, regarding: object, *, type: str, reason: str, action: str, note: str, related: object | None = None
    ) -> None:
        """Record an event about an API object."""
        subject = _reference(regarding)
        event: dict[str, object] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "eventTime": _micro(self._writer._clock.wall()),  # noqa: SLF001 - two halves of one mechanism
            "type": type,
            "reason": reason,
            "action": action,
            "note": note,
            "regarding": subject,
            "reportingController": self._controller,
            "reportingInstance": self._instance,
        }
        key = (self._controller, type, reason, action, *subject.values())
        if related is not None:
            event["related"] = other = _reference(related)
            key = (*key, *other.values())
        self._writer.submit(event, key)


def _reference(subject: object) -> dict[str, str]:
    metadata = subject.metadata  # type: ignore[attr-defined]
    group_version = getattr(subject, "api_version", "") or _API_VERSIONS.get(type(subject).__name__, "v1")
    reference = {
        "kind": getattr(subject, "kind", "") or type(subject).__name__,
        "apiVersion": group_version,
        "name": metadata.name,
        "uid": metadata.uid,
        "resourceVersion": metadata.resource_version,
    }
    if metadata.namespace:
        reference["namespace"] = metadata.namespace
    return reference


_API_VERSIONS: Final[dict[str, str]] = {}


def _micro(wall: float) -> str:
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _path(namespace: str) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
