"""An aiohttp server on a listening socket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aiohttp import web

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Awaitable, Callable

__all__ = ["HTTPServer"]

#: Time limit for requests under way when the server is stopped.
_SHUTDOWN_SECONDS: Final = 1.0


class HTTPServer:
    """Calls `answer` for each request, from `start` until `stop`."""

    def __init__(self, answer: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> None:
        self._runner = web.ServerRunner(web.Server(answer, access_log=None), shutdown_timeout=_SHUTDOWN_SECONDS)
        self.port = 0

    async def start(self, listening: socket.socket, *, tls: ssl.SSLContext | None = None) -> None:
        """Serve on `listening`; the server owns the socket from now on."""
        await self._runner.setup()
        await web.SockSite(self._runner, listening, ssl_context=tls).start()
        self.port = listening.getsockname()[1]

    async def stop(self) -> None:
        """Close the port; idempotent."""
        await self._runner.cleanup()
