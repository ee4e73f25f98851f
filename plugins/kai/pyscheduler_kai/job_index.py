"""The sorted jobs of each queue, kept from one scheduling round to the next."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from operator import itemgetter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyscheduler_batch.contract import Job
    from pyscheduler_kai.gang import Gang, Quantities
    from pyscheduler_kai.job_queue import JobKey

__all__ = ["KEY_OF", "JobIndex", "sorted_by_queue"]

#: Returns the key of a job that stands with it in a sorted list.
KEY_OF: Final = itemgetter(0)


def sorted_by_queue(gangs: Iterable[Gang], key: Callable[[Gang], JobKey]) -> dict[int, list[tuple[JobKey, Gang]]]:
    """Return jobs with their keys by queue row, sorted by key."""
    result: dict[int, list[tuple[JobKey, Gang]]] = {}
    for gang in gangs:
        result.setdefault(gang.job.queue_row, []).append((key(gang), gang))
    for entries in result.values():
        entries.sort(key=KEY_OF)
    return result


class JobIndex:
    """The jobs of which `has` is true, by queue row, sorted by key. A queue is read when it is first asked for.

    Jobs that changed are put in their place by `settle`. A change that is undone and settled leaves the lists as they
    were. `gangs`: by job uid.
    """

    def __init__(self, gangs: Mapping[str, Gang], has: Callable[[Gang], bool], key: Callable[[Gang], JobKey]) -> None:
        #: By queue row and uid, all jobs of which `has` may be true in this pass.
        self.jobs: dict[int, dict[str, Job]] = {}
        self._row_of: dict[str, int] = {}
        self._gangs = gangs
        self._has = has
        self._key = key
        self._keys: dict[str, JobKey] = {}
        self._entries: dict[int, list[tuple[JobKey, Gang]]] = {}
        #: By queue row, what `asks` returns, and about how many jobs; until a job of the queue changes.
        self._asks: dict[int, tuple[dict[Quantities, list[int]], int]] = {}

    def entries(self, row: int) -> Sequence[tuple[JobKey, Gang]]:
        """Return the jobs of a queue; the list changes with `settle`."""
        if row not in self._entries:
            deque(self.read([row]), maxlen=0)
        return self._entries[row]

    def asks(self, row: int, end: int) -> Mapping[Quantities, list[int]]:
        """Return the places of the first `end` jobs of a queue, or of more, by what they ask for."""
        found, known = self._asks.get(row, ({}, 0))
        if known < end:
            for at, (_, gang) in enumerate(self.entries(row)[known:end], start=known):
                found.setdefault(gang.requested(), []).append(at)
            self._asks[row] = found, end
        return found

    def place(self, uid: str) -> int | None:
        """Return the place of a job in the list of its queue, which was read before; None if it is not there."""
        key = self._keys.get(uid)
        return None if key is None else bisect_left(self._entries[self._row_of[uid]], key, key=KEY_OF)

    def read(self, rows: Iterable[int]) -> Iterator[None]:
        """Read the jobs of queues that were not asked for yet; yield after each job."""
        for row in [row for row in rows if row not in self._entries]:
            found = []
            for uid in self.jobs.get(row, ()):
                gang = self._gangs[uid]
                if self._has(gang):
                    found.append((self._key(gang), gang))
                yield
            found.sort(key=KEY_OF)
            self._entries[row] = found
            self._keys.update((gang.job.uid, key) for key, gang in found)

    def by_queue(self, rows: Iterable[int]) -> dict[int, Sequence[tuple[JobKey, Gang]]]:
        """Return the jobs of these queues, without queues that have none."""
        return {row: entries for row in rows if (entries := self.entries(row))}

    def job(self, uid: str) -> Job | None:
        """Return the job of a uid as it was put in last; None if it is not here."""
        row = self._row_of.get(uid)
        return None if row is None else self.jobs[row][uid]

    def put(self, uid: str, job: Job | None) -> None:
        """Put a job that was built anew in its queue, or take out one that is gone (None)."""
        row = self._row_of.pop(uid, None)
        if row is not None:
            del self.jobs[row][uid]
            if not self.jobs[row]:
                del self.jobs[row]
            self._asks.pop(row, None)
            old = self._keys.pop(uid, None)
            if old is not None:
                entries = self._entries[row]
                del entries[bisect_left(entries, old, key=KEY_OF)]
        if job is not None:
            self._row_of[uid] = job.queue_row
            self.jobs.setdefault(job.queue_row, {})[uid] = job
            if job.queue_row in self._entries:
                self.settle([self._gangs[uid]])

    def settle(self, gangs: Iterable[Gang]) -> None:
        """Put jobs that may have changed in their place."""
        for gang in gangs:
            uid = gang.job.uid
            entries = self._entries.get(gang.job.queue_row)
            if entries is None:
                continue
            old = self._keys.get(uid)
            new = self._key(gang) if self._has(gang) else None
            if old is not None or new is not None:
                self._asks.pop(gang.job.queue_row, None)
            if old == new:
                continue
            if old is not None:
                del entries[bisect_left(entries, old, key=KEY_OF)]
                del self._keys[uid]
            if new is not None:
                insort(entries, (new, gang), key=KEY_OF)
                self._keys[uid] = new
