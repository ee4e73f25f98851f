"""A map whose entries expire; the map calls a function for each expired entry."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import TYPE_CHECKING, Generic, TypeVar

from cachetools import TTLCache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyscheduler.framework import Clock, Timer

__all__ = ["ExpiringMap"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ExpiringMap(Generic[K, V]):
    """A map whose entries last `ttl_seconds` of the clock; with 0 or less it stays empty.

    When an entry expires, `on_expiry` is called with it, once, in the order in which entries were added. It is not
    called for entries that were removed.
    """

    def __init__(self, clock: Clock, ttl_seconds: float, *, on_expiry: Callable[[K, V], object] | None = None) -> None:
        self.ttl_seconds = ttl_seconds
        self._clock = clock
        self._on_expiry = on_expiry
        #: The cache reads the time several times a call, and drops entries that expired in between without a callback.
        self._now = clock.now()
        self._entries: TTLCache[K, tuple[float, V]] = TTLCache(math.inf, max(ttl_seconds, 0.0), timer=lambda: self._now)
        #: A superset of the keys: most look-ups are for absent keys, and the cache is slow for those.
        self._keys: set[K] = set()
        self._timer: Timer | None = None
        self._due: list[tuple[K, V]] = []

    def add(self, key: K, value: V) -> bool:
        """Add an entry unless the key has one; return True if it was added."""
        self._drop_ended()
        if self.ttl_seconds <= 0 or key in self._entries:
            return False
        ends = self._now + self.ttl_seconds
        self._entries[key] = (ends, value)
        self._keys.add(key)
        if self._on_expiry is not None and self._timer is None:
            self._arm(ends)
        return True

    def remove(self, key: K) -> V | None:
        """Remove an entry; return its value, or None if there is none."""
        entry = self._entry(key)
        if entry is None:
            return None
        del self._entries[key]
        self._keys.discard(key)
        return entry[1]

    def clear(self) -> None:
        """Remove all entries without callbacks."""
        self._entries.clear()
        self._keys.clear()
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def __contains__(self, key: K) -> bool:
        return self._entry(key) is not None

    def __len__(self) -> int:
        self._drop_ended()
        return len(self._entries)

    def __iter__(self) -> Iterator[K]:
        self._drop_ended()
        return iter(list(self._entries))

    def _entry(self, key: K) -> tuple[float, V] | None:
        if key not in self._keys:
            return None
        self._drop_ended()
        return self._entries.get(key)

    def _arm(self, when: float) -> None:
        self._timer = self._clock.call_at(when, self._expire)

    def _drop_ended(self) -> None:
        """Remove expired entries; the timer, which is due, calls back for them."""
        self._now = self._clock.now()
        ended = self._entries.expire(self._now)
        self._keys.difference_update(key for key, _ in ended)
        if self._on_expiry is not None:
            self._due += [(key, value) for key, (_, value) in ended]

    def _expire(self) -> None:
        self._timer = None
        self._drop_ended()
        due, self._due = self._due, []
        first = next(iter(self._entries), None)
        # Before the callbacks, because one of them may add entries or raise.
        if first is not None:
            self._arm(self._entries[first][0])
        if self._on_expiry is not None:
            for key, value in due:
                self._on_expiry(key, value)
