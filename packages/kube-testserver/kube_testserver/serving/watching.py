"""Watches: each watch reads a collection's log of changes, and sends the changes to one client as JSON.

A watch has no queue of its own, only a position in the log. If the log no longer has this position, the client gets an
error (410) and lists again.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from kube_testserver import errors
from kube_testserver.store import ExpiredVersionError, Record, encode

if TYPE_CHECKING:
    from kube_objects.clock import Clock, Timer
    from kube_testserver.store import Change, Collection

__all__ = ["BrokenStreamError", "WatchStream", "WatchView", "event_line"]

_BATCH: Final = 512
_LAST_BOOKMARKS_SECONDS: Final = 2.0


class BrokenStreamError(Exception):
    """The stream ends here without having been ended: the connection is to be cut."""


class WatchView(msgspec.Struct, frozen=True):
    """One client's view of a collection.

    `render` writes a record as this client asked for it; `bookmark` makes the object of a bookmark for a version, None
    where the client wants none. An empty namespace is all of them; `matches` None is everything.
    """

    namespace: str
    matches: Callable[[Record], bool] | None
    render: Callable[[Record], bytes]
    bookmark: Callable[[int], bytes] | None = None

    def line(self, change: Change) -> bytes:
        """Return the line of a change for this client; empty if the client does not select the object."""
        record, old = change.record, change.old
        if self.namespace and record.namespace != self.namespace:
            return b""
        matches = self.matches
        if matches is None:
            return event_line(change.type, self.render(record))
        now = change.type != "DELETED" and matches(record)
        before = old is not None and matches(old)
        if now:
            return event_line("MODIFIED" if before else "ADDED", self.render(record))
        if old is None or not before:
            return b""
        if change.type != "DELETED":
            record = _as_of(old, change.version)
        return event_line("DELETED", self.render(record))


class WatchStream:
    """One open watch, to be iterated once, chunk by chunk; each chunk is whole lines.

    It begins with the `initial` lines and goes on in the log at `position`; changes up to the version `after`, which
    may be yet to come, are left out. Close it when the client is gone.
    """

    def __init__(
        self,
        collection: Collection,
        view: WatchView,
        *,
        position: int,
        initial: list[bytes],
        clock: Clock,
        after: int = 0,
        timeout_seconds: float | None = None,
        bookmark_seconds: float,
    ) -> None:
        self._collection = collection
        self._view = view
        self._position = position
        self._initial = initial
        self._after = after
        self._term = collection.term
        self._clock = clock
        self._bookmark_seconds = bookmark_seconds
        self._bookmark_due = False
        self._ending = False
        self._finished = False
        self._broken = ""
        self._waiter: asyncio.Future[None] | None = None
        self._timers: dict[str, Timer] = {}
        self._end_at = math.inf if timeout_seconds is None else clock.now() + timeout_seconds
        self._stop_listening = collection.listen(self._wake)
        #: Called once, when the stream is closed.
        self.on_close: Callable[[], object] | None = None
        if timeout_seconds is not None:
            self._timers["end"] = clock.call_later(timeout_seconds, self.end)
        if view.bookmark is not None and self._end_at > clock.now() + _LAST_BOOKMARKS_SECONDS:
            self._schedule_bookmark()

    # --- the server's side -------------------------------------------------------------------------

    def end(self) -> None:
        """End the stream after all pending changes, as a server does at a timeout."""
        self._ending = True
        self._wake()

    def cut(self, *, within_line: bool = False) -> None:
        """Break the stream off: at once, or (`within_line`) after half of the next line, whenever that comes."""
        self._broken = "within" if within_line else "now"
        self._wake()

    def close(self) -> None:
        """Release timers and the place in the log; idempotent."""
        self._stop_listening()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        if self.on_close is not None:
            self.on_close()
            self.on_close = None
        self.end()

    # --- the client's side -------------------------------------------------------------------------

    def __aiter__(self) -> WatchStream:
        return self

    async def __anext__(self) -> bytes:
        """Return the next chunk as soon as there is one; `BrokenStreamError` where the stream was cut."""
        if self._initial:
            batch, self._initial = self._initial[:_BATCH], self._initial[_BATCH:]
            return b"".join(batch)
        while not self._finished:
            if self._broken == "now":
                raise BrokenStreamError
            try:
                changes = self._collection.read(self._position, _BATCH, term=self._term)
            except ExpiredVersionError as error:
                self._finished = True
                return _error_line(errors.too_old_version(error.version, error.oldest))
            self._position += len(changes)
            after = self._after
            lines = [line for change in changes if change.version > after and (line := self._view.line(change))]
            if lines and self._broken:
                self._broken = "now"
                return lines[0][: len(lines[0]) // 2]
            if lines:
                return b"".join(lines)
            if changes:
                continue
            if self._term != self._collection.term:
                break
            if self._bookmark_due and self._view.bookmark is not None and self._collection.store.version >= after:
                self._bookmark_due = False
                return event_line("BOOKMARK", self._view.bookmark(self._collection.store.version))
            if self._ending:
                break
            await self._news()
        raise StopAsyncIteration

    async def _news(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _schedule_bookmark(self) -> None:
        """Plan the next bookmark: after the usual time, and once a second shortly before the end."""
        now = self._clock.now()
        due = min(now + self._bookmark_seconds, max(self._end_at - _LAST_BOOKMARKS_SECONDS, now + 1.0))
        if due < self._end_at:
            self._timers["bookmark"] = self._clock.call_at(due, self._ring_bookmark)

    def _ring_bookmark(self) -> None:
        self._bookmark_due = True
        self._schedule_bookmark()
        self._wake()


def event_line(kind: str, rendered: bytes) -> bytes:
    """Return one line of a watch."""
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), rendered)


def _error_line(error: errors.StatusError) -> bytes:
    return event_line("ERROR", encode(error.as_status()))


def _as_of(record: Record, version: int) -> Record:
    """Return a record as it was, under the version of the change that took it out of sight."""
    obj = record.decode()
    obj["metadata"]["resourceVersion"] = str(version)
    return msgspec.structs.replace(record, version=version, body=encode(obj))
