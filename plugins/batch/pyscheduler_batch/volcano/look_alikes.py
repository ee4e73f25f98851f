"""Jobs of one waiting pod that differ in age and name only: what holds for one of them holds for all.

A backlog has thousands of such jobs. In a pass, the policies are asked about one job of each kind. An action tries the
jobs of a kind in their order, and leaves out the rest of the kind after the first failure: the state is the same, so
the next job would fail in the same way. Policies of others may look at anything; with one of them each job is a kind of
its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pyscheduler.batch.tasks import TaskState
from pyscheduler_batch.priority_queue import PriorityQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyscheduler.batch.contract import Key
    from pyscheduler.batch.tasks import Job
    from pyscheduler_batch.volcano.session import VolcanoSession

__all__ = ["Failures", "JobLine", "Kinds", "kind_of"]

_PENDING = TaskState.PENDING
_Answer = TypeVar("_Answer")
_Entry = tuple[Any, float, str, "Job"]


def kind_of(session: VolcanoSession, job: Job) -> int | None:
    """Return the number of the job's kind; None if its pod does not wait, or if it is unlike all others."""
    return job.look_alike if job.counts[_PENDING] and session.has_own_policies_only else None


class Kinds:
    """The answers to one question in one action, by kind of job. The state must not change while it is used."""

    __slots__ = ("_answers", "_ask", "_is_used")

    def __init__(self, session: VolcanoSession, ask: Callable[[Job], _Answer]) -> None:
        self._ask: Callable[[Job], Any] = ask
        self._is_used = session.has_own_policies_only
        self._answers: dict[int, Any] = {}

    def __call__(self, job: Job) -> Any:
        """Return the answer for a job."""
        kind = job.look_alike
        if kind is None or not self._is_used or not job.counts[_PENDING]:
            return self._ask(job)
        answers = self._answers
        if kind not in answers:
            answers[kind] = self._ask(job)
        return answers[kind]


class JobLine:
    """Jobs of a queue in the order in which they are served.

    The key of a job of a kind does not change while others are served, so such jobs are sorted once. If there are
    others among them, the order is that of a heap by comparison, as in the original.
    """

    __slots__ = ("_heap", "_sorted")

    def __init__(self, session: VolcanoSession, key: Callable[[Job], Key], jobs: Sequence[Job]) -> None:
        self._heap: PriorityQueue[Job] | None = None
        #: The last one is served next.
        self._sorted: list[_Entry] = []
        if all(kind_of(session, job) is not None for job in jobs):
            self._sorted = sorted(((key(job), job.created, job.uid, job) for job in jobs), reverse=True)
        else:
            self._heap = PriorityQueue(session.job_less, jobs)

    def __len__(self) -> int:
        return len(self._sorted if self._heap is None else self._heap)

    def pop(self) -> Job:
        """Remove and return the next job; raise `IndexError` if there is none."""
        return self._sorted.pop()[3] if self._heap is None else self._heap.pop()

    def push(self, job: Job) -> None:
        """Put a job in again; a job of a kind has no task left after it was served."""
        assert self._heap is not None, "jobs of one pod are served once"
        self._heap.push(job)


class Failures:
    """The kinds of jobs that failed in an action since something changed that could help them."""

    __slots__ = ("_reasons", "_session")

    def __init__(self, session: VolcanoSession) -> None:
        self._session = session
        #: By kind, what was recorded about the job that failed.
        self._reasons: dict[int, dict[str, str] | None] = {}

    def __contains__(self, job: Job) -> bool:
        """Return whether a job of the kind failed; then the reasons hold for this one, too."""
        if not self._reasons:
            return False
        kind = self._kind(job)
        if kind is None or kind not in self._reasons:
            return False
        reasons = self._reasons[kind]
        if reasons is not None:
            self._session.reasons[job.uid] = reasons
        return True

    def add(self, job: Job) -> None:
        """Remember that a job failed."""
        kind = self._kind(job)
        if kind is not None:
            self._reasons[kind] = self._session.reasons.get(job.uid)

    def clear(self) -> None:
        """Forget all: there may be room now."""
        self._reasons.clear()

    def _kind(self, job: Job) -> int | None:
        # Earlier passes may protect other jobs from this one alone.
        return None if self._session.has_past(job) else kind_of(self._session, job)
