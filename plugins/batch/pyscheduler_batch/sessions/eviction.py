"""Evict the victims of a scheduling round: write the condition `DisruptionTarget` to each pod, then delete the pod."""

from __future__ import annotations

import asyncio
import logging
import re
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.api import format_time
from pyscheduler.framework.departures import DISRUPTION_TARGET
from pyscheduler.framework.errors import APIError, ForbiddenError, NotFoundError, TransportError
from pyscheduler.runtime.permit.release import PermitReleases
from pyscheduler.runtime.preemption.disruption import delete_with_condition
from pyscheduler_batch.sessions.backoff import Backoff

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework.handle import Handle
    from pyscheduler.framework.watches import Lister
    from pyscheduler_batch.model.decisions import Decision
    from pyscheduler_batch.model.tasks import Job, Task

    _After = Callable[[Job | None], Awaitable[bool]]

__all__ = ["Evictions", "FailedEviction", "record_of"]

_log = logging.getLogger(__name__)

#: The pauses after the tries to evict a pod, in seconds.
RETRY_SECONDS: Final = (1.0, 2.0, 4.0, 8.0)
#: Besides server errors, the statuses after which a try may succeed.
_PASSING: Final = frozenset({409, 429})


#: What the condition of a pod says that is not evicted.
_GIVEN_UP: Final = "the eviction was given up"

_MESSAGE: Final = re.compile(r"action=(\S+)(?: by=(\S+))?(?: to=(\S+))?( moved=true)?")


def record_of(pod: Pod) -> tuple[str, str, bool] | None:
    """Return action, key of the job that gets the room, and whether the pod was moved, as its condition says.

    None: the pod was not evicted. The key is "" for members of broken gangs.
    """
    for condition in pod.status.conditions:
        if condition.type == DISRUPTION_TARGET and condition.status == "True":
            found = _MESSAGE.match(condition.message)
            return (found[1], found[3] or found[2] or "", found[4] is not None) if found is not None else None
    return None


def _record(eviction: Decision) -> str:
    """Return what the condition of a victim says: `record_of` reads it."""
    text = f"action={eviction.action}"
    if eviction.planned_for is not None:
        text += f" by={eviction.planned_for.key}"
    if eviction.planner is not None and eviction.by is not None:
        text += f" to={eviction.by.key}"
    return f"{text} moved=true" if eviction.is_moved else text


def _jobs_of(eviction: Decision) -> tuple[str, ...]:
    """Return the uids of the victim's job and of the job that gets the room, if one does."""
    own = eviction.task.job.uid
    return (own,) if eviction.by is None else (own, eviction.by.uid)


@attrs.frozen
class FailedEviction:
    """An eviction that does not happen: its pod stays for now."""

    decision: Decision
    #: The time at which the eviction may be tried again, in clock seconds.
    until: float
    #: False: no request was sent, because a pod of the same plan was refused a short time ago.
    was_tried: bool = True


class _GivenUpError(Exception):
    """The job does not wait for the room any more."""


@attrs.define(eq=False)
class _Group:
    """The victims of one job in one pass. None is deleted before all have their condition, so a crash loses none."""

    #: Lets victims go on, so many at each turn of the event loop.
    releases: PermitReleases
    #: Returns whether nobody waits for the room any more.
    is_in_vain: Callable[[], bool]
    unmarked: set[str] = attrs.Factory(set)
    _told: set[str] = attrs.Factory(set)
    #: Whether a victim is being deleted: then the others must follow, because some may be of the same gang.
    _is_begun: bool = False
    _is_given_up: bool = False
    _all: asyncio.Event = attrs.Factory(asyncio.Event)
    _check: asyncio.Future[bool] | None = None
    _may_begin: bool = False

    async def may_begin(self, after: _After, by: Job | None) -> bool:
        """Return what `after` says of the job that gets the room; victims that ask at once share one answer."""
        if not self._may_begin:
            if self._check is None or self._check.done():
                self._check = asyncio.ensure_future(after(by))
            self._may_begin = await asyncio.shield(self._check) or self._may_begin
        await self._take_turn()
        return self._may_begin

    def go_on(self, uid: str) -> None:
        """Do not wait for this pod any more: it has its condition, or a request failed."""
        self.unmarked.discard(uid)
        if not self.unmarked:
            self._all.set()

    def has_told(self, uid: str) -> bool:
        """Return whether a pod has the condition."""
        return uid in self._told

    @property
    def is_given_up(self) -> bool:
        """Return whether no victim is deleted, because nobody waits for the room any more."""
        self._is_given_up = self._is_given_up or (not self._is_begun and self.is_in_vain())
        return self._is_given_up

    async def wait(self, uid: str) -> None:
        """Wait until all have their condition; this pod has. Raises `_GivenUpError` if it is not to be deleted."""
        self._told.add(uid)
        self.go_on(uid)
        await self._all.wait()
        await self._take_turn()
        # Where requests fail, conditions take long to write.
        if self.is_given_up:
            raise _GivenUpError
        self._is_begun = True

    async def _take_turn(self) -> None:
        """Wait until a turn of the event loop in which few others go on."""
        future = asyncio.get_running_loop().create_future()
        self.releases.add(future, is_refused=False)
        await future


