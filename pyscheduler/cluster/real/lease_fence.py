"""A transport that sends writes only while this replica leads.

Time passes between the decision to bind and the request: a binding may wait for the rate limit or for a retry. So this
transport checks the lease right before it sends a request. The HTTP transport, which it wraps, checks again if a
request had to wait for a connection or for credentials. Bindings by extenders are checked, too. Reads always pass,
because a standby keeps its caches up to date. Events pass, because they report what this replica did while it led.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pyscheduler.cluster.real.base_transport import NOT_LEADING, ConnectingTransport
from pyscheduler.framework.errors import TransportError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from kube_objects.clock import Clock
    from pyscheduler.config.types import Extender
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.scheduler.ports import ExtenderConnection, Response, Stream, Transport

__all__ = ["FencedTransport"]

_EVENTS: Final = re.compile(r"/events(/[^/]+)?$")


class FencedTransport(ConnectingTransport):
    """Passes requests on to `inner`; while `leads()` is false, a write raises `TransportError`."""

    def __init__(self, inner: Transport, *, leads: Callable[[], bool]) -> None:
        self._inner = inner
        self._leads = leads
        if isinstance(inner, ConnectingTransport):
            inner.fence(self._may_send)

    def _may_send(self, method: str, path: str) -> bool:
        return method == "GET" or self._leads() or _EVENTS.search(path) is not None

    @property
    def server(self) -> str:
        """Return the URL of the API server, for messages."""
        return str(getattr(self._inner, "server", "the API server"))

    @property
    def host(self) -> str:
        """Return the name of the inner transport's server in metrics."""
        return self._inner.host if isinstance(self._inner, ConnectingTransport) else ""

    def measure(self, *, clock: Clock, recorder: Recorder) -> None:
        """Let the inner transport report its connections."""
        if isinstance(self._inner, ConnectingTransport):
            self._inner.measure(clock=clock, recorder=recorder)

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
        """Send a request, unless it is a write and this replica does not lead."""
        if not self._may_send(method, path):
            raise TransportError(f"{method} {path}: {NOT_LEADING}")
        return await self._inner.request(
            method, path, query=query, body=body, content_type=content_type, timeout_seconds=timeout_seconds
        )

    def stream(
        self, path: str, *, query: Mapping[str, str] | None = None, timeout_seconds: float | None = None
    ) -> AbstractAsyncContextManager[Stream]:
        """Open a watch."""
        return self._inner.stream(path, query=query, timeout_seconds=timeout_seconds)

    def extender(self, config: Extender) -> ExtenderConnection:
        """Return the connection to an extender; it binds pods only while this replica leads."""
        return _FencedExtender(self._inner.extender(config), config=config, leads=self._leads)

    async def close(self) -> None:
        """Close the inner transport."""
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
            raise TransportError(f'Post "{url}": {NOT_LEADING}')
        return await self._inner.post(url, body)

    async def close(self) -> None:
        """Close the connection."""
        await self._inner.close()
