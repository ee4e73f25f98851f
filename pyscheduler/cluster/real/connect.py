"""The seam between transport and client path, shared by both transports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler.cluster.real.client import RealClient

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping
    from contextlib import AbstractAsyncContextManager

    from pyscheduler.framework.clock import Clock
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.scheduler.ports import ClientSettings, Response, Stream

__all__ = ["ConnectingTransport"]


class ConnectingTransport:
    """Base of the transports: subclasses carry bytes, this puts the client path on them."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_seconds: float | None = None,
    ) -> Response:
        """Send one request; any HTTP status is an answer. Raise `TransportError` when none came."""
        raise NotImplementedError

    def stream(
        self, path: str, *, query: Mapping[str, str] | None = None, timeout_seconds: float | None = None
    ) -> AbstractAsyncContextManager[Stream]:
        """Open a watch."""
        raise NotImplementedError

    async def close(self) -> None:
        """Release connections."""
        raise NotImplementedError

    def connect(self, settings: ClientSettings, *, clock: Clock, rng: random.Random, recorder: Recorder) -> RealClient:
        """Return the client path on this transport."""
        return RealClient(self, settings, clock=clock, rng=rng, recorder=recorder)
