"""Serve the API over HTTP, with aiohttp's low-level server and one handler for all paths.

aiohttp's own routing and middlewares are not used, because a scheduler can send thousands of requests per second.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from aiohttp import web
from aiohttp.web_request import BaseRequest

from kube_objects.errors import ConfigError
from kube_testserver import errors
from kube_testserver.requests import Impersonation, Request
from kube_testserver.serving.router import Router, UnansweredError, refusal
from kube_testserver.serving.watching import BrokenStreamError, WatchStream

if TYPE_CHECKING:
    import asyncio
    import ssl
    from collections.abc import Mapping

    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.http_parser import RawRequestMessage
    from aiohttp.streams import StreamReader
    from aiohttp.web_protocol import RequestHandler

    from kube_objects.http import Response

__all__ = ["ApiServer"]

_MAX_BODY_BYTES: Final = 3 * 1024 * 1024  # the real server's limit for one request
_SHUTDOWN_SECONDS: Final = 2.0
_EXTRA_HEADER: Final = "impersonate-extra-"


class ApiServer:
    """Serves a router on one address; `port` 0 takes a free one, `address` then tells which. With `tls`, over HTTPS."""

    def __init__(
        self, router: Router, *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
    ) -> None:
        self._router = router
        self._host = host
        self._port = port
        self._tls = tls
        self._runner: web.ServerRunner | None = None
        self._open: set[WatchStream] = set()
        #: Where the server listens, after `start`.
        self.address: tuple[str, int] = (host, port)

    @property
    def url(self) -> str:
        """Return the base URL of the running server."""
        host, port = self.address
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    async def start(self) -> None:
        """Listen; `ConfigError` when the address cannot be had."""
        # Handlers are cancelled when their client disconnects; an idle watch would otherwise stay open.
        server = web.Server(self._handle, request_factory=_make_request, handler_cancellation=True, access_log=None)
        runner = web.ServerRunner(server, shutdown_timeout=_SHUTDOWN_SECONDS)
        await runner.setup()
        try:
            site = web.TCPSite(runner, self._host, self._port, backlog=512, ssl_context=self._tls)
            await site.start()
        except OSError as error:
            await runner.cleanup()
            why = os.strerror(error.errno) if error.errno else str(error)
            raise ConfigError(f"cannot listen on {self._host}:{self._port}: {why}; choose another address") from error
        self._runner = runner
        host, port = runner.addresses[0][:2]
        self.address = (host, port)

    async def stop(self) -> None:
        """End watches, let running requests finish for up to two seconds, and close the port; idempotent."""
        runner, self._runner = self._runner, None
        for stream in tuple(self._open):
            stream.end()
        if runner is not None:
            await runner.cleanup()

    async def _handle(self, http: BaseRequest) -> web.StreamResponse:
        headers = http.headers
        try:
            body = await http.read() if http.can_read_body else b""
        except web.HTTPRequestEntityTooLarge:
            return _response(refusal(errors.too_large(_MAX_BODY_BYTES)))
        request = Request(
            http.method,
            http.path,
            http.query,
            body,
            headers.get("Content-Type", "application/json"),
            headers.get("Accept", ""),
            headers.get("Host", ""),
            headers.get("Authorization", ""),
            _impersonation(headers) if "Impersonate-User" in headers or "Impersonate-Group" in headers else None,
        )
        try:
            answer = await self._router.handle(request)
        except UnansweredError:
            return _cut(http)
        if isinstance(answer, WatchStream):
            return await self._stream(http, answer)
        return _response(answer)

    async def _stream(self, http: BaseRequest, stream: WatchStream) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        self._open.add(stream)
        try:
            await response.prepare(http)
            async for chunk in stream:
                await response.write(chunk)
            await response.write_eof()
        except BrokenStreamError:
            return _cut(http, response)
        except ConnectionError:
            pass  # the client has disconnected
        finally:
            self._open.discard(stream)
            stream.close()
        return response


def _impersonation(headers: Mapping[str, str]) -> Impersonation:
    """Return the user that a request's headers ask to impersonate."""
    given = [(name.lower(), value) for name, value in headers.items()]
    extra = tuple(
        (unquote(name.removeprefix(_EXTRA_HEADER)), value) for name, value in given if name.startswith(_EXTRA_HEADER)
    )
    groups = tuple(value for name, value in given if name == "impersonate-group")
    return Impersonation(
        headers.get("Impersonate-User", ""), tuple(groups), headers.get("Impersonate-Uid", ""), tuple(extra)
    )


def _response(answer: Response) -> web.Response:
    return web.Response(body=answer.body, status=answer.status, headers=answer.headers)


def _make_request(
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: RequestHandler,
    writer: AbstractStreamWriter,
    task: asyncio.Task[None],
) -> BaseRequest:
    loop = task.get_loop()
    return BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=_MAX_BODY_BYTES)


def _cut(http: BaseRequest, response: web.StreamResponse | None = None) -> web.StreamResponse:
    """Break the connection without an answer; what is returned cannot be sent any more."""
    if http.transport is not None:
        http.transport.abort()
    return response if response is not None else web.Response()
