"""Keep-alive connections for writes to the API server: thousands of small requests a second, each with a short answer.

The module uses asyncio directly, because a general HTTP client needs several times as long for each request.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import aiohappyeyeballs
import httptools

from pyscheduler.scheduler.ports import Response

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

__all__ = ["BrokenAnswerError", "ConnectionPool"]

#: Statuses below only announce the answer.
_FINAL_FROM: Final = 200
_CLOSED: Final = "the transport is closed"
#: After so long the server's next address is tried beside the one that does not answer (RFC 8305), in seconds.
_NEXT_ADDRESS_SECONDS: Final = 0.25


class BrokenAnswerError(Exception):
    """No answer came, or half of one, or something else; the message says which. `untouched`: not one byte came."""

    def __init__(self, message: str, *, untouched: bool = False) -> None:
        super().__init__(message)
        self.untouched = untouched


class ConnectionPool:
    """Connections to one server under one TLS context. Made in a running event loop; close it when done.

    With `tls` the server's certificate has to bear `server_hostname`. Connections that were idle for
    `keep_alive_seconds` are closed.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        tls: ssl.SSLContext | None,
        server_hostname: str,
        keep_alive_seconds: float,
        make_socket: Callable[[aiohappyeyeballs.AddrInfoType], socket.socket],
    ) -> None:
        self._address = (host, port)
        self._tls = tls
        self._server_hostname = server_hostname
        self._keep_alive_seconds = keep_alive_seconds
        self._make_socket = make_socket
        self._loop = asyncio.get_running_loop()
        #: The one used last is at the end.
        self._idle: list[_Connection] = []
        self._all: set[_Connection] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    async def exchange(
        self, request: bytes, *, seconds: float, repeatable: bool, check: Callable[[], None] | None = None
    ) -> Response:
        """Send a request, head and body, and return the answer, which has to be there in so many seconds.

        Raises `BrokenAnswerError`, `TimeoutError`, or the `OSError` for which no connection can be had. A server may
        close an idle connection in the very moment in which it is used again: a `repeatable` request is then sent
        once more. `check` is called when a connection had to be made and nothing is sent yet; it may raise.
        """
        due = self._loop.time() + seconds
        connection = self._idle_connection()
        if connection is not None:
            try:
                return await self._exchange(connection, request, due)
            except BrokenAnswerError as error:
                if not (repeatable and error.untouched):
                    raise
        async with asyncio.timeout_at(due):
            connection = await self._connect()
        if check is not None:
            try:
                check()
            except BaseException:
                connection.abort()
                raise
        return await self._exchange(connection, request, due)

    async def close(self) -> None:
        """Close all connections; idempotent. Requests under way end with `BrokenAnswerError`."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in tuple(self._all):
            connection.fail(BrokenAnswerError(_CLOSED))
        while self._all:  # noqa: ASYNC110 - a turn or two of the loop, which is when asyncio closes the sockets
            await asyncio.sleep(0)

    async def _exchange(self, connection: _Connection, request: bytes, due: float) -> Response:
        try:
            answer = await connection.exchange(request, due)
        except asyncio.CancelledError:
            # What is still to come would be taken for the answer to another request.
            connection.abort()
            raise
        if connection.reusable:
            connection.idle_since = self._loop.time()
            self._idle.append(connection)
            if self._sweeper is None:
                self._sweeper = self._loop.call_later(self._keep_alive_seconds, self._sweep)
        else:
            connection.abort()
        return answer

    def _idle_connection(self) -> _Connection | None:
        oldest = self._loop.time() - self._keep_alive_seconds
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable and connection.idle_since > oldest:
                return connection
            connection.close()
        return None

    async def _connect(self) -> _Connection:
        self._check_open()
        host, port = self._address
        connected = await aiohappyeyeballs.start_connection(
            await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM),
            happy_eyeballs_delay=_NEXT_ADDRESS_SECONDS,
            interleave=1,
            socket_factory=self._make_socket,
        )
        _, connection = await self._loop.create_connection(
            lambda: _Connection(self._loop, self._all),
            sock=connected,
            ssl=self._tls,
            server_hostname=self._server_hostname if self._tls is not None else None,
        )
        try:
            self._check_open()
        except BrokenAnswerError:
            connection.abort()
            raise
        return connection

    def _check_open(self) -> None:
        if self._closed:
            raise BrokenAnswerError(_CLOSED)

    def _sweep(self) -> None:
        """Close what was idle for too long."""
        oldest = self._loop.time() - self._keep_alive_seconds
        kept = [connection for connection in self._idle if connection.idle_since > oldest]
        for connection in self._idle[: len(self._idle) - len(kept)]:
            connection.close()
        self._idle = kept
        self._sweeper = self._loop.call_at(kept[0].idle_since + self._keep_alive_seconds, self._sweep) if kept else None


class _Connection(asyncio.Protocol):
    """One connection, among `open_ones` while it is open; `on_...` are called by the parser."""

    def __init__(self, loop: asyncio.AbstractEventLoop, open_ones: set[_Connection]) -> None:
        self._loop = loop
        self._open_ones = open_ones
        self._transport: asyncio.Transport | None = None
        self._parser: Any = httptools.HttpResponseParser(self)
        #: What the request under way waits for.
        self._answer: asyncio.Future[Response] | None = None
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        #: Whether anything of the answer has come, and all of its head.
        self._begun = False
        self._has_head = False
        self._spoilt = False
        self.idle_since = 0.0

    @property
    def reusable(self) -> bool:
        return self._transport is not None and not self._spoilt and not self._transport.is_closing()

    async def exchange(self, request: bytes, due: float) -> Response:
        """Send a request and return the answer; at `due` by the loop's clock it is too late."""
        if self._transport is None:
            raise BrokenAnswerError("the connection was closed without an answer", untouched=True)
        self._answer = self._loop.create_future()
        self._begun = self._has_head = False
        self._due = due
        # A timer for each request would cost as much as reading its answer; this one looks again when it rings.
        if self._timer is None or self._timer.when() > due:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(due, self._ring)
        self._transport.write(request)
        return await self._answer

    def close(self) -> None:
        """Close an idle connection properly."""
        self._spoilt = True
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        self._spoilt = True
        if self._transport is not None:
            self._transport.abort()

    def fail(self, error: Exception) -> None:
        """Close it at once; the request under way, if any, ends with that error."""
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(error)
        self.abort()

    def _has_length(self) -> bool:
        """Return True if the answer says where its body ends, if not with the connection."""
        return any(name.lower() in {b"content-length", b"transfer-encoding"} for name, _ in self._headers)

    def _ring(self) -> None:
        self._timer = None
        if self._answer is None:
            return
        if self._loop.time() < self._due:
            self._timer = self._loop.call_at(self._due, self._ring)
        else:
            self.fail(TimeoutError())

    # asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._open_ones.add(self)

    def data_received(self, data: bytes) -> None:
        if self._answer is None:
            # Nobody asked: a server that is about to close says so, as a rule.
            self.abort()
            return
        self._begun = True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.fail(BrokenAnswerError(f"the answer is not HTTP: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Complete or fail the request that waits for an answer."""
        self._transport = None
        self._open_ones.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._answer is not None:
            if self._has_head and exc is None and not self._has_length():
                self.on_message_complete()
            elif self._has_head:
                self.fail(BrokenAnswerError("the answer ended in the middle"))
            else:
                message = "the connection was closed without an answer"
                self.fail(BrokenAnswerError(message, untouched=not self._begun))
        self._parser = None  # it refers to this

    # The parser

    def on_message_begin(self) -> None:
        self._headers, self._body = [], []
        if self._answer is None:
            self._spoilt = True

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._has_head = True

    def on_body(self, data: bytes) -> None:
        self._body.append(data)

    def on_message_complete(self) -> None:
        """Hand the answer over, unless it only says that there will be one."""
        status = self._parser.get_status_code()
        if status < _FINAL_FROM:
            self._has_head = False
            return
        if not self._parser.should_keep_alive():
            self._spoilt = True
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_result(Response(status=status, body=b"".join(self._body), headers=_Headers(self._headers)))


class _Headers(Mapping[str, str]):
    """Headers, names in lower case; they are decoded when somebody looks, which of good answers nobody does."""

    __slots__ = ("_decoded", "_raw")

    def __init__(self, raw: list[tuple[bytes, bytes]]) -> None:
        self._raw = raw
        self._decoded: dict[str, str] | None = None

    def _all(self) -> dict[str, str]:
        if self._decoded is None:
            self._decoded = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in self._raw}
        return self._decoded

    def __getitem__(self, name: str) -> str:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())
