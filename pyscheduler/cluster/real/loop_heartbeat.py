"""Show other threads whether an event loop runs, and for how long it has been blocked."""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube_objects.clock import Clock, Timer

__all__ = ["Heartbeat"]

_INTERVAL_SECONDS: Final = 0.25
#: `longest_seconds` looks back for one to two of these.
_WINDOW_SECONDS: Final = 60.0
#: A loop is slow that was blocked for so long; kubelet's probes wait no longer with the manifests in `configs/deploy`.
_SLOW_SECONDS: Final = 5.0
#: How long that is remembered: one period of the probe.
_SLOW_FOR_SECONDS: Final = 10.0


class Heartbeat:
    """The heartbeat of the loop that `clock` sets its timers on; `clock.now()` has to be right from any thread.

    What blocks the loop for less than a quarter of a second may pass unseen between two stamps.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timer: Timer | None = None
        #: How many stamps there were.
        self.turns = 0
        self._due = math.inf
        self._window_ends = clock.now() + _WINDOW_SECONDS
        #: The longest time in this window, and in the last one.
        self._longest = 0.0
        self._longest_before = 0.0
        #: The last time that was too long, and when it ended.
        self._slow = 0.0
        self._slow_ended_at = -math.inf

    def start(self) -> None:
        """Begin to stamp."""
        self._due = self._clock.now() + _INTERVAL_SECONDS
        self._timer = self._clock.call_at(self._due, self._beat)

    def stop(self) -> None:
        """Stamp no more, and count as a loop that turns; idempotent."""
        self._due = math.inf
        if self._timer is not None:
            self._timer.cancel()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count what blocks the loop within the block."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def blocked_seconds(self) -> float:
        """Return for how long the loop has not turned though it should have; 0 while it turns."""
        return max(0.0, self._clock.now() - self._due)

    def longest_seconds(self) -> float:
        """Return the longest time for which the loop was blocked within the last minute or two; it may be still."""
        self._roll(self._clock.now())
        return max(self._longest, self._longest_before, self.blocked_seconds())

    def why_slow(self) -> str:
        """Return what is wrong where the loop was blocked for five seconds within the last ten; else nothing."""
        seconds = self.blocked_seconds()
        if seconds < _SLOW_SECONDS:
            if self._clock.now() - self._slow_ended_at > _SLOW_FOR_SECONDS:
                return ""
            seconds = self._slow
        return f"the event loop was blocked for {seconds:.1f} s"

    def _beat(self) -> None:
        now = self._clock.now()
        blocked = now - self._due
        self._roll(now)
        self._longest = max(self._longest, blocked)
        if blocked >= _SLOW_SECONDS:
            self._slow, self._slow_ended_at = blocked, now
        self.turns += 1
        self._due = now + _INTERVAL_SECONDS
        self._timer = self._clock.call_at(self._due, self._beat)

    def _roll(self, now: float) -> None:
        """Begin another window where one is over."""
        if now >= self._window_ends:
            self._longest_before = self._longest if now < self._window_ends + _WINDOW_SECONDS else 0.0
            self._longest = 0.0
            self._window_ends = now + _WINDOW_SECONDS
