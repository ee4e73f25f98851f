"""Telling the victims of a preemption to go.

A victim that is not bound yet is turned away in memory: at Permit its wait ends, and in PreBind its binding is called
off. Any other gets the condition DisruptionTarget and is deleted, with its grace period. By default that happens in the
background, and until the last victim has been told the preemptor is not tried again: it would only find its victims
where they were. Then their end is what brings it back; where telling them failed, it is activated at once. Pods of
lower priority that were usage the node are released first, so that they look elsewhere.

Differs from kube-scheduler: a victim is deleted only if it has the uid it was chosen by, so that a pod made anew under
its name is spared, and so is one that held its place in memory and has given it up since; and a preemptor that was held
back is activated when all were told and the end of none is to be heard of any more, since what it was held back from
may have been the one event that would have helped it. Source: kube-scheduler 1.36, `framework/preemption/executor.go`.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.api import Pod, format_time
from pyscheduler.framework.errors import ConflictError, NotFoundError
from pyscheduler.framework.preemption import DISRUPTION_TARGET, PREEMPTION_BY_SCHEDULER
from pyscheduler.framework.status import Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyscheduler.framework.handle import Handle
    from pyscheduler.framework.preemption import Candidate
    from pyscheduler.framework.watches import Lister
    from pyscheduler.runtime.pods_in_pre_bind import PodsInPreBind

__all__ = ["Evictions"]

_log = logging.getLogger(__name__)

#: So many victims of one preemption are told at once.
_PARALLEL: Final = 16
_ALLOWED: Final = "allowed"
#: Where a pod queues that has no place in memory.
_QUEUES: Final = frozenset({"active", "backoff", "unschedulable", "held"})


@attrs.define(eq=False)
class _UnderWay:
    """An eviction in the background; `last` is its last victim, once all others were told."""

    last: Pod | None = None
    #: Whether the preemptor was held back meanwhile, and what happened passed it by.
    held_back: bool = False


class Evictions:
    """The evictions in the name of one plugin. `in_background`: the gate SchedulerAsyncPreemption."""

    def __init__(self, plugin: str, *, handle: Handle, in_pre_bind: PodsInPreBind, in_background: bool) -> None:
        self._plugin = plugin
        self._handle = handle
        self._in_pre_bind = in_pre_bind
        self._in_background = in_background
        self._pods: Lister[Pod] = handle.lister(Pod)
        #: By uid of the preemptor.
        self._under_way: dict[str, _UnderWay] = {}
        #: By uid, victims that were deleted and seem not to know it yet; nobody tells them twice.
        self._told: dict[str, Pod] = {}

    def is_under_way(self, uid: str) -> bool:
        """Tell whether some victim of the preemptor with that uid was not told to go yet."""
        under_way = self._under_way.get(uid)
        if under_way is None:
            return False
        # The end of the last may be heard of before the request that causes it is answered. To wait for that answer
        # then would be to wait for an event that is over.
        if under_way.last is not None and self._is_leaving(under_way.last):
            under_way.held_back = False
            return False
        under_way.held_back = True
        return True

    def _is_leaving(self, victim: Pod) -> bool:
        newest = self._newest(victim)
        return newest is None or newest.is_terminating

    def _is_to_end(self, victim: Pod) -> bool:
        """Tell whether the pod was deleted, and its end was not heard of yet."""
        newest = self._newest(victim)
        return newest is not None and (newest.is_terminating or victim.uid in self._told)

    def _newest(self, victim: Pod) -> Pod | None:
        newest = self._pods.get(victim.name, victim.namespace)
        return newest if newest is not None and newest.uid == victim.uid else None

    async def evict(self, candidate: Candidate, preemptor: Pod) -> Status | None:
        """Tell the victims to go, or begin to; return an ERROR where that failed before anybody else could know."""
        handle = self._handle
        self._told = {uid: victim for uid, victim in self._told.items() if not self._is_leaving(victim)}
        victims = [
            info.pod for info in candidate.victims if not info.pod.is_terminating and info.pod.uid not in self._told
        ]
        if not self._in_background:
            handle.recorder.preemption_victims(len(candidate.victims))
            failure = await self._tell_all(victims, candidate.node_name, preemptor)
            if failure is not None:
                return Status.from_error(failure)
            await self._release_nominated(candidate.node_name, preemptor)
            return None
        if not victims:
            return None
        handle.recorder.preemption_victims(len(candidate.victims))
        under_way = _UnderWay()
        work = self._evict_beside(under_way, victims, candidate.node_name, preemptor)
        task = handle.spawn(work, name=f"{self._plugin} preemption for {preemptor.key}")
        self._under_way[preemptor.uid] = under_way
        # However it ends, also cut short before it began, it is over.
        task.add_done_callback(lambda _: self._over(preemptor, under_way, failed=True))
        return None

    def _over(self, preemptor: Pod, under_way: _UnderWay, *, failed: bool = False) -> None:
        """Note that an eviction is through, and let the preemptor try again where no event may come to wake it."""
        if self._under_way.get(preemptor.uid) is under_way:
            del self._under_way[preemptor.uid]
            if failed or under_way.held_back:
                self._handle.activate([preemptor])

    async def _evict_beside(self, under_way: _UnderWay, victims: Sequence[Pod], node_name: str, preemptor: Pod) -> None:
        handle = self._handle
        began = handle.clock.now()
        failed = not await self._release_nominated(node_name, preemptor)
        failure = await self._tell_all(victims[:-1], node_name, preemptor)
        if failure is None:
            under_way.last = victims[-1]
            # Not in a task of its own: a victim that is turned away in memory announces its end a turn later, and the
            # preemptor must not be held back any more by then.
            answer = await self._try_to_tell(victims[-1], node_name, preemptor)
            failure = answer if isinstance(answer, Exception) else None
            if answer is True or any(map(self._is_to_end, victims)):
                # What brings the preemptor is still to come. To try it now would be to find its victims there.
                under_way.held_back = False
        failed = failed or failure is not None
        self._over(preemptor, under_way, failed=failed)
        handle.recorder.preemption_run(result="error" if failed else "success", seconds=handle.clock.now() - began)
        _log.info(
            "Preemption is through pod=%s node=%s victims=%d result=%s",
            preemptor.key,
            node_name,
            len(victims),
            "error" if failed else "success",
        )

    async def _tell_all(self, victims: Sequence[Pod], node_name: str, preemptor: Pod) -> Exception | None:
        """Tell victims to go, several at once; return the first failure, after which no more are told."""
        failure: Exception | None = None
        left = iter(victims)

        async def tell_some() -> None:
            nonlocal failure
            for victim in left:
                if failure is not None:
                    return
                answer = await self._try_to_tell(victim, node_name, preemptor)
                failure = failure or (answer if isinstance(answer, Exception) else None)

        await asyncio.gather(*(tell_some() for _ in range(min(_PARALLEL, len(victims)))))
        return failure

    async def _try_to_tell(self, victim: Pod, node_name: str, preemptor: Pod) -> Exception | bool:
        """Do as `_tell` does; return what went wrong."""
        try:
            return await self._tell(victim, node_name, preemptor)
        except Exception as error:  # noqa: BLE001 - whatever it is, this victim may still be there
            self._handle.recorder.warning("eviction_failed")
            _log.warning("Victim could not be preempted pod=%s victim=%s err=%s", preemptor.key, victim.key, error)
            return error

    async def _tell(self, victim: Pod, node_name: str, preemptor: Pod) -> bool:
        """Turn the victim away in memory, or delete it; say so in an event. One that is gone already is no failure.

        Return whether it was turned away in memory.
        """
        note = f"Preempted by pod {preemptor.uid} on node {node_name}"
        turned_away = self._turned_away(victim)
        if turned_away:
            note += " (in kube-scheduler memory)."
        elif self._holds_nothing(victim):
            _log.info("Victim has no place any more pod=%s victim=%s node=%s", preemptor.key, victim.key, node_name)
            return False
        elif not await self._delete(victim, preemptor):
            _log.info("Victim is gone already pod=%s victim=%s node=%s", preemptor.key, victim.key, node_name)
            return False
        _log.info("Preemptor preempted victim pod=%s victim=%s node=%s", preemptor.key, victim.key, node_name)
        self._handle.event_recorder.event(victim, type="Normal", reason="Preempted", action="Preempting", note=note)
        return turned_away

    def _turned_away(self, victim: Pod) -> bool:
        held = self._handle.get_waiting_pod(victim.uid)
        if held is not None:
            return held.preempt(self._plugin, "preempted")
        return self._in_pre_bind.cancel(victim.uid, f"preempted by {self._plugin}")

    def _holds_nothing(self, victim: Pod) -> bool:
        """Tell whether a victim that held its place in memory has given it up since it was chosen.

        Members of a group do so together: the first that is turned away takes the others along. To delete them then
        would make no room.
        """
        result = self._handle.wait_verdict(victim.uid)
        if result is not None and result.cause != _ALLOWED:
            return True
        return self._handle.queue_place(victim.uid) in _QUEUES

    async def _delete(self, victim: Pod, preemptor: Pod) -> bool:
        """Write the condition, then delete; return False where the pod is gone already."""
        client = self._handle.client
        seen = self._pods.get(victim.name, victim.namespace)
        # The snapshot need not have heard what was written into a pod's status since.
        victim = seen if seen is not None and seen.uid == victim.uid else victim
        condition = self._condition(victim, preemptor)
        try:
            if condition is not None:
                # A merge puts what is new first unless it is told the order.
                types = dict.fromkeys((*(each.type for each in victim.status.conditions), DISRUPTION_TARGET))
                order = [{"type": each} for each in types]
                status = {"$setElementOrder/conditions": order, "conditions": [condition]}
                await client.patch_pod_status(victim, {"status": status})
            await client.delete(Pod, victim.name, victim.namespace, uid=victim.uid)
            self._told[victim.uid] = victim
        except NotFoundError:
            return False
        except ConflictError:
            if await self._is_gone(victim):
                return False
            raise
        return True

    async def _is_gone(self, victim: Pod) -> bool:
        try:
            return (await self._handle.client.get(Pod, victim.name, victim.namespace)).uid != victim.uid
        except NotFoundError:
            return True

    def _condition(self, victim: Pod, preemptor: Pod) -> Mapping[str, object] | None:
        """Return the condition to write; None where the pod carries it."""
        message = f"{preemptor.scheduler_name}: preempting to accommodate a higher priority pod"
        generation = victim.metadata.generation
        present = next((each for each in victim.status.conditions if each.type == DISRUPTION_TARGET), None)
        wanted = ("True", PREEMPTION_BY_SCHEDULER, message, generation)
        if present is not None and wanted == (
            present.status,
            present.reason,
            present.message,
            present.observed_generation,
        ):
            return None
        condition: dict[str, object] = {
            "type": DISRUPTION_TARGET,
            "status": "True",
            "reason": PREEMPTION_BY_SCHEDULER,
            "message": message,
            "lastProbeTime": None,
        }
        if generation:
            condition["observedGeneration"] = generation
        if present is None or present.status != "True":
            condition["lastTransitionTime"] = format_time(self._handle.clock.wall())
        return condition

    async def _release_nominated(self, node_name: str, preemptor: Pod) -> bool:
        """Take the node from pods of lower priority that were usage it; return False where that failed."""
        done = True
        for info in self._handle.nominator.pods_on(node_name):
            pod = info.pod
            if pod.priority >= preemptor.priority or not pod.status.nominated_node_name:
                continue
            try:
                await self._handle.client.patch_pod_status(pod, {"status": {"nominatedNodeName": None}})
            except Exception as error:  # noqa: BLE001 - not critical: the pod finds out at its next attempt
                done = False
                self._handle.recorder.warning("nomination_not_cleared")
                _log.warning("Nomination is not cleared pod=%s node=%s err=%s", pod.key, node_name, error)
        return done
