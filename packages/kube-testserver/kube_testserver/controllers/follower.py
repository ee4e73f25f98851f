"""Report the changes of one kind's objects to code inside the server.

Listeners of the store are called during a write, and must not write themselves.
A `Follower` reports the change after the write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_testserver.store import ExpiredVersionError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kube_objects.clock import Clock, Timer
    from kube_testserver.store import Change, Collection, Record

__all__ = ["Follower"]

_BATCH: Final = 256


class Follower:
    """Hands over what a collection holds, then every change.

    `listed` gets all present records, at the start and again whenever the log has moved past what was read; `changed`
    gets one change. Both may write to the store.
    """

    __slots__ = ("_changed", "_clock", "_collection", "_listed", "_position", "_reading", "_stop_listening")

    def __init__(
        self,
        collection: Collection,
        *,
        clock: Clock,
        listed: Callable[[Sequence[Record]], None],
        changed: Callable[[Change], None],
    ) -> None:
        self._collection = collection
        self._clock = clock
        self._listed = listed
        self._changed = changed
        self._position = 0
        self._reading: Timer | None = None
        self._stop_listening: Callable[[], None] | None = None

    def start(self) -> None:
        """Hand over what is there, then follow."""
        self._stop_listening = self._collection.listen(self._news)
        self._list()

    def catch_up(self) -> None:
        """Read all pending changes now, for a caller that depends on them."""
        while self._reading is not None:
            self._reading.cancel()
            self._read()

    def stop(self) -> None:
        """Follow no more; idempotent."""
        if self._stop_listening is not None:
            self._stop_listening()
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _list(self) -> None:
        self._position = self._collection.position_after(self._collection.store.version)
        self._listed(self._collection.page().records)

    def _news(self) -> None:
        if self._reading is None:
            self._reading = self._clock.call_later(0.0, self._read)

    def _read(self) -> None:
        self._reading = None
        try:
            changes = self._collection.read(self._position, _BATCH)
        except ExpiredVersionError:  # more was written than the log remembers
            self._list()
            return
        self._position += len(changes)
        if len(changes) == _BATCH:
            self._news()
        for change in changes:
            self._changed(change)
