"""Send Events to the API server in the background, so that they do not delay bindings.

Source: client-go `tools/events`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final

import attrs
import msgspec

from kube_objects.kinds import EVENTS
from kube_objects.times import format_micro_time
from pyscheduler.api import Event, EventSeries, encode
from pyscheduler.cluster.real.pacing import Watchdog
from pyscheduler.cluster.real.response_errors import raise_for_status
from pyscheduler.framework.errors import AlreadyExistsError, APIError, NotFoundError, TransportError
from pyscheduler.framework.watches import PolicyRule

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from kube_objects.clock import Clock, Timer
    from pyscheduler.cluster.real.concurrency import RequestWindow
    from pyscheduler.cluster.real.rate_limit import TokenBucket
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.scheduler.ports import Transport

__all__ = ["RULES", "EventWriter"]

_log = logging.getLogger(__name__)

#: Events that wait to be written; a burst of a large cluster's pods fits.
_QUEUE_LIMIT: Final = 20_000
_WORKERS: Final = 4
_TRIES: Final = 12
_RETRY_SECONDS: Final = (1.0, 10.0)
#: After so long without a repetition a series is over, and how often a long one is written, in seconds.
_QUIET_SECONDS: Final = 360.0
_REFRESH_SECONDS: Final = 1800.0
#: How often the series that are over are looked for, in seconds.
_SWEEP_SECONDS: Final = 60.0
#: How many events of a type are remembered, in case they repeat. Pods that are scheduled come by the thousand and are
#: told of once; they must not displace those that wait, of whom there may be as many, and who are told of each time.
_REMEMBERED: Final = {"Normal": 1024, "Warning": 16_384}
_BUSY: Final = 429
_SERVER_ERROR_FROM: Final = 500
_PATCH: Final = "application/strategic-merge-patch+json"

#: What the writer asks of the API server: in all namespaces, since an event lies beside what it is about.
RULES: Final = (PolicyRule(api_groups=(EVENTS.group,), resources=(EVENTS.plural,), verbs=("create", "patch")),)


@attrs.define(kw_only=True, eq=False)
class _Series:
    """An event's name, how often the event has happened, and how much of that the API server knows."""

    namespace: str
    name: str
    #: The event as it is to be created; None while the API server has it. Thousands of series are kept for minutes, and
    #: the whole event is the largest part of one.
    event: Event | None
    count: int = 1
    #: Time of the latest occurrence, on the monotonic and on the wall clock.
    latest: float
    latest_wall: float
    created: bool = False
    written: int = 0
    written_at: float = 0.0
    queued: bool = False

    @property
    def is_writable(self) -> bool:
        """Return whether the API server has the event, or it is at hand to be created."""
        return self.created or self.event is not None

    def wire(self) -> EventSeries:
        return EventSeries(count=self.count, last_observed_time=format_micro_time(self.latest_wall))


