"""The HTTP transport: aiohttp sessions against an API server, credentials refreshed before each request.

Keep-alive connections are limited to what the scheduler can use at once; watches have connections of their own.
Watch bodies are read in whatever chunks arrive: a line of one event may be longer than any line limit.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import aiohttp

from pyscheduler.cluster.real.connect import ConnectingTransport
from pyscheduler.framework.errors import TransportError
from pyscheduler.scheduler.ports import Response

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Mapping

    from pyscheduler.cluster.real.auth import Credentials

__all__ = ["HTTPTransport"]

#: Requests in flight; an API server's fair queuing gives one user little more.
_CONNECTIONS: Final = 64
_TIMEOUT_SECONDS: Final = 30.0
_USER_AGENT: Final = "pyscheduler"


class _HTTPStream:
    """An open watch response."""

    __slots__ = ("_response", "headers", "status")

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers = _lower(response.headers)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise TransportError(f"watch was cut off: {error or type(error).__name__}") from error


class HTTPTransport(ConnectingTransport):
    """Carries requests to one API server. Made inside a running event loop; close it when done."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._base = credentials.server.rstrip("/")
        self._sessions: dict[str, aiohttp.ClientSession] = {}

    @property
    def server(self) -> str:
        """Return the URL of the API server, for messages."""
        return self._base

    def _session(self, use: str) -> aiohttp.ClientSession:
        """Return the session for `requests` or `watches`, made when first needed."""
        session = self._sessions.get(use)
        if session is None:
            limit = _CONNECTIONS if use == "requests" else 0
            context: ssl.SSLContext | bool = True
            if self._base.startswith("https"):
                context = self._credentials.ssl_context
            session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=limit, ssl=context, keepalive_timeout=60.0),
                headers={"User-Agent": _USER_AGENT, "Accept": "application/json"},
                auto_decompress=True,
                trust_env=False,
            )
            self._sessions[use] = session
        return session

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
        """Send one request and read the whole answer."""
        headers = await self._credentials.headers()
        if body is not None:
            headers["Content-Type"] = content_type
        try:
            async with self._session("requests").request(
                method,
                self._base + path,
                params=query,
                data=body,
                headers=headers,
                proxy=self._credentials.proxy,
                timeout=aiohttp.ClientTimeout(total=timeout_seconds or _TIMEOUT_SECONDS),
                allow_redirects=False,
            ) as response:
                return Response(status=response.status, body=await response.read(), headers=_lower(response.headers))
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise TransportError(f"{method} {self._base}{path}: {_why(error)}") from error

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] | None = None, timeout_seconds: float | None = None
    ) -> AsyncIterator[_HTTPStream]:
        """Open a watch."""
        headers = await self._credentials.headers()
        try:
            response = await self._session("watches").get(
                self._base + path,
                params=query,
                headers=headers,
                proxy=self._credentials.proxy,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_TIMEOUT_SECONDS, sock_read=timeout_seconds),
                allow_redirects=False,
            )
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise TransportError(f"GET {self._base}{path}: {_why(error)}") from error
        try:
            yield _HTTPStream(response)
        finally:
            response.close()

    async def close(self) -> None:
        """Close all connections."""
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()
        await self._credentials.close()


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _why(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(error) or type(error).__name__
