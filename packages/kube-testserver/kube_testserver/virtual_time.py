"""Virtual time: a clock that advances only on command.

`VirtualClock.advance` fires one timer after the other. After each timer, it waits until the event loop has no work
left.
"""

from __future__ import annotations

import asyncio
import heapq
import threading
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["VirtualClock", "settle"]

#: Turns of the event loop without a ready callback after which the loop counts as at rest.
_QUIET_TURNS = 3
#: Turns after which `settle` gives up.
_MOST_TURNS = 100_000
#: How many tasks that do not rest are named.
_NAMED_TASKS = 3


async def settle() -> None:
    """Let the event loop run until no callback is ready.

    Tasks that wait for a timer of a virtual clock are at rest. Raises `TimeoutError` if the loop does not come to rest.
    """
    loop = asyncio.get_running_loop()
    # asyncio does not show whether a callback is ready; another implementation of the loop runs some more turns.
    ready = getattr(loop, "_ready", None)
    quiet = 0
    wanted = _QUIET_TURNS if ready is not None else 50
    for _ in range(_MOST_TURNS):
        await asyncio.sleep(0)
        quiet = 0 if ready else quiet + 1
        if quiet >= wanted or (quiet and ready is not None and _is_alone(loop)):
            return
    owners = (getattr(getattr(handle, "_callback", None), "__self__", None) for handle in ready or ())
    names = sorted({task.get_name() for task in owners if isinstance(task, asyncio.Task)})
    where = f", in {' or '.join(names[:_NAMED_TASKS])}" if names else ""
    raise TimeoutError(f"the event loop does not come to rest: a callback reschedules itself without waiting{where}")


def _is_alone(loop: asyncio.AbstractEventLoop) -> bool:
    """Return True if only callbacks of the loop make others ready: it has no socket, and there is no other thread."""
    files = getattr(loop, "_selector", None)
    # The loop itself has one file, by which other threads wake it.
    return files is not None and len(files.get_map()) <= 1 and threading.active_count() == 1


#: Timers that may fire at one instant; more than that start each other.
_MOST_TIMERS = 50_000


class _Timer:
    """A pending call."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        """Cancel the call."""
        self.callback = None


class VirtualClock:
    """Implements `framework.Clock`. Time passes only in `advance`, timer by timer, and each timer's effects finish.

    `epoch` is the wall clock at the start, in seconds since 1970.
    """

    def __init__(self, *, start: float = 1000.0, epoch: float = 1_767_225_600.0) -> None:
        self._now = start
        self._offset = epoch - start
        self._timers: list[tuple[float, int, _Timer]] = []
        self._ids = count()
        self._advancing = asyncio.Lock()

    def now(self) -> float:
        """Return the virtual time in seconds."""
        return self._now

    def wall(self) -> float:
        """Return the virtual wall clock."""
        return self._now + self._offset

    def call_at(self, when: float, callback: Callable[[], object]) -> _Timer:
        """Call `callback` when the clock reaches `when`."""
        timer = _Timer(callback)
        heapq.heappush(self._timers, (when, next(self._ids), timer))
        return timer

    def call_later(self, delay_seconds: float, callback: Callable[[], object]) -> _Timer:
        """Call `callback` after `delay_seconds` of virtual time."""
        return self.call_at(self._now + delay_seconds, callback)

    async def sleep(self, delay_seconds: float) -> None:
        """Wait for virtual time to pass."""
        if delay_seconds <= 0:
            await asyncio.sleep(0)
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self.call_later(delay_seconds, partial(_finish, done))
        try:
            await done
        finally:
            timer.cancel()

    async def advance(self, seconds: float, *, at_rest: Callable[[], object] | None = None) -> None:
        """Advance by `seconds`; run each timer at its time and let its effects finish.

        0 runs the timers that are due. `at_rest` is called when they have finished, before time passes. Several tasks
        may advance the clock: each waits until the others are done. Raises `ValueError` for a negative value.
        """
        if seconds < 0:
            raise ValueError(f"time cannot go back: advance({seconds})")
        # Two at once would wait for each other to rest.
        async with self._advancing:
            await self._advance(seconds, at_rest)

    async def _advance(self, seconds: float, at_rest: Callable[[], object] | None) -> None:
        end = self._now + seconds
        await settle()
        ready = getattr(asyncio.get_running_loop(), "_ready", None)
        at_this_instant = 0
        while self._timers and self._timers[0][0] <= end:
            if at_rest is not None and self._timers[0][0] > self._now:
                at_rest()
            when, _, timer = heapq.heappop(self._timers)
            at_this_instant = 0 if when > self._now else at_this_instant + 1
            if at_this_instant > _MOST_TIMERS:
                raise TimeoutError(f"time does not pass: {_MOST_TIMERS} timers fired at {self._now}, and more are due")
            self._now = max(self._now, when)
            callback, timer.callback = timer.callback, None
            if callback is None:
                continue
            callback()
            # The callback of a timer is in the loop's list now; most periodic checks find nothing to do.
            if ready is None or ready:
                await settle()
        if at_rest is not None:
            at_rest()
        self._now = end
        await settle()


def _finish(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)
