"""Limit the number of requests in flight (sent, but not answered yet), so that the API server keeps up.

As in TCP (RFC 5681), the limit grows slowly and shrinks fast. It begins at 64, the maximum. After a refusal (such as
429) or an unusually slow write, the limit falls to half of the requests in flight.

Differs from kube-scheduler: client-go limits requests per second, not requests in flight.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, Final

from pyscheduler.cluster.real.response_errors import is_about_budgets
from pyscheduler.framework.errors import APIError, TransportError

if TYPE_CHECKING:
    from types import TracebackType

    from kube_objects.clock import Clock, Timer
    from pyscheduler.framework.recorder import Recorder

__all__ = ["FULL", "RequestWindow", "Turn"]

_log = logging.getLogger(__name__)

#: Requests in flight while the API server keeps up; its fair queuing gives one user little more.
FULL: Final = 64
#: What Kubernetes promises for a write to one object: kubernetes/community, sig-scalability, api_call_latency.
_SLOW_SECONDS: Final = 1.0
#: Slow answers to so few at a time are not of our making.
_FEW: Final = 8
#: For how long a number that was refused is not tried again, where the server does not say, and at the most.
_HOLD_SECONDS: Final = 1.0
_HOLD_LIMIT_SECONDS: Final = 5.0
#: The quickest answer is remembered for as long, up to twice as long.
_REMEMBERED_SECONDS: Final = 30.0
_LOG_SECONDS: Final = 10.0
#: So many requests go ahead of a deferred one that waits.
_AHEAD: Final = 3
_BUSY: Final = 429
#: To a read these may come from one aggregated API alone, and say nothing about the API server.
_OVERLOADED: Final = frozenset({503, 504})


class Turn:
    """The right to have one request in flight: a `with` block around the request, left with the error it ended in."""

    __slots__ = ("_window", "background", "began", "epoch", "method", "number")

    def __init__(self, window: RequestWindow, method: str, *, background: bool) -> None:
        self._window = window
        self.method = method
        self.background = background
        #: How many were in flight with it when it began; 0 while it waits.
        self.number = 0
        self.began = 0.0
        #: How often the window had been cut by then.
        self.epoch = 0

    def __enter__(self) -> None:
        """Begin; nothing is left to do."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Give the turn to the next one, and let the window learn from what came of the request."""
        self._window.end(self, error)


