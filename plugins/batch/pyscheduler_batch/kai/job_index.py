"""Jobs by queue, sorted: kept from one search to the next, so that no search sorts all jobs again."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyscheduler_batch.kai.gang import Gang
    from pyscheduler_batch.kai.job_queue import JobKey

__all__ = ["JobIndex"]


def _key_of(entry: tuple[JobKey, Gang]) -> JobKey:
    return entry[0]


class JobIndex:
    """The jobs of which `has` is true, by queue row, sorted by key.

    Jobs that changed are put in their place by `settle`. A change that is undone and settled leaves the lists as they
    were.
    """

    def __init__(self, gangs: Iterable[Gang], has: Callable[[Gang], bool], key: Callable[[Gang], JobKey]) -> None:
        self._has = has
        self._key = key
        self._keys: dict[str, JobKey] = {}
        self.by_queue: dict[int, list[tuple[JobKey, Gang]]] = {}
        for gang in gangs:
            if has(gang):
                entry = (key(gang), gang)
                self._keys[gang.job.uid] = entry[0]
                self.by_queue.setdefault(gang.job.queue_row, []).append(entry)
        for entries in self.by_queue.values():
            entries.sort(key=_key_of)

    def settle(self, gangs: Iterable[Gang]) -> None:
        """Put jobs that may have changed in their place."""
        for gang in gangs:
            uid, row = gang.job.uid, gang.job.queue_row
            old = self._keys.get(uid)
            new = self._key(gang) if self._has(gang) else None
            if old == new:
                continue
            if old is not None:
                entries = self.by_queue[row]
                del entries[bisect_left(entries, old, key=_key_of)]
                del self._keys[uid]
                if not entries:
                    del self.by_queue[row]
            if new is not None:
                insort(self.by_queue.setdefault(row, []), (new, gang), key=_key_of)
                self._keys[uid] = new
