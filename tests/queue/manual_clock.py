"""A clock that a plain function advances, for tests of rooms that never wait: queue and cache."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable


class ManualTimer:
    """A call that a `ManualClock` will make."""

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        """Do not make the call."""
        self.callback = None


class ManualClock:
    """Time stands still until `advance`, which makes the calls that fall due, in order."""

    def __init__(self, start: float = 1000.0) -> None:
        self.time = start
        self.calls_made = 0
        self._timers: list[tuple[float, int, ManualTimer]] = []
        self._serial = itertools.count()

    def now(self) -> float:
        """Return seconds."""
        return self.time

    def wall(self) -> float:
        """Return seconds since the epoch, of which this clock knows nothing else."""
        return self.time

    def call_at(self, when: float, callback: Callable[[], object]) -> ManualTimer:
        """Call `callback` when the time has come."""
        timer = ManualTimer(callback)
        heapq.heappush(self._timers, (when, next(self._serial), timer))
        return timer

    def call_later(self, delay_seconds: float, callback: Callable[[], object]) -> ManualTimer:
        """Call `callback` after a while."""
        return self.call_at(self.time + delay_seconds, callback)

    async def sleep(self, delay_seconds: float) -> None:
        """Fail: no test with this clock waits."""
        message = f"slept {delay_seconds} s in a room that must not wait"
        raise AssertionError(message)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        end = self.time + seconds
        while self._timers and self._timers[0][0] <= end:
            when, _, timer = heapq.heappop(self._timers)
            self.time = max(self.time, when)
            if timer.callback is not None:
                self.calls_made += 1
                timer.callback()
        self.time = end

    @property
    def pending(self) -> list[float]:
        """Return when calls will be made."""
        return sorted(when for when, _, timer in self._timers if timer.callback is not None)
