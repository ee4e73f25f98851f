"""A backoff that doubles each time, for jobs that were evicted, and for evictions or bindings that failed."""

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
    #: The longest wait that the last `put_off` allowed, in seconds.
    _put_off_seconds: float = 0.0

    def begin(self, now: float, least: float = BACKOFF_SECONDS[0]) -> None:
        """Begin, or begin again for twice as long."""
        self.seconds = max(min(self.seconds * 2, BACKOFF_SECONDS[1]), least)
        self.until = now + self.seconds
        self._put_off_seconds = 0.0

    def lengthen(self, until: float) -> None:
        """Last until `until` if that is later; not if it would be more than one backoff later."""
        if self.until < until <= self.until + self.seconds:
            self.until = until

    def put_off(self, now: float, until: float) -> None:
        """Wait until `until` after nothing was tried: the next backoff is as long as without this wait.

        A long wait has several parts, of which each is twice as long as the last: the reason for it may end early.
        """
        self._put_off_seconds = max(self._put_off_seconds * 2, self.seconds, BACKOFF_SECONDS[0])
        self.until = min(until, now + self._put_off_seconds)

    def withdraw(self, now: float) -> None:
        """End, and be as long the next time."""
        if self.until > now:
            self.seconds, self.until = self.seconds / 2, now
