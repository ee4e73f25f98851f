"""Delays between retries (`Backoff`), a timeout for silent watches (`Watchdog`), and pauses in long work (`Slices`)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    import random
    from types import TracebackType

    from kube_objects.clock import Clock, Timer

__all__ = ["Backoff", "Slices", "Watchdog"]

#: Long work lets the event loop turn after so many objects, or so many seconds.
_SLICE_OBJECTS: Final = 25
_SLICE_SECONDS: Final = 0.01


class Backoff:
    """Delays that double from `low` to `high` seconds, each spread by half, and begin anew after a quiet time.

    Quiet is `reset_seconds` without a request for a delay.
    """

    __slots__ = ("_asked", "_clock", "_delay", "_high", "_low", "_reset", "_rng")

    def __init__(
        self, *, low: float, high: float, reset_seconds: float = 120.0, clock: Clock, rng: random.Random
    ) -> None:
        self._low = low
        self._high = high
        self._reset = reset_seconds
        self._clock = clock
        self._rng = rng
        self._delay = low
        self._asked = clock.now()

    def reset(self) -> None:
        """Begin anew."""
        self._delay = self._low

    def next(self) -> float:
        """Return how long to wait before the next try, in seconds."""
        now = self._clock.now()
        if now - self._asked > self._reset:
            self._delay = self._low
        delay = self._delay
        self._delay = min(delay * 2, self._high)
        # Counted from the end of the wait, or a long delay would look like a quiet time.
        spread = delay * (0.5 + self._rng.random())
        self._asked = now + spread
        return spread


class Slices:
    """Parts of long work, one object after another, between which the event loop turns.

    How long an object takes depends on others, too: each event about a node is compared with all pods that wait. A part
    begins whenever the loop has turned, also if it turned because this work waited for something.
    """

    __slots__ = ("_began", "_clock", "_count", "_is_waiting_for_turn")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._count = 0
        self._began = clock.now()
        self._is_waiting_for_turn = False

    def is_over(self) -> bool:
        """Count an object, and return True if the loop should turn before it."""
        if not self._is_waiting_for_turn:
            self._is_waiting_for_turn = True
            asyncio.get_running_loop().call_soon(self._begin)
        self._count += 1
        return self._count >= _SLICE_OBJECTS or self._clock.now() - self._began >= _SLICE_SECONDS

    def _begin(self) -> None:
        self._is_waiting_for_turn = False
        self._count = 0
        self._began = self._clock.now()

    async def turn(self) -> None:
        """Let the loop turn, which begins the next part."""
        await asyncio.sleep(0)


class Watchdog:
    """An `async with` block that raises `TimeoutError` when `heard` was not called for so many seconds of the clock."""

    __slots__ = ("_clock", "_due", "_scope", "_seconds", "_timer")

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._due = 0.0
        self._scope = asyncio.timeout(None)
        self._timer: Timer | None = None

    def heard(self) -> None:
        """Begin to wait anew. Costs no timer: the one that is set looks again when it rings."""
        self._due = self._clock.now() + self._seconds

    async def __aenter__(self) -> Self:
        await self._scope.__aenter__()
        self.heard()
        self._timer = self._clock.call_at(self._due, self._ring)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._scope.__aexit__(kind, error, traceback)

    def _ring(self) -> None:
        if self._clock.now() < self._due:
            self._timer = self._clock.call_at(self._due, self._ring)
        else:
            self._scope.reschedule(asyncio.get_running_loop().time())
