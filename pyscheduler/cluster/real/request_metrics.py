"""A transport that records the number, duration and size of its requests, as client-go's metrics do.

Watches are counted when they begin; they have neither duration nor size. Requests for the lease are not counted: they
use a transport of their own, in another thread. Source: client-go, `rest/request.go`.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from pyscheduler.framework.errors import TransportError

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator, Mapping

    from kube_objects.clock import Clock
    from pyscheduler.config.types import Extender
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.scheduler.ports import (
        ClientSettings,
        ClusterClient,
        ExtenderConnection,
        Response,
        Stream,
        Transport,
    )

__all__ = ["NO_ANSWER", "MeteredTransport"]

#: The `code` of a request that got no answer.
NO_ANSWER: Final = "<error>"
_REQUESTS: Final = "rest_client_requests_total"


class MeteredTransport:
    """Carries what `inner` carries, and tells `recorder`; `host` is what the server is called there."""

    def __init__(self, inner: Transport, *, host: str, clock: Clock, recorder: Recorder) -> None:
        self._inner = inner
        self._host = host
        self._clock = clock
        self._recorder = recorder

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
        """Send a request; note its time, whatever came of it."""
        began = self._clock.now()
        code = NO_ANSWER
        received: int | None = None
        try:
            response = await self._inner.request(
                method, path, query=query, body=body, content_type=content_type, timeout_seconds=timeout_seconds
            )
            code, received = str(response.status), len(response.body)
            return response
        finally:
            recorder, labels = self._recorder, (method, self._host)
            recorder.count(_REQUESTS, code, *labels)
            recorder.observe("rest_client_request_duration_seconds", self._clock.now() - began, *labels)
            recorder.observe("rest_client_request_size_bytes", len(body) if body is not None else 0, *labels)
            if received is not None:
                recorder.observe("rest_client_response_size_bytes", received, *labels)

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] | None = None, timeout_seconds: float | None = None
    ) -> AsyncIterator[Stream]:
        """Open a watch and count it."""
        code = NO_ANSWER
        try:
            async with self._inner.stream(path, query=query, timeout_seconds=timeout_seconds) as stream:
                code = str(stream.status)
                self._count(code)
                yield stream
        except TransportError:
            if code == NO_ANSWER:
                self._count(code)
            raise

    def _count(self, code: str) -> None:
        self._recorder.count(_REQUESTS, code, "GET", self._host)

    def connect(
        self, settings: ClientSettings, *, clock: Clock, rng: random.Random, recorder: Recorder
    ) -> ClusterClient:
        """Return the client path on the inner transport, which meters by itself."""
        return self._inner.connect(settings, clock=clock, rng=rng, recorder=recorder)

    def extender(self, config: Extender) -> ExtenderConnection:
        """Return the way to an extender, which is not measured."""
        return self._inner.extender(config)

    async def close(self) -> None:
        """Close the inner transport."""
        await self._inner.close()