class RequestWindow:
    """Gives turns to requests, and widens and narrows with their answers; see the module. Close it when done."""

    def __init__(self, *, clock: Clock, recorder: Recorder, logs: bool = True) -> None:
        self._clock = clock
        self._limit = FULL
        self._in_flight = 0
        self._background_in_flight = 0
        self._waiting: OrderedDict[Turn, asyncio.Future[None]] = OrderedDict()
        self._waiting_deferred: OrderedDict[Turn, asyncio.Future[None]] = OrderedDict()
        #: How many requests went ahead of the deferred one that waits for longest.
        self._ahead = 0
        self._waiting_background: OrderedDict[Turn, asyncio.Future[None]] = OrderedDict()
        #: Good answers of this round trip, and how many of its requests were in flight at once.
        self._answers = 0
        self._most = 0
        self._cuts: Counter[str] = Counter()
        self._epoch = 0
        #: One less than were refused, and until when no more are tried.
        self._ceiling = FULL
        self._held_until = -math.inf
        #: Set while no request is sent.
        self._pause: Timer | None = None
        self._closed = False
        #: Seconds of the quickest write by method, of this half minute and of the one before.
        self._quickest: dict[str, float] = {}
        self._quickest_before: dict[str, float] = {}
        self._forget_at = clock.now() + _REMEMBERED_SECONDS
        self._logged_at = -math.inf if logs else math.inf
        recorder.gauge("pyscheduler_request_window", lambda: {(): float(self._limit)})
        recorder.gauge(
            "pyscheduler_client_requests",
            lambda: {(("state", "in_flight"),): float(self._in_flight), (("state", "waiting"),): float(self.waiting)},
        )
        recorder.counter(
            "pyscheduler_request_window_cuts_total",
            lambda: {(("reason", reason),): float(count) for reason, count in self._cuts.items()},
        )

    @property
    def limit(self) -> int:
        """Return how many may be in flight at once, from 1 to `FULL`."""
        return self._limit

    @property
    def in_flight(self) -> int:
        """Return how many turns were given and not ended."""
        return self._in_flight

    @property
    def waiting(self) -> int:
        """Return how many wait for a turn."""
        return len(self._waiting) + len(self._waiting_deferred) + len(self._waiting_background)

    async def turn(self, method: str, *, deferred: bool = False, background: bool = False) -> Turn:
        """Wait for a turn: a `deferred` one behind most others, one in the `background` behind all others.

        If the wait is cancelled, the turn goes to the next one.
        """
        turn = Turn(self, method, background=background)
        if self._has_room(background) and not self._is_behind(deferred=deferred, background=background):
            self._begin(turn)
            return turn
        queue = self._waiting
        if deferred or background:
            queue = self._waiting_background if background else self._waiting_deferred
        queue[turn] = future = asyncio.get_running_loop().create_future()
        try:
            await future
        except asyncio.CancelledError:
            if turn.number:
                self._leave(turn)
            else:
                queue.pop(turn, None)
            self._admit()
            raise
        return turn

    def end(self, turn: Turn, error: BaseException | None) -> None:
        """Take a turn back and learn from how its request ended."""
        self._leave(turn)
        now = self._clock.now()
        reason = self._complaint(turn, error, now)
        # What was sent before the last cut was sent into a wider window.
        if turn.epoch == self._epoch:
            if reason:
                self._cut(turn, reason, now, error)
            elif self._limit < FULL and (error is None or isinstance(error, APIError)):
                self._widen(turn, now)
        if self.waiting:
            self._admit()

    def close(self) -> None:
        """End a pause, and begin no other; idempotent. Who still waits is left to what the transport says."""
        self._closed = True
        if self._pause is not None:
            self._pause.cancel()
            self._resume()

    # Turns

    def _has_room(self, background: bool) -> bool:
        if self._in_flight >= self._limit or self._pause is not None:
            return False
        return not background or self._background_in_flight < max(1, self._limit // 2)

    def _begin(self, turn: Turn) -> None:
        self._in_flight += 1
        if turn.background:
            self._background_in_flight += 1
        turn.number = self._in_flight
        turn.epoch = self._epoch
        turn.began = self._clock.now()

    def _leave(self, turn: Turn) -> None:
        self._in_flight -= 1
        if turn.background:
            self._background_in_flight -= 1

    def _is_behind(self, *, deferred: bool, background: bool) -> bool:
        """Return whether another request waits that goes ahead of a new one."""
        if self._waiting or ((deferred or background) and self._waiting_deferred):
            return True
        return background and bool(self._waiting_background)

    def _admit(self) -> None:
        """Give turns to those who wait, as far as there is room."""
        while self._has_room(background=False) and (self._waiting or self._waiting_deferred):
            self._admit_first(self._next_class())
        while self._waiting_background and self._has_room(background=True):
            self._admit_first(self._waiting_background)

    def _next_class(self) -> OrderedDict[Turn, asyncio.Future[None]]:
        """Return where the next request waits."""
        if self._waiting and (not self._waiting_deferred or self._ahead < _AHEAD):
            self._ahead += bool(self._waiting_deferred)
            return self._waiting
        self._ahead = 0
        return self._waiting_deferred

    def _admit_first(self, queue: OrderedDict[Turn, asyncio.Future[None]]) -> None:
        turn, future = queue.popitem(last=False)
        if not future.done():  # else cancelled, and about to hear of it
            self._begin(turn)
            future.set_result(None)

    # Learning

    def _complaint(self, turn: Turn, error: BaseException | None, now: float) -> str:
        """Return what speaks for fewer requests; nothing where all is well, or where nothing can be said."""
        seconds = now - turn.began
        is_write = turn.method != "GET"
        if isinstance(error, APIError):
            if error.status == _BUSY:
                return "" if is_about_budgets(error) else "429"
            if is_write and error.status in _OVERLOADED:
                return str(error.status)
        elif isinstance(error, TransportError):
            return "no_answer" if seconds > _SLOW_SECONDS else ""
        elif error is not None:
            return ""
        if is_write and not turn.background and self._is_slow(turn, seconds, now):
            return "slow"
        return ""

    def _is_slow(self, turn: Turn, seconds: float, now: float) -> bool:
        """Return True if a write took too long, compared with others; note its time for further ones."""
        if now >= self._forget_at:
            self._quickest_before = self._quickest if now < self._forget_at + _REMEMBERED_SECONDS else {}
            self._quickest = {}
            self._forget_at = now + _REMEMBERED_SECONDS
        quickest = self._quickest.get(turn.method, math.inf)
        if seconds < quickest:
            self._quickest[turn.method] = seconds
        if seconds <= _SLOW_SECONDS or self._crowd(turn) <= _FEW:
            return False
        return seconds > 2 * min(quickest, self._quickest_before.get(turn.method, math.inf))

    def _crowd(self, turn: Turn) -> int:
        """Return how many a request that took its time had beside it: those there first, or those that came after."""
        return max(turn.number, self._in_flight + 1)

    def _widen(self, turn: Turn, now: float) -> None:
        self._answers += 1
        self._most = max(self._most, turn.number)
        if self._answers < self._limit:
            return
        # A window of which less than half was in use does not grow (RFC 7661).
        if 2 * self._most >= self._limit and (self._limit < self._ceiling or now >= self._held_until):
            self._limit += 1
        self._answers = self._most = 0

    def _cut(self, turn: Turn, reason: str, now: float, error: BaseException | None) -> None:
        asked = error.retry_after_seconds if isinstance(error, APIError) else None
        hold = min(asked or _HOLD_SECONDS, _HOLD_LIMIT_SECONDS)
        if reason == "slow":
            crowd = self._crowd(turn)
            limit = max(crowd // 2, _FEW)
        else:
            crowd = turn.number
            limit = max(crowd // 2, 1)
        was, self._limit = self._limit, min(self._limit, limit)
        self._ceiling = max(crowd - 1, 1)
        self._held_until = now + hold
        self._answers = self._most = 0
        self._epoch += 1
        self._cuts[reason] += 1
        if was == 1 and not self._closed:
            self._pause = self._clock.call_later(hold, self._resume)
        if now - self._logged_at >= _LOG_SECONDS:
            self._logged_at = now
            _log.warning(
                "API server is busy, sending fewer requests at once limit=%d was=%d reason=%s waiting=%d",
                self._limit,
                was,
                reason,
                self.waiting,
            )

    def _resume(self) -> None:
        self._pause = None
        self._admit()
