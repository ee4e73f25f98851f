"""The states of jobs that a batch profile keeps from pass to pass, such as promised nodes and backoffs.

A pass is one scheduling round over all jobs. Without these states, other jobs would take nodes that were freed for a
job, gangs would stay partly bound, and jobs would evict each other without end. A job may have several states:

    state     begins when                        effect on the job                ends when
    --------  ---------------------------------  -------------------------------  -----------------------------------
    promised  other jobs are evicted for the     it is placed first, and is not   it is bound, or 60 s have passed
              job, or it is "in parts"           evicted
    lapsed    the promise expires, or an         it may not evict other jobs      its backoff ends
              eviction for the job fails

    evicted   a pod of the job is evicted        it may not evict the jobs that   something changes from outside,
                                                 took its room                    or the eviction fails
    back      an evicted job is placed again     it is not evicted                its backoff ends, and something
                                                                                  has changed from outside

    in parts  some pods of a gang are bound,     the nodes that were chosen for   all pods are bound, or none is
              and others could not be bound      the others are promised to it
    late      the gang was in parts for 60 s     nothing is promised to it        enough pods are bound
    held      a gang in parts is evicted         it is not placed                 its backoff ends

The 60 s of a promise begin after the grace period of the evicted pods. A backoff lasts 10 s to 10 minutes. A change
from outside is, for example, a new job, a changed node, or a pod that ends without an eviction.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from pyscheduler.api import format_time
from pyscheduler.framework.departures import grace_seconds
from pyscheduler_batch.model.decisions import DecisionKind
from pyscheduler_batch.model.sub_groups import is_whole
from pyscheduler_batch.model.tasks import ACTIVE, ALLOCATED, TaskState
from pyscheduler_batch.queue_problems import BINDING_BACKOFF
from pyscheduler_batch.sessions.backoff import BACKOFF_SECONDS, Backoff

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from pyscheduler.api import Pod
    from pyscheduler_batch.model.axis import Amounts
    from pyscheduler_batch.model.decisions import Decision
    from pyscheduler_batch.model.tasks import Job, Task
    from pyscheduler_batch.sessions.eviction import FailedEviction

__all__ = ["LEASE_SECONDS", "REST_SECONDS", "Commitments", "Promise"]

#: How long room is promised to a job, besides the grace period of victims.
LEASE_SECONDS: Final = 60.0
#: The rest of a job whose pods were moved.
REST_SECONDS: Final = 600.0
#: After so many failures, a pod may go to another node.
_MOST_FAILURES: Final = 3
_MOVING: Final = "consolidation"
_WAITING: Final = frozenset({TaskState.PENDING, TaskState.PIPELINED})


@attrs.define(eq=False)
class Promise:
    """The nodes that are promised to the tasks of a job."""

    until: float
    #: Node names by uid of a task; "" for any node.
    nodes: dict[str, str] = attrs.Factory(dict)


@attrs.define(eq=False)
class _Parts:
    """A gang of which bindings were lost."""

    #: When it is late; infinite before the next pass begins.
    until: float = math.inf
    #: By uid of a lost task: how often its binding failed, and when it was last lost, in seconds since 1970.
    failures: Counter[str] = attrs.Factory(Counter)
    last: dict[str, float] = attrs.Factory(dict)
    #: Those lost since the last pass, with the node; None: the node refused the pod.
    fresh: dict[str, str | None] = attrs.Factory(dict)


@attrs.define(eq=False)
class _Hold(Backoff):
    """The backoff of a gang that is not placed. `text`: the reason for users."""

    text: str = ""


@attrs.define(eq=False)
class Commitments:
    """The commitments of one profile; see the module for the states."""

    #: Whether decisions are carried out (`Session.is_live`). If not, no job is protected.
    is_live: bool = True
    #: By uid of a job, in the order in which they began. Only events change them.
    promises: dict[str, Promise] = attrs.Factory(dict)
    _lapses: dict[str, Backoff] = attrs.Factory(dict)
    _rests: dict[str, Backoff] = attrs.Factory(dict)
    #: The jobs that are back.
    _returned: set[str] = attrs.Factory(set)
    #: Since the last change outside: by victim, the jobs that took its room; by job, float64[R] that its victims held.
    _takers: dict[str, set[str]] = attrs.Factory(dict)
    _freed: dict[str, Amounts] = attrs.Factory(dict)
    _parts: dict[str, _Parts] = attrs.Factory(dict)
    _holds: dict[str, _Hold] = attrs.Factory(dict)

    # Events

    def changed_outside(self) -> None:
        """Take in a change outside: what was evicted for whom does not matter any more."""
        self._takers.clear()
        self._freed.clear()

    def binding_lost(self, task: Task, node_name: str | None, *, has_failed: bool, wall: float) -> None:
        """Take in that a task is not bound as decided. `node_name`: None if the node refused it.

        `has_failed`: not if it waits for its queue. `wall`: seconds since 1970.
        """
        parts = self._parts.setdefault(task.job.uid, _Parts())
        parts.failures[task.uid] += has_failed
        parts.last[task.uid] = wall
        parts.fresh[task.uid] = node_name

    def evictions_failed(self, failed: Iterable[FailedEviction], now: float) -> None:
        """Take in evictions that failed for good, so that the pods stay; their jobs count as not evicted.

        The jobs that wanted the room lapse, and wait for pauses of victims that end soon after the backoff. If no
        request was sent, the backoff does not double.
        """
        for each in failed:
            uid, by = each.decision.task.job.uid, each.decision.by
            takers = self._takers.pop(uid, set()) - {"" if by is None else by.uid}
            if takers:
                self._takers[uid] = takers
            if by is None:
                if uid in self._holds:
                    self._holds[uid].withdraw(now)
                continue
            self.promises.pop(by.uid, None)
            lapse = self._lapses.setdefault(by.uid, Backoff())
            if each.was_tried:
                if lapse.until <= now:
                    lapse.begin(now)
                lapse.lengthen(each.until)
            elif lapse.until <= now < each.until:
                lapse.put_off(now, each.until)

    def seen(
        self, jobs: Mapping[str, Job], now: float, is_bound: Callable[[Pod], bool]
    ) -> Mapping[str, Mapping[str, float]]:
        """Take in the jobs as a pass finds them; return `Job.lost` by uid. `is_bound`: in the API."""
        found: dict[str, Mapping[str, float]] = {}
        for uid, parts in [*self._parts.items()]:
            job, parts.until = jobs.get(uid), min(parts.until, now + LEASE_SECONDS)
            fresh, parts.fresh = parts.fresh, {}
            missing = _missing(job, parts.last, is_bound) if job is not None else {}
            if job is None or not missing or now >= parts.until:
                self._end_own(uid, parts)
                if job is None or not missing or _is_whole_without(job, missing):
                    del self._parts[uid]
                    missing = {}
            elif fresh and not is_whole(job, ALLOCATED):
                self._promise_lost(uid, parts, fresh)
            found[uid] = missing
        for uid, promise in [*self.promises.items()]:
            job = jobs.get(uid)
            if job is None or _is_kept(promise, job, is_bound):
                del self.promises[uid]
        return found

    def _promise_lost(self, uid: str, parts: _Parts, fresh: Mapping[str, str | None]) -> None:
        promise = self.promises.get(uid) or Promise(parts.until)
        for task, node_name in fresh.items():
            if parts.failures[task] > _MOST_FAILURES:
                promise.nodes.pop(task, None)
            elif node_name is not None:
                promise.nodes[task] = node_name
        if promise.nodes:
            self.promises[uid] = promise
        else:
            self._end_own(uid, parts)

    def _end_own(self, uid: str, parts: _Parts) -> None:
        """End the promise of a gang, unless it has a longer one that evictions paid for."""
        if uid in self.promises and self.promises[uid].until == parts.until:
            del self.promises[uid]

    def decided(
        self, decisions: Collection[Decision], jobs: Mapping[str, Job], names: Sequence[str], *, now: float, wall: float
    ) -> None:
        """Take in the decisions of a pass that began at `now`, after they were sent.

        `names`: of nodes, by row. `wall`: the same time in seconds since 1970.
        """
        evicted: dict[str, tuple[Job, bool]] = {}
        placed: set[str] = set()
        for each in decisions:
            job, by = each.task.job, each.by
            if each.kind is not DecisionKind.EVICT:
                placed.add(job.uid)
                continue
            evicted[job.uid] = job, evicted.get(job.uid, (job, False))[1] or each.action == _MOVING
            takers = self._takers.setdefault(job.uid, set())
            if by is not None:
                takers.add(by.uid)
            if by is not None and by is not job:
                promise = self.promises.setdefault(by.uid, Promise(now))
                promise.until = max(promise.until, now + LEASE_SECONDS + grace_seconds(each.task.pod))
                self._freed[by.uid] = self._freed.get(by.uid, 0.0) + each.task.request
        for job, is_moved in evicted.values():
            self._rest(job, now, is_moved=is_moved)
        self._returned |= placed & (self._rests.keys() | self._takers.keys())
        self._expire(jobs, now)
        self._hold([each.task.job for each in decisions if _is_for_lost(each)], now, wall)
        self._note_nodes(decisions, jobs, names)

    def _rest(self, job: Job, now: float, *, is_moved: bool) -> None:
        """Begin the rest of an evicted job; it is longer than the last if the job came back and lost its minimum."""
        rest = self._rests.setdefault(job.uid, Backoff())
        if job.uid not in self._returned or is_whole(job, ACTIVE):
            rest.seconds /= 2  # which `begin` doubles
        self._returned.discard(job.uid)
        rest.begin(now, REST_SECONDS if is_moved else BACKOFF_SECONDS[0])

    def _expire(self, jobs: Mapping[str, Job], now: float) -> None:
        """End promises that expire, and forget backoffs that ended long ago."""
        for uid in [uid for uid, promise in self.promises.items() if promise.until <= now]:
            del self.promises[uid]
            if uid in jobs:
                self._lapses.setdefault(uid, Backoff()).begin(now)
        for uid in self._freed.keys() - self.promises.keys():
            del self._freed[uid]
        backoffs: tuple[dict[str, Any], ...] = (self._rests, self._lapses, self._holds)
        for table in backoffs:
            for uid in [uid for uid, each in table.items() if each.until + BACKOFF_SECONDS[1] <= now]:
                del table[uid]
        self._returned &= self._rests.keys() | self._takers.keys()

    def _hold(self, gangs: Iterable[Job], now: float, wall: float) -> None:
        """Hold gangs that are evicted because bindings failed."""
        for job in gangs:
            hold = self._holds.setdefault(job.uid, _Hold())
            if hold.until <= now:
                hold.begin(now)
                keys = sorted(job.tasks[task].key for task in job.lost)
                more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
                hold.text = (
                    f"{BINDING_BACKOFF}: the gang was evicted because bindings failed ({keys[0]}{more}); "
                    f"it is scheduled again at {format_time(wall + hold.seconds)}, see the events of these pods"
                )

    def _note_nodes(self, decisions: Iterable[Decision], jobs: Mapping[str, Job], names: Sequence[str]) -> None:
        """Note the nodes that a pass promised; tasks on their way to a node count until they are bound."""
        for uid, promise in self.promises.items():
            job = jobs.get(uid)
            promise.nodes = {
                task: name
                for task, name in promise.nodes.items()
                if job is not None and task in job.tasks and (not name or job.tasks[task].state in ACTIVE)
            }
        for each in decisions:
            if (found := self.promises.get(each.task.job.uid)) is None:
                continue
            if each.kind is DecisionKind.EVICT:
                found.nodes.pop(each.task.uid, None)  # a later plan took the room
            else:
                found.nodes[each.task.uid] = names[each.node]

    # After a crash

    def found_victim(self, uid: str, takers: Collection[str] | None, at: float) -> None:
        """Take in that a job was evicted. `takers`: the jobs that get the room of its ending pods; None if none ends.

        It rests for the longest time: how often it was evicted, and if something of it came back, is not known.
        """
        if takers is not None:
            self._takers.setdefault(uid, set()).update(takers)
        self._rests.setdefault(uid, Backoff()).begin(at, BACKOFF_SECONDS[1])
        self._returned.add(uid)

    def found_promise(self, uid: str, nodes: dict[str, str], now: float, *, leaving: float = 0.0) -> None:
        """Take in the nodes that a job was promised before. `leaving`: the seconds until its victims should be gone."""
        self.promises[uid] = Promise(now + LEASE_SECONDS + leaving, nodes)

    # Limits of a pass

    def held(self, now: float) -> Mapping[str, str]:
        """Return by uid the jobs that must not be placed while they hold no node, and why."""
        return {uid: hold.text for uid, hold in self._holds.items() if hold.until > now}

    def protected(
        self, claimant: Job, now: float, jobs: Mapping[str, Job], takers: Mapping[str, set[str]] | None = None
    ) -> Collection[str]:
        """Return the uids of the jobs that must not be evicted for this one.

        `takers`: by uid of a job that this pass evicts, the jobs that take its room.
        """
        if not self.is_live:
            return ()
        lapse = self._lapses.get(claimant.uid)
        if (lapse is not None and lapse.until > now) or self._has_enough(claimant):
            return jobs.keys()
        resting = {uid for uid in self._returned if uid in self._takers or self._rest_end(uid) > now}
        waiting = self.promises.keys() - {claimant.uid}
        return resting | waiting | self._takers_in_turn(claimant.uid, takers or {})

    def _rest_end(self, uid: str) -> float:
        return self._rests[uid].until if uid in self._rests else -math.inf

    def _has_enough(self, claimant: Job) -> bool:
        """Return True if the victims of earlier passes held all that the waiting tasks of the job ask for."""
        freed = self._freed.get(claimant.uid) if claimant.uid in self.promises else None
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
        return self._lapses.keys() | self._takers.keys() | takers.keys() | self.promises.keys()

    def next_end(self, now: float) -> float | None:
        """Return when the next backoff or promise ends; None if nothing is pending."""
        ends = [each.until for each in self.promises.values()]
        ends += [each.until for each in self._lapses.values()]
        ends += [each.until for each in self._holds.values()]
        ends += map(self._rest_end, self._returned)
        return min((end for end in ends if end > now), default=None)


def _is_for_lost(decision: Decision) -> bool:
    """Return True if this evicts a member of a gang because others cannot be bound."""
    return decision.kind is DecisionKind.EVICT and decision.by is None and bool(decision.task.job.lost)


def _missing(job: Job, tasks: Mapping[str, float], is_bound: Callable[[Pod], bool]) -> dict[str, float]:
    """Return those of the tasks that are there and not bound; none if no member has a node."""
    if not job.count(ALLOCATED):
        return {}
    there = ((job.tasks[uid].pod, uid, at) for uid, at in tasks.items() if uid in job.tasks)
    return {uid: at for pod, uid, at in there if pod is not None and not is_bound(pod)}


def _is_whole_without(job: Job, missing: Iterable[str]) -> bool:
    """Return True if a job has its minimum of nodes, and no missing task is on its way to one."""
    return is_whole(job, ALLOCATED) and not any(job.tasks[uid].state in ALLOCATED for uid in missing)


def _is_kept(promise: Promise, job: Job, is_bound: Callable[[Pod], bool]) -> bool:
    """Return True if the minimum of a job and all that it was promised are bound."""
    bound = {pod.uid for pod in job.pods(ALLOCATED) if is_bound(pod)}
    return len(bound) >= job.min_member and all(task in bound for task in promise.nodes if task in job.tasks)