class EventWriter:
    """The queue of events and the workers that write them; made inside a running event loop."""

    def __init__(
        self,
        transport: Transport,
        *,
        limiter: TokenBucket,
        window: RequestWindow,
        clock: Clock,
        recorder: Recorder,
        host: str = "",
    ) -> None:
        self._transport = transport
        self._host = host
        self._limiter = limiter
        self._window = window
        self._clock = clock
        self._recorder = recorder
        self._queue: deque[_Series] = deque()
        #: Those in the queue, and those that a worker is writing.
        self._unwritten = 0
        self._workers: list[asyncio.Task[None]] = []
        #: Set by `_put` for workers that have nothing to do.
        self._resting: deque[asyncio.Future[None]] = deque()
        #: What `close` waits for.
        self._all_written: asyncio.Future[None] | None = None
        #: By type; the one that has been quiet for longest comes first.
        self._recent: dict[str, OrderedDict[Hashable, _Series]] = {each: OrderedDict() for each in _REMEMBERED}
        #: Those that happened more than once and are not over.
        self._repeating: set[_Series] = set()
        self._sweeper: Timer | None = None
        self._closed = False

    def record(self, type: str, key: Hashable, make: Callable[[float], Event]) -> None:
        """Record an occurrence; `key` says which of a type are alike, `make` gives the event for a wall-clock time."""
        if self._closed:
            self._recorder.warning("event_dropped")
            return
        wall = self._clock.wall()
        now = self._clock.now()
        series = self._recent[type].get(key)
        if series is None or now - series.latest >= _QUIET_SECONDS:
            event = make(wall)
            series = _Series(namespace=event.namespace, name=event.name, event=event, latest=now, latest_wall=wall)
            if self._put(series):
                self._remember(type, key, series)
            return
        series.count += 1
        series.latest, series.latest_wall = now, wall
        self._remember(type, key, series)
        self._repeating.add(series)
        if self._sweeper is None:
            self._sweeper = self._clock.call_later(_SWEEP_SECONDS, self._sweep)
        if series.written < 2:
            # The patch may find that the event expired.
            series.event = series.event or make(wall)
            self._put(series)

    def _remember(self, type: str, key: Hashable, series: _Series) -> None:
        """Remember a series from now on, and forget those that are over, or too many."""
        recent, most = self._recent[type], _REMEMBERED[type]
        recent[key] = series
        recent.move_to_end(key)
        while True:
            first = next(iter(recent.values()))
            if len(recent) <= most and series.latest - first.latest < _QUIET_SECONDS:
                return
            recent.popitem(last=False)

    @property
    def idle(self) -> bool:
        """Return True if nothing is left to write; counts of series that go on are not."""
        return not self._unwritten

    async def close(self, *, timeout_seconds: float) -> None:
        """Write what is queued, and what series have counted, for at most so long; drop and count the rest."""
        if self._closed:
            return
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for series in self._repeating:
            if series.is_writable and series.count > series.written:
                self._put(series)
        try:
            async with Watchdog(self._clock, timeout_seconds):
                if self._unwritten:
                    self._all_written = asyncio.get_running_loop().create_future()
                    await self._all_written
        except TimeoutError:
            _log.warning("Events were dropped at the end count=%d", self._unwritten)
            for _ in range(self._unwritten):
                self._recorder.warning("event_dropped")
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)

    # The queue

    def _put(self, series: _Series) -> bool:
        """Queue a series for writing, unless it is; return False where there is no room."""
        if series.queued:
            return True
        if len(self._queue) >= _QUEUE_LIMIT:
            self._recorder.warning("event_dropped")
            return False
        self._queue.append(series)
        series.queued = True
        self._unwritten += 1
        while self._resting:
            resting = self._resting.popleft()
            if not resting.done():
                resting.set_result(None)
                break
        if not self._workers:
            self._workers = [
                asyncio.create_task(self._work(), name=f"event writer {number}") for number in range(_WORKERS)
            ]
        return True

    def _sweep(self) -> None:
        """Write the counts of series that are over, or have gone on for long."""
        now = self._clock.now()
        for series in list(self._repeating):
            over = now - series.latest >= _QUIET_SECONDS
            if over:
                self._repeating.discard(series)
            if (
                series.is_writable
                and series.count > series.written
                and (over or now - series.written_at >= _REFRESH_SECONDS)
            ):
                self._put(series)
        self._sweeper = self._clock.call_later(_SWEEP_SECONDS, self._sweep) if self._repeating else None

    async def _work(self) -> None:
        queue = self._queue
        while True:
            while not queue:
                resting = asyncio.get_running_loop().create_future()
                self._resting.append(resting)
                await resting
            series = queue.popleft()
            try:
                await self._write(series)
            except Exception:  # noqa: BLE001 - a fault of our own must cost one event, not the worker
                self._recorder.warning("event_lost")
                _log.exception("Unable to write event name=%s", series.name)
            finally:
                series.queued = False
                if series.written == 1 and series.count > 1:
                    self._put(series)  # it happened again meanwhile
                self._unwritten -= 1
                if not self._unwritten and self._all_written is not None and not self._all_written.done():
                    self._all_written.set_result(None)

    # One event

    async def _write(self, series: _Series) -> None:
        """Bring the API server up to date about a series; try again where that may help."""
        low, high = _RETRY_SECONDS
        for attempt in range(_TRIES):
            waited = 0.0 if self._limiter.unlimited else await self._limiter.acquire()
            method = "PATCH" if series.created else "POST"
            self._recorder.observe("rest_client_rate_limiter_duration_seconds", waited, method, self._host)
            turn = await self._window.turn(method, background=True)
            count = series.count
            pause = min(low * 2**attempt, high)
            try:
                with turn:
                    await self._send(series)
            except AlreadyExistsError:
                series.created = True  # by an earlier try whose answer was lost
                if count == 1:
                    break
                continue
            except NotFoundError as error:
                if not series.created:
                    _log.debug("Event not written, its namespace is gone err=%s", error)
                    return
                # It expired: the series continues as a new event, which its next occurrence makes if none is at hand.
                series.created, series.written = False, 0
                if series.event is None:
                    _log.debug("Count of an event not written, the event has expired err=%s", error)
                    return
                continue
            except TransportError as error:
                _log.debug("Unable to write event (may retry after sleeping) err=%s", error)
            except APIError as error:
                if error.status < _SERVER_ERROR_FROM and error.status != _BUSY:
                    self._recorder.warning("event_refused")
                    _log.warning("Server rejected event (will not retry!) err=%s", error)
                    return
                pause = max(pause, min(error.retry_after_seconds or 0.0, high))
            else:
                break
            await self._clock.sleep(pause)
        else:
            self._recorder.warning("event_lost")
            _log.warning("Unable to write event (retry limit exceeded!) name=%s", series.name)
            return
        series.created = True
        series.event = None
        series.written = count
        series.written_at = self._clock.now()

    async def _send(self, series: _Series) -> None:
        if series.created:
            method, path, content_type = "PATCH", EVENTS.path(series.namespace, series.name), _PATCH
            body = msgspec.json.encode({"series": series.wire()})
        else:
            event = series.event
            assert event is not None, "an event is kept until it is created"
            series.name = event.name
            method, path, content_type = "POST", EVENTS.path(series.namespace), "application/json"
            body = encode(event if series.count == 1 else msgspec.structs.replace(event, series=series.wire()))
        response = await self._transport.request(method, path, body=body, content_type=content_type)
        raise_for_status(response, "write event")
