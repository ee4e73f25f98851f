"""Jobs by queue, sorted: kept from one search to the next, so that no search sorts all jobs again."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyscheduler.batch.tasks import Job
    from pyscheduler_batch.kai.gang import Gang
    from pyscheduler_batch.kai.job_queue import JobKey

__all__ = ["JobIndex", "sorted_by_queue"]


def _key_of(entry: tuple[JobKey, Gang]) -> JobKey:
    return entry[0]


def sorted_by_queue(gangs: Iterable[Gang], key: Callable[[Gang], JobKey]) -> dict[int, list[tuple[JobKey, Gang]]]:
    """Return jobs with their keys by queue row, sorted by key."""
    result: dict[int, list[tuple[JobKey, Gang]]] = {}
    for gang in gangs:
        result.setdefault(gang.job.queue_row, []).append((key(gang), gang))
    for entries in result.values():
        entries.sort(key=_key_of)
    return result


class JobIndex:
    """The jobs of which `has` is true, by queue row, sorted by key. A queue is read when it is first asked for.

    Jobs that changed are put in their place by `settle`. A change that is undone and settled leaves the lists as they
    were. `jobs`: by queue row, all jobs of which `has` may ever be true.
    """

    def __init__(
        self,
        jobs: Mapping[int, Sequence[Job]],
        gang_of: Callable[[Job], Gang],
        has: Callable[[Gang], bool],
        key: Callable[[Gang], JobKey],
    ) -> None:
        self.jobs = jobs
        self._gang_of = gang_of
        self._has = has
        self._key = key
        self._keys: dict[str, JobKey] = {}
        self._entries: dict[int, list[tuple[JobKey, Gang]]] = {}

    def entries(self, row: int) -> Sequence[tuple[JobKey, Gang]]:
        """Return the jobs of a queue; the list changes with `settle`."""
        found = self._entries.get(row)
        if found is None:
            gangs = map(self._gang_of, self.jobs.get(row, ()))
            found = [(self._key(gang), gang) for gang in gangs if self._has(gang)]
            found.sort(key=_key_of)
            self._entries[row] = found
            self._keys.update((gang.job.uid, key) for key, gang in found)
        return found

    def by_queue(self, rows: Iterable[int]) -> dict[int, Sequence[tuple[JobKey, Gang]]]:
        """Return the jobs of these queues, without queues that have none."""
        return {row: entries for row in rows if (entries := self.entries(row))}

    def settle(self, gangs: Iterable[Gang]) -> None:
        """Put jobs that may have changed in their place."""
        for gang in gangs:
            uid = gang.job.uid
            entries = self._entries.get(gang.job.queue_row)
            if entries is None:
                continue
            old = self._keys.get(uid)
            new = self._key(gang) if self._has(gang) else None
            if old == new:
                continue
            if old is not None:
                del entries[bisect_left(entries, old, key=_key_of)]
                del self._keys[uid]
            if new is not None:
                insort(entries, (new, gang), key=_key_of)
                self._keys[uid] = new
