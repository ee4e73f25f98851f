"""Treat waiting jobs as one kind if they have one pod each and differ in age and name only.

If `reclaim` or another action fails for one job, it skips the others of this kind until something changes.

In the benchmark `batch-cohorts`, a scheduling round takes 94 ms of CPU, and 842 ms without this module.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

import attrs

from pyscheduler_batch.contract import TaskState
from pyscheduler_batch.model.priority_queue import PriorityQueue
from pyscheduler_volcano.kept_jobs import SortedJobs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from pyscheduler_batch import contract
    from pyscheduler_batch.contract import Job
    from pyscheduler_volcano.kept_jobs import Kind
    from pyscheduler_volcano.session import VolcanoSession

__all__ = ["Backlog", "JobLine", "KindLine", "MixedLine"]

_PENDING = TaskState.PENDING


@attrs.define(eq=False)
class Backlog:
    """The waiting jobs of one queue: single ones in the order of the session, and look-alikes by kind."""

    single: list[Job] = attrs.Factory(list)
    kinds: list[Kind] = attrs.Factory(list)
    #: Whether there were jobs that wait for nothing.
    _had_idle: bool = False

    def __bool__(self) -> bool:
        return bool(self.single or self.kinds or self._had_idle)

    def drop_idle(self) -> None:
        """Drop the single jobs if none of them has a pending task: nothing can be done for them."""
        if self.single and not any(job.counts[_PENDING] for job in self.single):
            self.single, self._had_idle = [], True

    def in_order(self, session: VolcanoSession) -> JobLine:
        """Return the jobs in the order in which they are served."""
        if self.single:
            # The keys of such jobs may change while they wait; so the order is that of the original's heap.
            heap = PriorityQueue(
                session.orders.job_less, [*self.single, *(job for kind in self.kinds for job in kind.by_age.jobs)]
            )
            return MixedLine(heap)
        keys: dict[int | None, contract.Key] = {
            kind.number: session.orders.order_key(kind.by_age.jobs[0]) for kind in self.kinds
        }
        lines = [kind.by_age for kind in self.kinds]
        return KindLine(session, lines, lambda job: (keys[job.look_alike], job.created, job.uid))

    def as_listed(self, session: VolcanoSession) -> JobLine:
        """Return the jobs that still wait, in the order of the session."""
        rows = session.books.rows

        def row(job: Job) -> int:
            return rows[job.uid]

        if self.single:
            jobs = sorted([*self.single, *(job for kind in self.kinds for job in kind.listed.jobs)], key=row)
            return MixedLine(PriorityQueue(lambda left, right: row(left) < row(right), jobs))
        placed = {job.look_alike for job in session.moved_jobs() if not job.counts[_PENDING]}
        waiting = [kind.listed.waiting() if kind.number in placed else kind.listed for kind in self.kinds]
        return KindLine(session, [line for line in waiting if line.jobs], row)


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

    __slots__ = ("_apart", "_at", "_heap", "_kinds", "_last", "_order", "_parked", "_session")

    def __init__(self, session: VolcanoSession, kinds: Sequence[SortedJobs], order: Callable[[Job], Any]) -> None:
        """Create a line. Each of the `kinds` is in the `order`, of which the smallest comes first."""
        self._session = session
        self._order = order
        self._kinds = [*kinds]
        #: By kind: the place of its next job.
        self._at = [0] * len(kinds)
        #: Place in the order of the next job, and number, of the kinds that are tried.
        self._heap = [(order(kind.jobs[0]), number) for number, kind in enumerate(kinds)]
        heapify(self._heap)
        #: The kinds that failed.
        self._parked: list[int] = []
        #: Uids of the jobs that were set apart from their kinds.
        self._apart: set[str] = set()
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
        return self._kinds[number].jobs[self._at[number] - 1]

    def push(self, job: Job) -> None:
        """Put the last job in again."""
        self._at[self._last[1]] -= 1

    def fail(self) -> None:
        """Leave out the kind of the last job, but for jobs from which earlier passes protect others."""
        place, number = self._last
        job = self._kinds[number].jobs[self._at[number] - 1]
        past = self._session.with_past()
        if job.uid in past:
            return
        self._last = (place, -1)
        if past:
            self._set_apart(job, number, place, past)
        self._spread_reasons(job, number)
        self._parked.append(number)

    def _set_apart(self, failed: Job, number: int, place: Any, past: Collection[str]) -> None:
        """Make a kind of its own of the jobs with a past that come after the failed one."""
        jobs, order = self._session.jobs, self._order
        alike = [job for uid in {*past} - self._apart if (job := jobs.get(uid)) and job.look_alike == failed.look_alike]
        others = sorted((job for job in alike if job.counts[_PENDING] and order(job) > place), key=order)
        if not others:
            return
        apart = {job.uid for job in others}
        self._apart |= apart
        rest = self._kinds[number].jobs[self._at[number] :]
        self._kinds[number] = SortedJobs.of([job for job in rest if job.uid not in apart])
        self._at[number] = 0
        self._kinds.append(SortedJobs.of(others))
        self._at.append(0)
        self._put_in(len(self._kinds) - 1)

    def _spread_reasons(self, failed: Job, number: int) -> None:
        """Give the reasons of the failed job to the jobs of its kind that come after it."""
        kind, at, reasons = failed.look_alike, self._at[number], self._session.reasons
        why = reasons.get(failed.uid)
        spread = self._session.spread_reasons
        if why is None or spread.get(kind) is why:
            return
        # Once all of the kind have the reasons, later actions need not give the same ones again.
        spread[kind] = why if kind not in spread and at == 1 else None
        reasons.update(dict.fromkeys(self._kinds[number].uids[at:], why))

    def revive(self) -> None:
        """Try again the kinds that failed, from the present place in the order on."""
        parked, self._parked = self._parked, []
        for number in parked:
            jobs = self._kinds[number].jobs
            while self._at[number] < len(jobs) and self._order(jobs[self._at[number]]) < self._last[0]:
                self._at[number] += 1
            self._put_in(number)

    def _put_in(self, number: int) -> None:
        """Put the next job of a kind into the heap; -1 is no kind."""
        if number >= 0 and self._at[number] < len(self._kinds[number].jobs):
            heappush(self._heap, (self._order(self._kinds[number].jobs[self._at[number]]), number))
        if number == self._last[1]:
            self._last = (self._last[0], -1)
