"""An aiohttp server on a listening socket, with limits on its connections."""

from __future__ import annotations

import asyncio
import errno
import logging
from typing import TYPE_CHECKING, Final

from aiohttp import web

from pyscheduler.serving.connections import ConnectionLimits, Connections

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Awaitable, Callable, Coroutine

__all__ = ["HTTPServer"]

_log = logging.getLogger(__name__)

#: Errors if the process or the system has no place for another connection, and the pause then.
_NO_RESOURCES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_PAUSE_SECONDS: Final = 1.0
#: Time limit for requests under way when the server is stopped.
_SHUTDOWN_SECONDS: Final = 1.0


class HTTPServer:
    """Calls `answer` for each request, from `start` until `stop`."""

    def __init__(
        self,
        answer: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        limits: ConnectionLimits = ConnectionLimits(),  # noqa: B008 - frozen
    ) -> None:
        self._answer = answer
        self._limits = limits
        self._server = web.Server(self._heard, access_log=None, keepalive_timeout=limits.idle_seconds)
        self._runner = web.ServerRunner(self._server, shutdown_timeout=_SHUTDOWN_SECONDS)
        self._connections = Connections(limits)
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    async def start(self, listening: socket.socket, *, tls: ssl.SSLContext | None = None) -> None:
        """Serve on `listening`; the server owns the socket from now on."""
        await self._runner.setup()
        listening.setblocking(False)
        self.port = listening.getsockname()[1]
        self._start(self._accept(listening, tls))

    async def stop(self) -> None:
        """Close the port; idempotent."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._runner.cleanup()

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work, name="connections")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listening: socket.socket, tls: ssl.SSLContext | None) -> None:
        """Accept connections until the task is cancelled, then close the listening socket."""
        loop = asyncio.get_running_loop()
        with listening:
            while True:
                try:
                    connection = self._connections.admit(*await loop.sock_accept(listening))
                except OSError as error:
                    if error.errno in _NO_RESOURCES:
                        _log.warning("Cannot accept connections err=%s", error.strerror)
                        await asyncio.sleep(_PAUSE_SECONDS)
                    continue
                if connection is not None:
                    self._start(self._serve(connection, tls))
                await asyncio.sleep(0)  # accepting waits only if nobody connects

    async def _serve(self, connection: socket.socket, tls: ssl.SSLContext | None) -> None:
        """Shake hands, and hand the connection over to the web server, which closes it."""
        seconds = self._limits.handshake_seconds if tls is not None else None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._server, connection, ssl=tls, ssl_handshake_timeout=seconds
            )
        except OSError as error:
            # asyncio's frame has the error in a variable, and with it the buffers of TLS. Without this, they stay in
            # memory until the garbage collector finds the cycle, which it does rarely.
            error.__traceback__ = None
            connection.close()

    async def _heard(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.transport is not None:
            self._connections.heard(request.transport.get_extra_info("peername"))
        return await self._answer(request)
