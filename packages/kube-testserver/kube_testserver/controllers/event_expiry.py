"""Expiry of events: an event is deleted some time after its last write, by default an hour."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from kube_testserver.resources.builtin import EVENTS

if TYPE_CHECKING:
    from kube_testserver.registry import Registry
    from kube_testserver.store import Record

__all__ = ["EventExpiry"]


class EventExpiry:
    """The reaction to a written event: delete expired events."""

    def __init__(self, ttl_seconds: float) -> None:
        self._ttl_seconds = ttl_seconds
        #: When each write expires (seconds since the epoch), in order.
        self._writes: deque[tuple[float, Record]] = deque()

    def __call__(self, registry: Registry, record: Record, *, deleted: bool) -> None:
        """Note the write, and delete events that were not written again within their time to live."""
        now = registry.wall()
        if not deleted:
            self._writes.append((now + self._ttl_seconds, record))
        events = registry.collection(EVENTS)
        while self._writes and self._writes[0][0] <= now:
            _, old = self._writes.popleft()
            if events.get(old.key) is old:
                events.remove(old)
