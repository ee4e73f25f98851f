"""A timer that fires at the first tick after a given time; ticks are, for example, one second apart.

kube-scheduler checks its queue at every tick. This timer is set only while a pod waits, for example in backoff.
"""

from __future__ import annotations

from math import floor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kube_objects.clock import Clock, Timer

__all__ = ["TickTimer"]


class TickTimer:
    """Calls back at the first tick strictly after a moment; ticks are `period_seconds` apart.

    The callback gets the time of the tick. The clock may be a little earlier, because an event loop's timers can fire
    within the clock's resolution. The callback may arm the timer again.
    """

    __slots__ = ("_callback", "_clock", "_last", "_origin", "_period", "_timer", "_when")

    def __init__(self, clock: Clock, period_seconds: float) -> None:
        self._clock = clock
        self._period = period_seconds
        self._callback: Callable[[float], object] | None = None
        self._origin = 0.0
        self._last = float("-inf")
        self._timer: Timer | None = None
        self._when = 0.0

    def start(self, callback: Callable[[float], object], *, origin: float) -> None:
        """Start; ticks are at `origin` plus whole periods. Before this, `arm` does nothing."""
        self._callback = callback
        self._origin = origin

    def arm(self, moment: float) -> None:
        """Fire at the first tick after `moment` and after now, or earlier if an earlier tick is set already."""
        callback = self._callback
        if callback is None:
            return
        after = max(moment, self._clock.now(), self._last)
        tick = self._origin + self._period * (floor((after - self._origin) / self._period) + 1)
        while tick <= after:  # because of rounding, this can be the last tick
            tick += self._period
        if self._timer is not None:
            if self._when <= tick:
                return
            self._timer.cancel()
        self._when = tick
        self._timer = self._clock.call_at(tick, lambda: self._go_off(callback))

    def stop(self) -> None:
        """Stop; the timer does not fire any more."""
        self._callback = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _go_off(self, callback: Callable[[float], object]) -> None:
        self._timer = None
        self._last = self._when
        callback(max(self._when, self._clock.now()))
