"""The backoff of evictions: of jobs and pods that rest, and of jobs that evict nobody."""

from __future__ import annotations

from typing import Final

import attrs

__all__ = ["BACKOFF_SECONDS", "Backoff"]

#: The first backoff, and the longest.
BACKOFF_SECONDS: Final = (10.0, 600.0)


@attrs.define(eq=False)
class Backoff:
    """A backoff that doubles; `until` in clock seconds."""

    seconds: float = 0.0
    until: float = 0.0

    def begin(self, now: float, least: float = BACKOFF_SECONDS[0]) -> None:
        """Begin, or begin again for twice as long."""
        self.seconds = max(min(self.seconds * 2, BACKOFF_SECONDS[1]), least)
        self.until = now + self.seconds

    def withdraw(self, now: float) -> None:
        """End, and be as long the next time."""
        if self.until > now:
            self.seconds, self.until = self.seconds / 2, now
