"""`Clock`: an interface to the time and to timers, so that tests and simulations can advance the time."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Clock", "LoopClock", "Timer"]


class Timer(Protocol):
    """A pending call; cancelling it twice, or after it ran, does nothing."""

    def cancel(self) -> None:
        """Do not make the call."""
        ...


class Clock(Protocol):
    """A monotonic clock with timers, and the wall clock for what is written into objects."""

    def now(self) -> float:
        """Return monotonic seconds; only differences mean anything."""
        ...

    def wall(self) -> float:
        """Return seconds since the epoch (UTC), for timestamps that others read."""
        ...

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """Call `callback` when `now()` reaches `when`."""
        ...

    def call_later(self, delay_seconds: float, callback: Callable[[], object]) -> Timer:
        """Call `callback` after `delay_seconds`."""
        ...

    async def sleep(self, delay_seconds: float) -> None:
        """Wait; cancellation ends the wait."""
        ...


class LoopClock:
    """The running event loop's clock, and the system's wall clock."""

    __slots__ = ("_loop", "_time")

    def __init__(self, *, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop if loop is not None else asyncio.get_running_loop()
        # Asked some forty times per pod. Most loops only pass the question on, and need not be asked themselves.
        passes_on = getattr(self._loop.time, "__func__", None) is asyncio.BaseEventLoop.time
        self._time = time.monotonic if passes_on else self._loop.time

    def now(self) -> float:
        """Return the loop's monotonic time in seconds."""
        return self._time()

    def wall(self) -> float:
        """Return the system's wall clock, in seconds since the epoch."""
        return time.time()

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """Call `callback` on the loop at `when`."""
        return self._loop.call_at(when, callback)

    def call_later(self, delay_seconds: float, callback: Callable[[], object]) -> Timer:
        """Call `callback` on the loop after `delay_seconds`."""
        return self._loop.call_later(delay_seconds, callback)

    async def sleep(self, delay_seconds: float) -> None:
        """Wait on the loop."""
        await asyncio.sleep(delay_seconds)