@attrs.define(kw_only=True, eq=False)
class Evictions:
    """The evictions of one profile."""

    handle: Handle
    pods: Lister[Pod]
    #: Called when an eviction failed: the pod holds its node for longer than the session thought.
    on_failure: Callable[[], object] = lambda: None
    #: The pods whose deletion was decided and is not seen yet, by uid.
    under_way: dict[str, Pod] = attrs.Factory(dict)
    #: The uids of the pods that were evicted and still exist.
    _leaving: set[str] = attrs.Factory(set)
    #: The evictions that failed for good since `take_failed`.
    _failed: list[FailedEviction] = attrs.Factory(list)
    #: By uid, the pods whose eviction failed for good, with the time until the next try.
    _pauses: dict[str, tuple[Pod, Backoff]] = attrs.Factory(dict)
    _releases: PermitReleases = attrs.Factory(PermitReleases)

    def begin(self, decisions: Iterable[Decision], *, after: _After, nominated: Mapping[str, str]) -> bool:
        """Begin to evict in the background, once `after` has returned True for the job that gets the room.

        Return whether any eviction began. `nominated`: by uid of a pod that waits for room, its node; kept up to date.
        If these nominations end, evictions for them are given up.

        If the eviction of a pod failed a short time ago, nothing begins for the same job, or of the same victim.
        """
        groups: dict[str, _Group] = {}
        begun: list[tuple[Pod, Decision, _Group]] = []
        now, decisions = self.handle.clock.now(), [*decisions]
        paused = {uid: pause.until for uid, (_, pause) in self._pauses.items() if pause.until > now}
        #: By uid of a job, the time at which the last pause of its victims or of its own pods ends.
        held: dict[str, float] = {}
        for each in decisions:
            for uid in _jobs_of(each) if each.task.uid in paused else ():
                held[uid] = max(held.get(uid, now), paused[each.task.uid])
        for each in decisions:
            pod = each.task.pod
            until = max((held[uid] for uid in _jobs_of(each) if uid in held), default=now)
            if until > now:
                self._failed.append(FailedEviction(each, until, was_tried=False))
                # Broken gangs are evicted again in each pass; theirs begins when the pause ends.
                if each.by is not None:
                    self.on_failure()
            elif pod is not None and pod.uid not in self.under_way:
                self.under_way[pod.uid] = pod
                self._leaving.add(pod.uid)
                key = "" if each.by is None else each.by.uid
                group = groups.get(key)
                if group is None:
                    group = groups[key] = _Group(self._releases, self._is_in_vain(each.by, nominated))
                group.unmarked.add(pod.uid)
                begun.append((pod, each, group))
        for pod, each, group in begun:
            self.handle.spawn(self._evict(pod, each, group, after), name=f"evict {pod.key}")
        return bool(begun)

    def take_failed(self) -> Sequence[FailedEviction]:
        """Return the evictions that failed for good since the last call; their pods stay for now."""
        failed, self._failed = self._failed, []
        return failed

    def is_refused(self, task: Task) -> bool:
        """Return whether the eviction of a task failed for good a short time ago: it is not tried yet."""
        pause = self._pauses.get(task.uid)
        return pause is not None and pause[1].until > self.handle.clock.now()

    def was_evicted(self, uid: str) -> bool:
        """Return whether a pod that is gone now was evicted here; asked once per pod."""
        if uid not in self._leaving:
            return False
        self._leaving.remove(uid)
        return True

    def forget_seen(self) -> None:
        """Forget the pods whose deletion the informer has shown."""
        for uid, pod in [*self.under_way.items()]:
            newest = self._newest(pod)
            if newest is None or newest.is_terminating:
                del self.under_way[uid]
        for uid in [uid for uid, (pod, _) in self._pauses.items() if self._newest(pod) is None]:
            del self._pauses[uid]

    def _newest(self, pod: Pod) -> Pod | None:
        """Return a pod as the informer has it; None if it is gone."""
        newest = self.pods.get(pod.name, pod.namespace)
        return newest if newest is not None and newest.uid == pod.uid else None

    async def _evict(self, pod: Pod, decision: Decision, group: _Group, after: _After) -> None:
        """Evict one pod; let the others of its group go on, whatever comes of it."""
        try:
            await self._try_to_evict(pod, decision, group, after)
        finally:
            group.go_on(pod.uid)
        if group.has_told(pod.uid) and pod.uid not in self._leaving and self._newest(pod) is not None:
            await self._tell_that_it_stays(pod)

    async def _try_to_evict(self, pod: Pod, decision: Decision, group: _Group, after: _After) -> None:
        """Evict one pod. A pod that is gone already is no failure."""
        action, by, message = decision.action, decision.by, _record(decision)
        if self.handle.reject_waiting_pod(pod.uid, reason=message):
            self._forget(pod)
            return
        has_failed = False
        # A restarted API server refuses requests for a second, until it has read who may do what.
        is_outage = False
        for pause in RETRY_SECONDS:
            if group.is_given_up:
                has_failed = False
                break
            if not await group.may_begin(after, by):
                is_outage = True
                await self.handle.clock.sleep(pause)
                continue
            try:
                is_deleted = await self._delete(pod, message, partial(group.wait, pod.uid))
            except _GivenUpError:
                has_failed = False
                break
            except (APIError, TransportError) as error:
                has_failed = True
                group.go_on(pod.uid)
                self.handle.recorder.warning("eviction_failed")
                _log.warning("Pod could not be evicted pod=%s action=%s err=%s", pod.key, action, error)
                is_final = isinstance(error, APIError) and error.status < 500 and error.status not in _PASSING
                if is_final and not (is_outage and isinstance(error, ForbiddenError)):
                    break
                is_outage = not is_final  # one refusal is not final
                # Others of the job may be evicted already, so the rest must follow.
                await self.handle.clock.sleep(pause)
            else:
                if is_deleted:
                    _log.info("Evicted pod=%s action=%s by=%s", pod.key, action, by.key if by is not None else "")
                return
        self._forget(pod)
        if has_failed:
            self._failed.append(FailedEviction(decision, self._begin_pause(pod)))
        self.on_failure()

    async def _tell_that_it_stays(self, pod: Pod) -> None:
        """Withdraw the condition of a pod that is not evicted: its failure would count as a disruption.

        The control plane would do so only after two minutes.
        """
        now = format_time(self.handle.clock.wall())
        condition = {"type": DISRUPTION_TARGET, "status": "False", "message": _GIVEN_UP, "lastTransitionTime": now}
        try:
            await self.handle.client.patch_pod_status(pod, {"status": {"conditions": [condition]}})
        except NotFoundError:
            return
        except (APIError, TransportError) as error:
            _log.warning("Condition DisruptionTarget was not withdrawn pod=%s err=%s", pod.key, error)

    def _begin_pause(self, pod: Pod) -> float:
        """Do not evict the pod for a while, twice as long as the last time; return until when.

        Then a pass decides again.
        """
        now = self.handle.clock.now()
        _, pause = self._pauses.setdefault(pod.uid, (pod, Backoff()))
        pause.begin(now)
        self.handle.clock.call_at(pause.until, self.on_failure)
        return pause.until

    def _is_in_vain(self, by: Job | None, nominated: Mapping[str, str]) -> Callable[[], bool]:
        """Return what tells whether a job has lost the promises that it has now, or its pods if it has none.

        A job that is bound on its promised node has kept them, on the room of other victims: the pass has given the
        room of these to others.
        """
        pods = [] if by is None else [task.pod for task in by.tasks.values() if task.pod is not None]
        nodes = {pod.uid: nominated[pod.uid] for pod in pods if pod.uid in nominated}
        asked = [pod for pod in pods if pod.uid in nodes] or pods

        def is_kept(pod: Pod) -> bool:
            # The promise of a pod that is bound may not be forgotten yet.
            return not nodes or nodes[pod.uid] == (pod.node_name or nominated.get(pod.uid))

        def is_in_vain() -> bool:
            there = (pod for pod in map(self._newest, asked) if pod is not None and not pod.is_terminating)
            return not any(map(is_kept, there))

        return is_in_vain if by is not None else lambda: False

    async def _delete(self, pod: Pod, message: str, between: Callable[[], Awaitable[object]]) -> bool:
        # The tables may be older than the status of the pod.
        newest = self._newest(pod) or pod
        now = self.handle.clock.wall()
        return await delete_with_condition(self.handle.client, newest, message=message, now=now, between=between)

    def _forget(self, pod: Pod) -> None:
        """Forget an eviction that did not delete the pod."""
        self.under_way.pop(pod.uid, None)
        self._leaving.discard(pod.uid)
