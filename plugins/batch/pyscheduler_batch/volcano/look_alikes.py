"""Jobs of one waiting pod that differ in age and name only: what holds for one of them holds for all.

A backlog has thousands of such jobs. In a pass, the policies are asked about one job of each kind. An action tries the
jobs of a kind in their order, and leaves out the rest of the kind after the first failure: the state is the same, so
the next job would fail in the same way. Policies of others may look at anything; with one of them each job is a kind of
its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import attrs

from pyscheduler.batch.tasks import TaskState
from pyscheduler_batch.priority_queue import PriorityQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyscheduler.batch.tasks import Job
    from pyscheduler_batch.volcano.session import VolcanoSession

__all__ = ["Backlog", "JobLine", "KindLine", "MixedLine", "group_jobs"]

_PENDING = TaskState.PENDING
_by_age = attrgetter("created", "uid")


def group_jobs(jobs: Iterable[Job], *, by_kind: bool) -> tuple[list[Job], list[list[Job]]]:
    """Return the jobs that are unlike all others, and the look-alikes by kind, the oldest first."""
    single: list[Job] = []
    kinds: dict[int, list[Job]] = {}
    for job in jobs:
        kind = job.look_alike
        if kind is None or not by_kind or not job.counts[_PENDING]:
            single.append(job)
        elif kind in kinds:
            kinds[kind].append(job)
        else:
            kinds[kind] = [job]
    for each in kinds.values():
        each.sort(key=_by_age)
    return single, [*kinds.values()]


@attrs.define(eq=False)
class Backlog:
    """The waiting jobs of one queue: single ones in the order of the session, and look-alikes by kind."""

    single: list[Job] = attrs.Factory(list)
    kinds: list[list[Job]] = attrs.Factory(list)

    def __bool__(self) -> bool:
        return bool(self.single or self.kinds)

    def in_order(self, session: VolcanoSession) -> JobLine:
        """Return the jobs in the order in which they are served."""
        if self.single:
            # The keys of such jobs may change while they wait; so the order is that of the original's heap.
            heap = PriorityQueue(session.job_less, [*self.single, *(job for kind in self.kinds for job in kind)])
            return MixedLine(heap)
        keys = {kind[0].look_alike: session.order_key(kind[0]) for kind in self.kinds}
        return KindLine(session, self.kinds, lambda job: (keys[job.look_alike], job.created, job.uid))

    def as_listed(self, session: VolcanoSession) -> JobLine:
        """Return the jobs that still wait, in the order of the session."""
        rows = session.books.rows

        def row(job: Job) -> int:
            return rows[job.uid]

        if self.single:
            jobs = sorted([*self.single, *(job for kind in self.kinds for job in kind)], key=row)
            return MixedLine(PriorityQueue(lambda left, right: row(left) < row(right), jobs))
        waiting = [[job for job in kind if job.counts[_PENDING]] for kind in self.kinds]
        return KindLine(session, [sorted(kind, key=row) for kind in waiting if kind], row)


class JobLine(ABC):
    """Jobs one after the other, without those that would fail as others did."""

    @abstractmethod
    def pop(self) -> Job | None:
        """Remove and return the next job; None if there is none."""

    @abstractmethod
    def fail(self) -> None:
        """Take notice that the last job failed, and changed nothing."""

    @abstractmethod
    def revive(self) -> None:
        """Take notice that something changed; jobs may succeed now that would have failed before."""

    @abstractmethod
    def push(self, job: Job) -> None:
        """Put the last job in again: it has more tasks to place."""


class MixedLine(JobLine):
    """Jobs that are each tried."""

    __slots__ = ("_heap",)

    def __init__(self, heap: PriorityQueue[Job]) -> None:
        self._heap = heap

    def pop(self) -> Job | None:
        """Remove and return the next job; None if there is none."""
        return self._heap.pop() if len(self._heap) else None

    def fail(self) -> None:
        """Do nothing: each job is tried."""

    def revive(self) -> None:
        """Do nothing: each job is tried."""

    def push(self, job: Job) -> None:
        """Put a job in again."""
        self._heap.push(job)


class KindLine(JobLine):
    """Look-alikes. Their place in the order does not change while they wait."""

    __slots__ = ("_at", "_heap", "_kinds", "_last", "_order", "_parked", "_session")

    def __init__(self, session: VolcanoSession, kinds: Sequence[Sequence[Job]], order: Callable[[Job], Any]) -> None:
        """Create a line. Each of the `kinds` is in the `order`, of which the smallest comes first."""
        self._session = session
        self._order = order
        self._kinds = [*kinds]
        #: By kind: the place of its next job.
        self._at = [0] * len(kinds)
        #: Place in the order of the next job, and number, of the kinds that are tried.
        self._heap = [(order(kind[0]), number) for number, kind in enumerate(kinds)]
        heapify(self._heap)
        #: The kinds that failed.
        self._parked: list[int] = []
        #: Place in the order, and kind, of the job that was taken last; -1: its kind is in the heap, or parked.
        self._last: tuple[Any, int] = (None, -1)

    def pop(self) -> Job | None:
        """Remove and return the next job; None if there is none."""
        self._put_in(self._last[1])
        if not self._heap:
            return None
        self._last = heappop(self._heap)
        number = self._last[1]
        self._at[number] += 1
        return self._kinds[number][self._at[number] - 1]

    def push(self, job: Job) -> None:
        """Put the last job in again."""
        self._at[self._last[1]] -= 1

    def fail(self) -> None:
        """Leave out the kind of the last job, but for jobs from which earlier passes protect others."""
        place, number = self._last
        jobs, at = self._kinds[number], self._at[number]
        has_past, reasons = self._session.has_past, self._session.reasons
        if has_past(jobs[at - 1]):
            return
        self._last = (place, -1)
        rest = jobs[at:]
        others = [job for job in rest if has_past(job)]
        if others:
            rest = [job for job in rest if not has_past(job)]
            self._kinds.append(others)
            self._at.append(0)
            self._put_in(len(self._kinds) - 1)
        why = reasons.get(jobs[at - 1].uid)
        if why is not None:
            reasons.update(dict.fromkeys([job.uid for job in rest], why))
        self._kinds[number], self._at[number] = rest, 0
        self._parked.append(number)

    def revive(self) -> None:
        """Try again the kinds that failed, from the present place in the order on."""
        parked, self._parked = self._parked, []
        for number in parked:
            jobs = self._kinds[number]
            while self._at[number] < len(jobs) and self._order(jobs[self._at[number]]) < self._last[0]:
                self._at[number] += 1
            self._put_in(number)

    def _put_in(self, number: int) -> None:
        """Put the next job of a kind into the heap; -1 is no kind."""
        if number >= 0 and self._at[number] < len(self._kinds[number]):
            heappush(self._heap, (self._order(self._kinds[number][self._at[number]]), number))
        if number == self._last[1]:
            self._last = (self._last[0], -1)
