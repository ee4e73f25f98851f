"""Guards between passes: jobs do not evict each other without end, whatever the policies answer.

Within a pass a preset decides as its model does, except that two jobs do not evict each other, directly or in turn.
Between passes five rules hold:

- A job that was placed again after an eviction is not evicted again before its backoff ends: 10 s from the eviction, 10
  minutes if it was moved. Each time that it loses its minimum after it came back, the backoff doubles, to at most 10
  minutes. A job that loses one surplus pod after the other and gets none back loses no work twice: it does not rest.
- Between changes from outside, such a job is not evicted again at all, and an evicted job evicts neither the job that
  took its room nor the job that took the room of that one, and so on. So evictions end. A change from outside is a new
  job, a change of a node or queue, or a pod that ends without an eviction.
- A job that got the room of as many victims as it asks for has no more of them evicted before its promise ends or
  something changes outside. kube-batch makes room for one task of a gang in each pass, and forgets it in the next one.
- A gang that is evicted because bindings of its members failed is not placed again before a backoff ends: it would stay
  in parts again. 10 s, doubled each time, at most 10 minutes.
- A job that waits for the room of its victims is not evicted. If its promise expires, or the API server refuses to
  delete a victim, it evicts nobody until its backoff ends.

Jobs are known by uid, so a pod that a controller creates again belongs to the same job, and is no change.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, Final

import attrs
import numpy as np

from pyscheduler.api import format_time
from pyscheduler.framework.departures import grace_seconds
from pyscheduler_batch.model.decisions import DecisionKind
from pyscheduler_batch.model.sub_groups import is_whole
from pyscheduler_batch.model.tasks import ACTIVE, TaskState
from pyscheduler_batch.queue_problems import BINDING_BACKOFF
from pyscheduler_batch.sessions.backoff import BACKOFF_SECONDS, Backoff
from pyscheduler_batch.sessions.eviction import record_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

    from pyscheduler_batch.model.axis import Amounts
    from pyscheduler_batch.model.decisions import Decision
    from pyscheduler_batch.model.tasks import Job
    from pyscheduler_batch.sessions.eviction import FailedEviction

__all__ = ["TURN_EVERY", "Guards"]

#: Other tasks of the scheduler may run after so many jobs that are only looked at.
TURN_EVERY: Final = 256

#: The rest of a job whose pods were moved.
REST_SECONDS: Final = 600.0
#: How long the room of victims is promised to a job, besides their grace period.
LEASE_SECONDS: Final = 60.0
_MOVING: Final = "consolidation"
_WAITING: Final = frozenset({TaskState.PENDING, TaskState.PIPELINED})


@attrs.define(eq=False)
class Guards:
    """The memory of evictions of one profile. Times are clock seconds."""

    #: Whether decisions are carried out (`Session.is_live`).
    is_live: ClassVar[bool] = True
    #: By uid of a job: its rest from evictions, and from evicting others.
    _rests: dict[str, Backoff] = attrs.Factory(dict)
    #: UIDs of evicted jobs of which something was placed after the eviction.
    _returned: set[str] = attrs.Factory(set)
    _lapses: dict[str, Backoff] = attrs.Factory(dict)
    #: By uid of a gang that was evicted because bindings failed: its backoff, and what is said about it.
    _restarts: dict[str, tuple[Backoff, str]] = attrs.Factory(dict)
    #: By uid of a job that was evicted since the last change outside, the jobs that took its room.
    _takers: dict[str, set[str]] = attrs.Factory(dict)
    #: By uid of a job with a promise, float64[R]: what its victims held.
    _freed: dict[str, Amounts] = attrs.Factory(dict)
    #: By uid of a job that was promised the room of victims, when the promise expires.
    leases: dict[str, float] = attrs.Factory(dict)

    def note(self, decisions: Iterable[Decision], jobs: Mapping[str, Job], now: float) -> None:
        """Remember the evictions of a pass, and begin the leases of the jobs that get the room."""
        evicted: dict[str, tuple[Job, bool]] = {}
        placed: set[str] = set()
        for each in decisions:
            job = each.task.job
            if each.kind is not DecisionKind.EVICT:
                placed.add(job.uid)
                continue
            evicted[job.uid] = job, evicted.get(job.uid, (job, False))[1] or each.action == _MOVING
            takers = self._takers.setdefault(job.uid, set())
            if each.by is not None:
                takers.add(each.by.uid)
            if each.by is not None and each.by is not job:
                self.leases[each.by.uid] = now + LEASE_SECONDS + grace_seconds(each.task.pod)
                self._freed[each.by.uid] = self._freed.get(each.by.uid, 0.0) + each.task.request
        for job, is_moved in evicted.values():
            self._rest(job, now, is_moved=is_moved)
        self._returned |= placed & (self._rests.keys() | self._takers.keys())
        self._expire(jobs, now)

    def _rest(self, job: Job, now: float, *, is_moved: bool) -> None:
        """Begin the rest of an evicted job; it is longer than the last if the job came back and lost its minimum."""
        rest = self._rests.setdefault(job.uid, Backoff())
        if job.uid not in self._returned or is_whole(job, ACTIVE):
            rest.seconds /= 2  # which `begin` doubles
        self._returned.discard(job.uid)
        rest.begin(now, REST_SECONDS if is_moved else BACKOFF_SECONDS[0])

    def note_lost(self, decisions: Iterable[Decision], now: float, wall: float) -> None:
        """Begin the backoff of the gangs that a pass evicts because bindings failed. `wall`: seconds since 1970."""
        gangs = {each.task.job.uid: each.task.job for each in decisions if _is_for_lost(each)}
        for uid, job in gangs.items():
            pause, _ = self._restarts.get(uid, (Backoff(), ""))
            if pause.until <= now:
                pause.begin(now)
                keys = sorted(job.tasks[task].key for task in job.lost)
                more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
                text = (
                    f"{BINDING_BACKOFF}: the gang was evicted because bindings failed ({keys[0]}{more}); "
                    f"it is scheduled again at {format_time(wall + pause.seconds)}, see the events of these pods"
                )
                self._restarts[uid] = pause, text

    def held(self, now: float) -> Mapping[str, str]:
        """Return by uid the jobs that must not be placed while they hold no node, and why."""
        return {uid: text for uid, (pause, text) in self._restarts.items() if pause.until > now}

    def take_back(self, failed: Iterable[FailedEviction], now: float) -> None:
        """Take notice of evictions that failed for good, so that the pods stay.

        Their jobs count as not evicted. The jobs that wanted the room evict nobody until their backoff ends, and the
        pauses of the victims that end soon after it. If no request was sent, the backoff does not double.
        """
        for each in failed:
            uid, by = each.decision.task.job.uid, each.decision.by
            takers = self._takers.get(uid, set()) - {"" if by is None else by.uid}
            if takers:
                self._takers[uid] = takers
            else:
                self._takers.pop(uid, None)
            if by is None and uid in self._restarts:
                self._restarts[uid][0].withdraw(now)
            if by is not None:
                self.leases.pop(by.uid, None)
                lapse = self._lapses.setdefault(by.uid, Backoff())
                if each.was_tried:
                    if lapse.until <= now:
                        lapse.begin(now)
                    lapse.lengthen(each.until)
                elif lapse.until <= now < each.until:
                    lapse.put_off(now, each.until)

    async def read_back(
        self, jobs: Mapping[str, Job], now: float, wall: float, turn: Callable[[], Awaitable[None]]
    ) -> set[str]:
        """Read what a crash left of earlier evictions; return the uids of the jobs that get room by them.

        `wall`: seconds since 1970. `turn` lets other tasks of the scheduler run.

        Pods that are ending name the job that evicted them, and groups have the time of their last eviction. Such a job
        rests for 10 minutes from then.
        """
        by_key = {job.key: job.uid for job in jobs.values()}
        found: set[str] = set()
        for at, (uid, job) in enumerate(jobs.items()):
            if at % TURN_EVERY == 0:
                await turn()
            leaving = job.pods((TaskState.RELEASING,)) if job.counts[TaskState.RELEASING] else ()
            records = [record for pod in leaving if (record := record_of(pod)) is not None]
            takers = {by_key[by] for _, by, _ in records if by in by_key}
            if records:
                self._takers.setdefault(uid, set()).update(takers)
            found |= takers - {uid}
            age = math.inf if job.last_eviction is None else wall - job.last_eviction
            if records or age < BACKOFF_SECONDS[1]:
                # The longest rest: how long it was, and how often the job was evicted, is not known.
                self._rests.setdefault(uid, Backoff()).begin(now if records else now - age, BACKOFF_SECONDS[1])
                self._returned.add(uid)  # maybe: what was placed before the crash is not known
        return found

    def news(self) -> None:
        """Take notice of a change outside: what was evicted for whom does not matter any more."""
        self._takers.clear()
        self._freed.clear()

    def _expire(self, jobs: Mapping[str, Job], now: float) -> None:
        """End promises that expire, and forget jobs that are gone for longer than any backoff."""
        for uid in [uid for uid, until in self.leases.items() if until <= now]:
            del self.leases[uid]
            if uid in jobs:
                self._lapses.setdefault(uid, Backoff()).begin(now)
        for uid in self._freed.keys() - self.leases.keys():
            del self._freed[uid]
        for pauses in (self._rests, self._lapses):
            for uid in [uid for uid, pause in pauses.items() if pause.until + BACKOFF_SECONDS[1] <= now]:
                del pauses[uid]
        self._returned &= self._rests.keys() | self._takers.keys()
        for uid in [uid for uid, (pause, _) in self._restarts.items() if pause.until + BACKOFF_SECONDS[1] <= now]:
            del self._restarts[uid]

    def protected(
        self, claimant: Job, now: float, jobs: Mapping[str, Job], takers: Mapping[str, set[str]] | None = None
    ) -> Collection[str]:
        """Return the uids of the jobs that must not be evicted for this one.

        `takers`: by uid of a job that this pass evicts, the jobs that take its room.
        """
        lapse = self._lapses.get(claimant.uid)
        if (lapse is not None and lapse.until > now) or self._has_enough(claimant):
            return jobs.keys()
        resting = {uid for uid in self._returned if uid in self._takers or self._ends(uid) > now}
        waiting = self.leases.keys() - {claimant.uid}
        return resting | waiting | self._takers_in_turn(claimant.uid, takers or {})

    def _ends(self, uid: str) -> float:
        """Return when the rest of a job ends, or ended."""
        rest = self._rests.get(uid)
        return -math.inf if rest is None else rest.until

    def _has_enough(self, claimant: Job) -> bool:
        """Return whether the victims of earlier passes held all that the waiting tasks of the job ask for."""
        freed = self._freed.get(claimant.uid) if claimant.uid in self.leases else None
        if freed is None:
            return False
        waiting = [task.request for task in claimant.tasks.values() if task.state in _WAITING]
        wanted = np.sum(waiting, axis=0) if waiting else np.zeros_like(freed)
        return bool((freed >= wanted).all())

    def _takers_in_turn(self, uid: str, takers: Mapping[str, set[str]]) -> set[str]:
        """Return the jobs that took the room of a job, and those that took theirs."""
        found: set[str] = set()
        todo = [uid]
        while todo:
            last = todo.pop()
            fresh = (self._takers.get(last, set()) | takers.get(last, set())) - found
            found |= fresh
            todo += fresh
        return found

    def with_past(self, takers: Mapping[str, set[str]]) -> set[str]:
        """Return the uids of the jobs on which `protected` depends in particular: protected, or protecting others."""
        return self._lapses.keys() | self._takers.keys() | takers.keys() | self.leases.keys()

    def next_end(self, now: float) -> float | None:
        """Return when the next backoff or promise ends; None if nothing is pending."""
        ends = [pause.until for pause in self._lapses.values()]
        ends += map(self._ends, self._returned)
        ends += [pause.until for pause, _ in self._restarts.values()]
        ends += self.leases.values()
        return min((end for end in ends if end > now), default=None)


def _is_for_lost(decision: Decision) -> bool:
    """Return whether this evicts a member of a gang because others cannot be bound."""
    return decision.kind is DecisionKind.EVICT and decision.by is None and bool(decision.task.job.lost)
