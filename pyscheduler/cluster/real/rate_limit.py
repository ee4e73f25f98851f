"""Limit the requests per second of a client with a token bucket, as in client-go's flow control."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kube_objects.clock import Clock

__all__ = ["TokenBucket"]


class TokenBucket:
    """At most `burst` requests at once and `qps` a second in the long run; `qps` of 0 or less is unlimited."""

    __slots__ = ("_burst", "_clock", "_qps", "_tokens", "_updated", "unlimited")

    def __init__(self, *, qps: float, burst: int, clock: Clock) -> None:
        self._qps = qps
        self._burst = max(burst, 1)
        self._clock = clock
        self._tokens = float(self._burst)
        self._updated = clock.now()
        #: True if this bucket never delays a request.
        self.unlimited = qps <= 0

    async def acquire(self) -> float:
        """Wait for a turn; return for how long, in seconds."""
        if self.unlimited:
            return 0.0
        delay = self._reserve()
        if delay > 0:
            await self._clock.sleep(delay)
        return delay

    def _reserve(self) -> float:
        """Take a token; return the seconds until it is available."""
        now = self._clock.now()
        self._tokens = min(self._burst, self._tokens + (now - self._updated) * self._qps)
        self._updated = now
        self._tokens -= 1
        return 0.0 if self._tokens >= 0 else -self._tokens / self._qps
