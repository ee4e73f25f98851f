"""The health port: plain HTTP, GET only, without authentication. It is off by default.

Differs from kube-scheduler: it has no such port, and serves probes over HTTPS only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aiohttp import web

if TYPE_CHECKING:
    import socket

    from pyscheduler.serving.pages import Pages

__all__ = ["SHUTDOWN_SECONDS", "HealthServer"]

#: Time limit for requests under way when the port is closed.
SHUTDOWN_SECONDS: Final = 1.0


class HealthServer:
    """Answers probes and scrapes on a listening socket."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._runner: web.ServerRunner | None = None
        self.port = 0

    async def start(self, listening: socket.socket) -> None:
        """Serve on `listening`; the server owns the socket from now on."""
        server = web.Server(self._answer, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=SHUTDOWN_SECONDS)
        await self._runner.setup()
        await web.SockSite(self._runner, listening).start()
        self.port = listening.getsockname()[1]

    async def stop(self) -> None:
        """Close the port."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        return await self._pages.answer(request)
