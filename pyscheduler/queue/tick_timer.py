"""Timers that go off on a grid of moments, and only when there is something to go off for.

kube-scheduler looks at its backoff queue once a second and at its unschedulable pods every thirty seconds, whether they
hold anything or not. What can be observed of that is the grid: a pod leaves at the first tick after it is due, together
with all others that are due by then. A `TickTimer` sets one timer for that tick and sleeps until then; an empty queue
costs nothing, and a virtual clock has nothing to step through.
"""

from __future__ import annotations

from math import floor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyscheduler.framework.clock import Clock, Timer

__all__ = ["TickTimer"]


class TickTimer:
    """Calls back at the first tick strictly after a moment; ticks lie `period_seconds` apart.

    The callback is given the time of the tick, which the clock may not quite have reached (an event loop's timers may
    go off within the clock's resolution). It may arm the timer again.
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
        """Begin; ticks are at `origin` plus whole periods. Before this, `arm` does nothing."""
        self._callback = callback
        self._origin = origin

    def arm(self, moment: float) -> None:
        """Go off at the first tick after `moment`, and after now; an earlier tick that is already set stays."""
        callback = self._callback
        if callback is None:
            return
        after = max(moment, self._clock.now(), self._last)
        tick = self._origin + self._period * (floor((after - self._origin) / self._period) + 1)
        while tick <= after:  # rounding may have given the tick that has just been
            tick += self._period
        if self._timer is not None:
            if self._when <= tick:
                return
            self._timer.cancel()
        self._when = tick
        self._timer = self._clock.call_at(tick, lambda: self._go_off(callback))

    def stop(self) -> None:
        """End; the timer does not go off any more."""
        self._callback = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _go_off(self, callback: Callable[[float], object]) -> None:
        self._timer = None
        self._last = self._when
        callback(max(self._when, self._clock.now()))
