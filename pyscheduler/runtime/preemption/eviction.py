"""Evict the victims of a preemption, to make room for a pod or pod group (the preemptor).

A bound victim is deleted. A victim at Permit or in PreBind is only rejected. While victims are being evicted, the
preemptor is not retried.

Differs from kube-scheduler: after a failed eviction, the preemptor is retried only after its backoff.

Source: kube-scheduler 1.36, `framework/preemption/executor.go`.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.api import Pod
from pyscheduler.framework.recorder import scheduler_recorder
from pyscheduler.framework.status import Status
from pyscheduler.runtime.preemption.disruption import delete_with_condition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Self

    from pyscheduler.framework.handle import Handle
    from pyscheduler.framework.preemption import Candidate
    from pyscheduler.framework.stories import Stories
    from pyscheduler.framework.watches import Lister
    from pyscheduler.podgroup.wire import InTreePodGroup
    from pyscheduler.runtime.permit.pods_in_pre_bind import PodsInPreBind

__all__ = ["EvictionCause", "Evictions"]

_log = logging.getLogger(__name__)

#: The number of victims of one preemption that are evicted concurrently.
_PARALLEL: Final = 16
_ALLOWED: Final = "allowed"
#: Where a pod queues that holds no node in memory.
_QUEUES: Final = frozenset({"active", "backoff", "unschedulable", "held"})


@attrs.frozen(kw_only=True)
class EvictionCause:
    """The preemptor: the pod or the pod group that victims are evicted for.

    `kind`: "pod" or "podgroup", as events and conditions name it. `waiting`: returns the pods that wait for the
    evictions. `related`: the object that the events name beside the victim; for a pod, kube-scheduler names none.
    """

    kind: str
    key: str
    uid: str
    scheduler_name: str
    priority: int
    waiting: Callable[[], Iterable[Pod]]
    related: InTreePodGroup | None = None

    @classmethod
    def of_pod(cls, pod: Pod) -> Self:
        """Return the cause for a single pod."""
        return cls(
            kind="pod",
            key=pod.key,
            uid=pod.uid,
            scheduler_name=pod.scheduler_name,
            priority=pod.priority,
            waiting=lambda: (pod,),
        )

    @classmethod
    def of_group(cls, group: InTreePodGroup, scheduler_name: str, waiting: Callable[[], Iterable[Pod]]) -> Self:
        """Return the cause for a PodGroup; `waiting` returns its members without a node."""
        return cls(
            kind="podgroup",
            key=group.key,
            uid=group.uid,
            scheduler_name=scheduler_name,
            priority=group.spec.priority or 0,
            waiting=waiting,
            related=group,
        )


@attrs.define(eq=False)
class _UnderWay:
    """An eviction in the background; `last` is its last victim, once all others are evicted."""

    last: Pod | None = None
    #: Whether the preemptor was held back in the meantime, and may have missed events.
    held_back: bool = False


class Evictions:
    """The evictions in the name of one plugin. `in_background`: the gate SchedulerAsyncPreemption."""

    def __init__(
        self,
        plugin: str,
        *,
        handle: Handle,
        in_pre_bind: PodsInPreBind,
        stories: Stories,
        in_background: bool,
        retry_after_backoff: Callable[[Iterable[Pod]], object],
    ) -> None:
        self._plugin = plugin
        self._handle = handle
        self._retry_after_backoff = retry_after_backoff
        self._in_pre_bind = in_pre_bind
        self._stories = stories
        self._in_background = in_background
        self._pods: Lister[Pod] = handle.lister(Pod)
        #: By uid of the preemptor.
        self._under_way: dict[str, _UnderWay] = {}
        #: By uid, victims that were deleted and whose watch event has not come yet; they are not deleted twice.
        self._deleted: dict[str, Pod] = {}

    def is_under_way(self, uid: str) -> bool:
        """Return True if some victim of the preemptor with that uid is not evicted yet."""
        under_way = self._under_way.get(uid)
        if under_way is None:
            return False
        # The event of the last victim may come before the answer to the request that deletes it. The preemptor must not
        # be held back then: no other event will wake it.
        if under_way.last is not None and self._is_leaving(under_way.last):
            under_way.held_back = False
            return False
        under_way.held_back = True
        return True

    def _is_leaving(self, victim: Pod) -> bool:
        newest = self._newest(victim)
        return newest is None or newest.is_terminating

    def _is_to_end(self, victim: Pod) -> bool:
        """Return True if the pod was deleted, and the event of its end is still to come and will wake the preemptor.

        If a pod that held its node in memory only is deleted, its binding fails; its end frees nothing then.
        """
        newest = self._newest(victim)
        if newest is None or not newest.node_name:
            return False
        return newest.is_terminating or victim.uid in self._deleted

    def _newest(self, victim: Pod) -> Pod | None:
        newest = self._pods.get(victim.name, victim.namespace)
        return newest if newest is not None and newest.uid == victim.uid else None

    async def evict(self, candidate: Candidate, preemptor: EvictionCause) -> Status | None:
        """Evict the victims, or begin to in the background; return an ERROR if that failed at once."""
        handle = self._handle
        self._deleted = {uid: victim for uid, victim in self._deleted.items() if not self._is_leaving(victim)}
        victims = [
            info.pod for info in candidate.victims if not info.pod.is_terminating and info.pod.uid not in self._deleted
        ]
        if not self._in_background:
            scheduler_recorder(handle).observe("scheduler_preemption_victims", len(candidate.victims))
            failure = await self._evict_all(victims, candidate.node_name, preemptor)
            if failure is not None:
                return Status.from_error(failure)
            await self._release_nominated(candidate.node_name, preemptor)
            return None
        if not victims:
            return None
        scheduler_recorder(handle).observe("scheduler_preemption_victims", len(candidate.victims))
        under_way = _UnderWay()
        work = self._evict_in_background(under_way, victims, candidate.node_name, preemptor)
        task = handle.spawn(work, name=f"{self._plugin} preemption for {preemptor.key}")
        self._under_way[preemptor.uid] = under_way
        # Also if the task is cancelled before it starts.
        task.add_done_callback(lambda _: self._over(preemptor, under_way, failed=True))
        return None

    def _over(self, preemptor: EvictionCause, under_way: _UnderWay, *, failed: bool = False) -> None:
        """End an eviction; retry the preemptor if no event may come to wake it, after its backoff if it `failed`."""
        if self._under_way.get(preemptor.uid) is under_way:
            del self._under_way[preemptor.uid]
            if failed:
                self._retry_after_backoff(preemptor.waiting())
            elif under_way.held_back:
                self._handle.activate(preemptor.waiting())

    async def _evict_in_background(
        self, under_way: _UnderWay, victims: Sequence[Pod], node_name: str, preemptor: EvictionCause
    ) -> None:
        handle = self._handle
        began = handle.clock.now()
        released = await self._release_nominated(node_name, preemptor)
        failure = await self._evict_all(victims[:-1], node_name, preemptor)
        if failure is None:
            under_way.last = victims[-1]
            # Not in a task of its own: the event about a victim that is rejected in memory comes one turn of the event
            # loop later, and the preemptor must not be held back any more by then.
            answer = await self._try_to_evict(victims[-1], node_name, preemptor)
            failure = answer if isinstance(answer, Exception) else None
            if answer is True or any(map(self._is_to_end, victims)):
                # The event that wakes the preemptor is still to come; now its victims are still there.
                under_way.held_back = False
        # A nomination that is not cleared is an error, as in kube-scheduler. But there is room now: no backoff.
        under_way.held_back = under_way.held_back or not released
        self._over(preemptor, under_way, failed=failure is not None)
        result = "success" if released and failure is None else "error"
        seconds = handle.clock.now() - began
        scheduler_recorder(handle).count("scheduler_preemption_goroutines_execution_total", result)
        scheduler_recorder(handle).observe("scheduler_preemption_goroutines_duration_seconds", seconds, result)
        _log.info(
            "Preemption finished plugin=%s preemptor=%s node=%s victims=%d result=%s",
            *(self._plugin, preemptor.key, node_name, len(victims), result),
        )

    async def _evict_all(self, victims: Sequence[Pod], node_name: str, preemptor: EvictionCause) -> Exception | None:
        """Evict victims, several concurrently; return the first failure, after which no more are evicted."""
        failure: Exception | None = None
        left = iter(victims)

        async def evict_some() -> None:
            nonlocal failure
            for victim in left:
                if failure is not None:
                    return
                answer = await self._try_to_evict(victim, node_name, preemptor)
                failure = failure or (answer if isinstance(answer, Exception) else None)

        await asyncio.gather(*(evict_some() for _ in range(min(_PARALLEL, len(victims)))))
        return failure

    async def _try_to_evict(self, victim: Pod, node_name: str, preemptor: EvictionCause) -> Exception | bool:
        """Evict one victim; return the error if that failed."""
        try:
            return await self._evict_one(victim, node_name, preemptor)
        except Exception as error:  # noqa: BLE001 - whatever it is, this victim may still be there
            self._handle.recorder.warning("eviction_failed")
            _log.warning(
                "Victim could not be preempted plugin=%s preemptor=%s victim=%s err=%s",
                *(self._plugin, preemptor.key, victim.key, error),
            )
            return error

    async def _evict_one(self, victim: Pod, node_name: str, preemptor: EvictionCause) -> bool:
        """Reject the victim in memory, or delete it; write an event and a record in its story.

        A victim that is gone already is no failure. Return True if it was rejected in memory.
        """
        note = f"Preempted by {preemptor.kind} {preemptor.uid} on node {node_name}"
        rejected = self._reject_in_memory(victim)
        if rejected:
            note += " (in kube-scheduler memory)."
        elif self._holds_nothing(victim):
            _log.info(
                "Victim holds no node any more preemptor=%s victim=%s node=%s", preemptor.key, victim.key, node_name
            )
            return False
        elif not await self._delete(victim, preemptor):
            _log.info("Victim is gone already preemptor=%s victim=%s node=%s", preemptor.key, victim.key, node_name)
            return False
        _log.info("Preemptor preempted victim preemptor=%s victim=%s node=%s", preemptor.key, victim.key, node_name)
        self._handle.event_recorder.event(
            victim, type="Normal", reason="Preempted", action="Preempting", note=note, related=preemptor.related
        )
        self._stories.ended(victim, "Preempted", node=node_name, others=(preemptor.key,))
        return rejected

    def _reject_in_memory(self, victim: Pod) -> bool:
        held = self._handle.get_waiting_pod(victim.uid)
        if held is not None:
            return held.preempt(self._plugin, "preempted")
        return self._in_pre_bind.cancel(victim.uid, f"preempted by {self._plugin}")

    def _holds_nothing(self, victim: Pod) -> bool:
        """Return True if a victim that held its node in memory has given it up since it was chosen.

        Members of a group do so together: once the first is rejected, the others give up their nodes, too. Deleting
        them then would free nothing.
        """
        verdict = self._handle.wait_verdict(victim.uid)
        if verdict is not None and verdict.cause != _ALLOWED:
            return True
        return self._handle.queue_place(victim.uid) in _QUEUES

    async def _delete(self, victim: Pod, preemptor: EvictionCause) -> bool:
        """Write the condition, then delete the pod; return False if it is gone already."""
        seen = self._pods.get(victim.name, victim.namespace)
        # The snapshot may be older than the status of the pod.
        victim = seen if seen is not None and seen.uid == victim.uid else victim
        message = f"{preemptor.scheduler_name}: preempting to accommodate a higher priority {preemptor.kind}"
        now = self._handle.clock.wall()
        is_deleted = await delete_with_condition(self._handle.client, victim, message=message, now=now)
        if is_deleted:
            self._deleted[victim.uid] = victim
        return is_deleted

    async def _release_nominated(self, node_name: str, preemptor: EvictionCause) -> bool:
        """Clear nominations of pods of lower priority to the node; return False if that failed."""
        done = True
        for info in self._handle.nominator.pods_on(node_name):
            pod = info.pod
            if pod.priority >= preemptor.priority or not pod.status.nominated_node_name:
                continue
            try:
                await self._handle.client.patch_pod_status(pod, {"status": {"nominatedNodeName": None}})
            except Exception as error:  # noqa: BLE001 - not critical: the next attempt of the pod corrects it
                done = False
                self._handle.recorder.warning("nomination_not_cleared")
                _log.warning("Nomination is not cleared pod=%s node=%s err=%s", pod.key, node_name, error)
        return done
