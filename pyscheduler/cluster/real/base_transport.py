"""Base class of transports to an API server.

After `fence()`, non-leading schedulers can write only Events.

Source: client-go, `rest/request.go` (metrics).
"""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from pyscheduler.cluster.real.client import NO_ANSWER, RealClient
from pyscheduler.framework.errors import TransportError
from pyscheduler.scheduler.ports import Transport

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from kube_objects.clock import Clock
    from pyscheduler.config.types import Extender
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.scheduler.ports import ClientSettings, ExtenderConnection, Response, Stream

__all__ = ["ConnectingTransport"]

_NOT_LEADING: Final = "not sent, because this replica does not lead"
_EVENTS: Final = re.compile(r"/events(/[^/]+)?$")
_REQUESTS: Final = "rest_client_requests_total"


class ConnectingTransport(Transport):
    """Base of the transports: subclasses carry bytes."""

    #: Whether this replica leads; None without leader election.
    _leads: Callable[[], bool] | None = None

    @property
    def host(self) -> str:
        """Return what the server is called in metrics, `host:port` where there is a network."""
        return ""

    def measure(self, *, clock: Clock, recorder: Recorder) -> None:
        """Begin to tell `recorder` about connections; nothing where there are none."""

    def fence(self, leads: Callable[[], bool]) -> None:
        """From now on, refuse writes while `leads()` is false. Call it before `connect` and `extender`."""
        self._leads = leads

    def check_fence(self, method: str, path: str, base: str = "") -> None:
        """Raise `TransportError` for a write while this replica does not lead."""
        if self._leads is None or method == "GET" or self._leads() or _EVENTS.search(path) is not None:
            return
        raise TransportError(f"{method} {base}{path}: {_NOT_LEADING}")

    def connect(self, settings: ClientSettings, *, clock: Clock, rng: random.Random, recorder: Recorder) -> RealClient:
        """Return the client path on this transport; every request is measured."""
        self.measure(clock=clock, recorder=recorder)
        metered = _MeteredTransport(self, clock=clock, recorder=recorder)
        return RealClient(metered, settings, clock=clock, rng=rng, recorder=recorder, host=self.host)

    def extender(self, config: Extender) -> ExtenderConnection:
        """Return the way to an extender, which is HTTP whatever leads to the API server."""
        from pyscheduler.cluster.real.extender import HTTPExtenderConnection  # noqa: PLC0415 - few need to load it

        connection = HTTPExtenderConnection(config)
        return connection if self._leads is None else _FencedExtender(connection, config=config, leads=self._leads)


class _MeteredTransport(ConnectingTransport):
    """Carries what `inner` carries, and tells `recorder`."""

    def __init__(self, inner: ConnectingTransport, *, clock: Clock, recorder: Recorder) -> None:
        self._inner = inner
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
        """Send a request that the fence lets through; note its time, whatever came of it."""
        began = self._clock.now()
        code = NO_ANSWER
        received: int | None = None
        try:
            self._inner.check_fence(method, path)
            response = await self._inner.request(
                method, path, query=query, body=body, content_type=content_type, timeout_seconds=timeout_seconds
            )
            code, received = str(response.status), len(response.body)
            return response
        finally:
            recorder, labels = self._recorder, (method, self._inner.host)
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
        self._recorder.count(_REQUESTS, code, "GET", self._inner.host)

    async def close(self) -> None:
        await self._inner.close()


class _FencedExtender:
    """Passes calls on to `inner`, but bindings only while `leads()` is true."""

    def __init__(self, inner: ExtenderConnection, *, config: Extender, leads: Callable[[], bool]) -> None:
        self._inner = inner
        self._bind_verb = config.bind_verb
        self._leads = leads

    async def post(self, url: str, body: Sequence[bytes]) -> Response:
        """Call the extender, unless the call is a binding and this replica does not lead."""
        if self._bind_verb and url.endswith(f"/{self._bind_verb}") and not self._leads():
            raise TransportError(f'Post "{url}": {_NOT_LEADING}')
        return await self._inner.post(url, body)

    async def close(self) -> None:
        await self._inner.close()
