"""A TCP proxy between a scheduler and its API server, to be cut, stalled and meddled with; and a clock in a hurry."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import attrs

from kube_objects.clock import LoopClock, Timer

__all__ = ["Cable", "HurriedClock"]

#: What is done to each line of a watch: what comes back is passed on instead.
Meddle = Callable[[bytes], Iterable[bytes]]


class HurriedClock(LoopClock):
    """A clock that runs so many times faster than the loop's: three silent minutes are over in two seconds.

    For clients that talk through real sockets, where virtual time would not wait for the other side.
    """

    __slots__ = ("_speed",)

    def __init__(self, speed: float) -> None:
        super().__init__()
        self._speed = speed

    def now(self) -> float:
        """Return hurried seconds."""
        return super().now() * self._speed

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """Call back when it is `when` on this clock."""
        return super().call_at(when / self._speed, callback)

    def call_later(self, delay_seconds: float, callback: Callable[[], object]) -> Timer:
        """Call back after so many hurried seconds."""
        return super().call_later(delay_seconds / self._speed, callback)

    async def sleep(self, delay_seconds: float) -> None:
        """Wait for so many hurried seconds."""
        await super().sleep(delay_seconds / self._speed)


class _Frames:
    """The answers on a connection for watches, taken apart into chunks so that `meddle` gets whole lines."""

    def __init__(self, cable: Cable) -> None:
        self._cable = cable
        self._buffer = b""
        self._in_body = False

    def feed(self, data: bytes) -> bytes:
        """Take bytes from the server; return what is passed on."""
        self._buffer += data
        passed = b""
        while (found := self._next()) is not None:
            passed += found
        return passed

    def _next(self) -> bytes | None:
        if not self._in_body:
            head, end, rest = self._buffer.partition(b"\r\n\r\n")
            if not end:
                return None
            if b"chunked" not in head:  # a refusal: it has a length, and no lines to meddle with
                everything, self._buffer = self._buffer, b""
                return everything
            self._buffer, self._in_body = rest, True
            return head + end
        size_text, end, rest = self._buffer.partition(b"\r\n")
        if not end or len(rest) < int(size_text, 16) + 2:
            return None
        size = int(size_text, 16)
        body, self._buffer = rest[:size], rest[size + 2 :]
        if not size:
            self._in_body = False
            return b"0\r\n\r\n"
        meddle = self._cable.meddle
        lines = body.splitlines(keepends=True)
        passed = b"".join(part for line in lines for part in meddle(line)) if meddle is not None else body
        return b"%x\r\n%b\r\n" % (len(passed), passed) if passed else b""


@attrs.define(eq=False)
class _Pair:
    """One connection, and its other half to the server."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    is_watch: bool = False
    is_stalled: bool = False


class Cable:
    """Listens on a port and carries bytes to and from the server, until something is done to it."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        #: What new connections are answered, instead of being connected.
        self.answer: bytes | None = None
        #: What is done to the lines of watches.
        self.meddle: Meddle | None = None
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._pairs: set[_Pair] = set()
        self._port = 0
        #: How many connections were answered with `answer`.
        self.answered = 0

    @property
    def url(self) -> str:
        """Return where a client has to go."""
        return f"http://127.0.0.1:{self._port}"

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Break all connections and listen no more."""
        assert self._server is not None
        self._server.close()
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self, *, only_watches: bool = False) -> int:
        """Reset connections; return how many there were."""
        pairs = [pair for pair in self._pairs if pair.is_watch or not only_watches]
        for pair in pairs:
            pair.client.transport.abort()
            pair.server.transport.abort()
        return len(pairs)

    def stall(self) -> int:
        """Keep the watches open and carry nothing on them any more; return how many there are."""
        pairs = [pair for pair in self._pairs if pair.is_watch]
        for pair in pairs:
            pair.is_stalled = True
        return len(pairs)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass  # somebody hung up, which is what cables are for
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answer = self.answer  # it may be taken away while the request is read
        if answer is not None:
            await reader.readuntil(b"\r\n\r\n")
            self.answered += 1
            writer.write(answer)
            await writer.drain()
            return
        far_reader, far_writer = await asyncio.open_connection(*self._address)
        pair = _Pair(writer, far_writer)
        self._pairs.add(pair)
        try:
            await asyncio.gather(self._carry(reader, pair), self._carry_back(far_reader, pair))
        finally:
            self._pairs.discard(pair)
            far_writer.close()

    async def _carry(self, source: asyncio.StreamReader, pair: _Pair) -> None:
        while data := await source.read(65536):
            pair.is_watch = pair.is_watch or b"watch=1" in data
            pair.server.write(data)
            await pair.server.drain()
        pair.server.close()

    async def _carry_back(self, source: asyncio.StreamReader, pair: _Pair) -> None:
        frames = _Frames(self)
        while data := await source.read(65536):
            if not pair.is_stalled:
                pair.client.write(frames.feed(data) if pair.is_watch else data)
                await pair.client.drain()
        if not pair.is_stalled:
            pair.client.close()
