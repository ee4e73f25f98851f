"""Compute how much each queue used in the past; recent use has more weight.

A queue's use is the sum of its allocated resources over a time window, divided by the sum of the cluster's capacity. In
both sums, an amount has the weight 0.5^(age / half-life).

Source: KAI-Scheduler, `docs/time-based-fairshare` and `usagedb/prometheus` (the formula).
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler_batch.usage.settings import UsageSettings

__all__ = ["PARTS", "Part", "UsageLedger"]

PARTS: Final = 32
"""The number of parts of a window."""
#: Use older than so many half-lives counts less than a millionth.
_HALF_LIVES: Final = 20


#: How far the clocks of two replicas may differ.
_CLOCK_SECONDS: Final = 300.0


@attrs.define(eq=False)
class Part:
    """A part of the window; sums are in amount seconds, valued at `end`."""

    begin: float
    end: float
    #: float64[R]: of the capacity.
    capacity: NDArray[np.float64]
    #: float64[Q, R]: of queues.
    queues: NDArray[np.float64]


class UsageLedger:
    """The counts of one profile. Times are seconds since 1970; amounts have `width` columns."""

    def __init__(self, settings: UsageSettings, width: int) -> None:
        self._width = width
        self._half_life = settings.half_life or math.inf
        self._window = min(settings.window, _HALF_LIVES * self._half_life)
        self._turn = settings.window if settings.window_type == "tumbling" else math.inf
        self._start = settings.window_start
        self._part_seconds = self._window / PARTS
        self.parts: deque[Part] = deque()
        #: Rows of the queues in each part.
        self.rows: dict[str, int] = {}
        #: float64[R], and float64[Q, R]: what holds since `_at`.
        self._capacity = np.zeros(width)
        self._held = np.zeros((0, width))
        self._at: float | None = None

    def note(self, now: float, capacity: NDArray[np.float64], held: Mapping[str, Sequence[float]]) -> None:
        """From now on the cluster has this capacity, and the queues hold this much: by name, R amounts."""
        self.advance(now)
        for name in held:
            self.rows.setdefault(name, len(self.rows))
        self._capacity = np.array(capacity, dtype=np.float64)
        self._held = np.zeros((len(self.rows), self._width))
        for name, amounts in held.items():
            self._held[self.rows[name]] = amounts

    def may_have(self, begin: float, end: float, now: float) -> bool:
        """Return True if a part of the window may have these times. The clock that was read may have been ahead."""
        ahead = self._part_seconds + _CLOCK_SECONDS
        return 0 <= begin < end < math.inf and end - begin <= self._window and end <= now + ahead

    def pause(self, now: float) -> None:
        """Count until now, and nothing more until the next `note`."""
        self.advance(now)
        self._at = None

    def advance(self, now: float) -> None:
        """Count what holds since the last call."""
        at, self._at = self._at, now
        if at is not None:
            at = max(at, now - self._window)
            while at < now:
                part = self._part(at)
                until = min(now, part.end)
                self._add(part, until - at, part.end - until)
                at = until
        self._drop(now)

    def _part(self, at: float) -> Part:
        """Return the part that holds a moment; the newest one, or one that follows it."""
        if self.parts and at < self.parts[-1].end:
            return self.parts[-1]
        end = min(at + self._part_seconds, self._turn_after(at))
        self.parts.append(Part(at, end, np.zeros(self._width), np.zeros((len(self.rows), self._width))))
        return self.parts[-1]

    def _add(self, part: Part, seconds: float, before_end: float) -> None:
        """Add what holds for some seconds, which are over so long before the end of the part."""
        weight = seconds
        if math.isfinite(self._half_life):
            rate = math.log(2.0) / self._half_life
            weight = -math.expm1(-rate * seconds) / rate * math.exp(-rate * before_end)
        part.capacity += self._capacity * weight
        part.queues = self._grown(part.queues)
        part.queues += self._held * weight

    def _grown(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        missing = len(self.rows) - len(sums)
        return np.concatenate([sums, np.zeros((missing, self._width))]) if missing else sums

    def _turn_after(self, at: float) -> float:
        """Return when the window of a moment ends, if it is one of those that begin anew."""
        if math.isinf(self._turn) or at < self._start:
            return math.inf
        return self._start + (math.floor((at - self._start) / self._turn) + 1) * self._turn

    def _drop(self, now: float) -> None:
        """Forget parts that have left the window, and then queues of which nothing is left."""
        begin = now - self._window
        if math.isfinite(self._turn):
            begin = max(begin, self._turn_after(now) - self._turn)
        before = len(self.parts)
        while self.parts and self.parts[0].end <= begin:
            self.parts.popleft()
        if len(self.parts) == before:
            return
        used = np.any(self._held != 0, axis=1)
        for part in self.parts:
            part.queues = self._grown(part.queues)
            used = used | np.any(part.queues != 0, axis=1)
        if not used.all():
            names = [name for name, row in self.rows.items() if used[row]]
            kept = [self.rows[name] for name in names]
            self.rows = {name: row for row, name in enumerate(names)}
            self._held = self._held[kept]
            for part in self.parts:
                part.queues = part.queues[kept]

    def usage(self, now: float) -> dict[str, NDArray[np.float64]]:
        """Return by queue float64[R]: its use divided by the capacity of the same time; 0 where there was none."""
        if self._at is not None:
            self.advance(now)
        total, capacity = np.zeros((len(self.rows), self._width)), np.zeros(self._width)
        for part in self.parts:
            weight = 0.5 ** ((now - part.end) / self._half_life)
            total += self._grown(part.queues) * weight
            capacity += part.capacity * weight
        parts = np.divide(total, capacity, out=np.zeros_like(total), where=capacity > 0)
        return {name: parts[row] for name, row in self.rows.items()}
