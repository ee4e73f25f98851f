"""`/debug/stream`: send a server-sent event whenever the reason why a pod waits changes."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

import msgspec
from aiohttp import web

from pyscheduler.serving.api_status import api_status
from pyscheduler.stories.view import story_update

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyscheduler.stories.book import StoryBook
    from pyscheduler.stories.record import Run, Story

__all__ = ["UpdateStream"]

#: The changes that wait for one reader, and the most readers.
_MOST_CHANGES: Final = 1_000
_MOST_READERS: Final = 16
#: How long changes are gathered before they are written; a write over TLS costs more than the encoding.
_GATHER_SECONDS: Final = 0.2
#: A comment is written after so long without a change, so that proxies keep the connection.
_KEEP_ALIVE_SECONDS: Final = 15.0
_WRITE_SECONDS: Final = 60.0
_HEADERS: Final = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-cache, private",
    "X-Content-Type-Options": "nosniff",
}


class UpdateStream:
    """Sends the changes of a book to readers, until `close`."""

    def __init__(self, book: StoryBook, is_leader: Callable[[], bool]) -> None:
        self._book = book
        self._is_leader = is_leader
        self._readers: set[_Reader] = set()
        self._encode = msgspec.json.Encoder().encode

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Send changes from now on, until the reader or the server closes the connection."""
        if len(self._readers) == _MOST_READERS:
            message = f"{_MOST_READERS} readers follow the changes; close one of them"
            return api_status(request, 429, "TooManyRequests", message)
        reader = _Reader()
        if not self._readers:
            self._book.listeners.append(self._changed)
        self._readers.add(reader)
        response = web.StreamResponse(headers=_HEADERS)
        try:
            await response.prepare(request)
            await _write(response, _event("begin", self._encode({"isLeader": self._is_leader()})))
            while not reader.is_closed:
                try:
                    async with asyncio.timeout(_KEEP_ALIVE_SECONDS):
                        await reader.news.wait()
                except TimeoutError:
                    await _write(response, b": keep-alive\n\n")
                    continue
                await asyncio.sleep(0 if reader.is_closed else _GATHER_SECONDS)
                await _write(response, reader.take())
        except (ConnectionError, TimeoutError):
            request.protocol.force_close()
        finally:
            self._readers.discard(reader)
            if not self._readers:
                self._book.listeners.remove(self._changed)
        return response

    def close(self) -> None:
        """End all streams, after what is gathered."""
        for reader in self._readers:
            reader.is_closed = True
            reader.news.set()

    def _changed(self, story: Story, run: Run) -> None:
        event = _event("change", self._encode(story_update(story, run)))
        for reader in self._readers:
            reader.put(event)


class _Reader:
    """The changes that wait for one reader."""

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self.is_closed = False
        self._changes: deque[bytes] = deque(maxlen=_MOST_CHANGES)
        self._lost = 0

    def put(self, event: bytes) -> None:
        """Add a change; drop the oldest one if there are too many."""
        if len(self._changes) == _MOST_CHANGES:
            self._lost += 1
        self._changes.append(event)
        self.news.set()

    def take(self) -> bytes:
        """Return and forget what waits."""
        lost = _event("lost", b'{"count":%d}' % self._lost) if self._lost else b""
        text = lost + b"".join(self._changes)
        self._changes.clear()
        self._lost = 0
        self.news.clear()
        return text


def _event(name: str, data: bytes) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), data)


async def _write(response: web.StreamResponse, text: bytes) -> None:
    """Write; raise `ConnectionError` if the reader has gone, `TimeoutError` if it takes nothing."""
    if text:
        async with asyncio.timeout(_WRITE_SECONDS):
            await response.write(text)
