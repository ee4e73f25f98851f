"""The scheduler as a whole: it starts, schedules one pod after another, and stops with nothing half-done.

The loop pops a pod, runs its scheduling cycle, hands it to a binding task, and after a few cycles, or one that did not
end well, lets the event loop turn, so that watches, timers and bindings have their share.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import attrs

from pyscheduler.framework.status import Code, Status
from pyscheduler.scheduler.failure import pending_version

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from pyscheduler.api import KubeObject, Node, Pod
    from pyscheduler.cache.cache import Cache
    from pyscheduler.cache.snapshot import Snapshot
    from pyscheduler.framework.clock import Clock
    from pyscheduler.framework.pod_info import QueuedPodInfo
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.queue.scheduling_queue import SchedulingQueue
    from pyscheduler.runtime.permissions import Need
    from pyscheduler.runtime.profile import Profile
    from pyscheduler.runtime.routes import Routes
    from pyscheduler.runtime.waiting_pods import WaitingPodMap
    from pyscheduler.runtime.what_if import Exclusive
    from pyscheduler.scheduler.attempt import Attempt
    from pyscheduler.scheduler.binding_cycle import BindingCycle
    from pyscheduler.scheduler.event_handlers import EventHandlers
    from pyscheduler.scheduler.extenders import Extenders
    from pyscheduler.scheduler.group_cycle import GroupCycles
    from pyscheduler.scheduler.in_tree_groups import InTreeGroups
    from pyscheduler.scheduler.pod_status import PodStatusWriter
    from pyscheduler.scheduler.ports import ClusterClient, Informer
    from pyscheduler.scheduler.room import Room
    from pyscheduler.scheduler.scheduling_cycle import SchedulingCycle

__all__ = ["Scheduler"]

_log = logging.getLogger(__name__)

#: The snapshot is not left further behind the cache than so many changes.
_FAR_BEHIND = 250

#: How long a new leader waits for watches that are broken, in seconds.
_CATCH_UP_SECONDS = 10.0

#: While all goes well the loop turns after so many cycles, or so many seconds. What a turn brings (watch events,
#: bindings that begin, events to be written) comes together then, which costs much less than one by one.
_CYCLES_IN_A_ROW = 8
_ROW_SECONDS = 0.001

#: So many binding cycles are started at once.
_BINDINGS_PER_TURN = 50

#: How long a stop takes at most, in seconds, and how much of that is kept for the writes after the last binding.
_STOP_GRACE_SECONDS = 10.0
_LAST_WRITES_SECONDS = 2.0


@attrs.define(kw_only=True, eq=False)
class Scheduler:
    """A scheduler; made by `build`, which is the only place that puts one together."""

    client: ClusterClient
    clock: Clock
    recorder: Recorder
    cache: Cache
    snapshot: Snapshot
    queue: SchedulingQueue
    profiles: Mapping[str, Profile]
    waiting_pods: WaitingPodMap
    statuses: PodStatusWriter
    handlers: EventHandlers
    scheduling: SchedulingCycle
    binding: BindingCycle
    group_cycles: GroupCycles
    room: Room
    #: With the gate GenericWorkload.
    in_tree_groups: InTreeGroups | None = None
    pods: Informer[Pod]
    nodes: Informer[Node]
    #: What plugins answer over HTTP.
    routes: Routes
    #: Who may use the snapshot: a scheduling cycle, or what a plugin asks between two of them.
    exclusive: Exclusive
    #: Informers of the kinds that plugins watch.
    others: Sequence[Informer[KubeObject]] = ()
    #: What it and its plugins ask of the API server, but for what the client path does on its own account.
    needs: Sequence[Need] = ()
    extenders: Extenders | None = None
    #: Scheduling cycles run so far.
    cycles: int = 0
    _bindings: dict[asyncio.Task[None], Attempt] = attrs.Factory(dict)
    _loop: asyncio.Task[None] | None = None
    _stopping: bool = False
    synced: bool = False

    async def start(self) -> None:
        """List and watch everything; return when the caches hold the cluster. Schedules nothing yet."""
        self.nodes.add_event_handler(on_add=self._keep_up, on_update=self._keep_up, on_delete=self._keep_up)
        self.pods.add_event_handler(on_add=self._keep_up, on_update=self._keep_up, on_delete=self._keep_up)
        # Pods last: what a plugin looks up when it first sees a pod should be there, and each pod's node, too.
        for informer in (self.nodes, *self.others):
            informer.start()
        for informer in (self.nodes, *self.others):
            await informer.wait_synced()
        self.pods.start()
        await self.pods.wait_synced()
        self.synced = True
        _log.info(
            "Caches are synced nodes=%d pods=%d pending=%d",
            self.cache.node_count,
            self.cache.pod_count,
            len(self.queue),
        )

    async def catch_up(self) -> None:
        """Return when what was heard while standing by is complete, or after ten seconds all the same.

        A standby whose watch is broken when it comes to lead does not know what its predecessor has bound meanwhile.
        Differs from kube-scheduler, which begins at once, with what it knows.
        """
        informers = (self.nodes, *self.others, self.pods)
        tasks = [asyncio.create_task(informer.catch_up(), name="catch up") for informer in informers]
        late = await self._wait_for(tasks, self.clock.now() + _CATCH_UP_SECONDS)
        for task in late:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if late:
            self.recorder.warning("not_caught_up")
            _log.warning("Scheduling begins though not all watches are open missing=%d", len(late))

    def _keep_up(self, *_: object) -> None:
        """Let the snapshot follow while much changes: a list of everything, at once, would hold the next cycle."""
        far_behind = self.cache.generation - self.snapshot.generation >= _FAR_BEHIND
        # A cycle under way needs its snapshot as it is.
        if far_behind and not self.exclusive.lock.locked():
            self.cache.update_snapshot(self.snapshot)

    async def run(self) -> None:
        """Schedule until stopped; `start` comes first, and where there is a lease, leadership."""
        self.queue.start()
        for profile in self.profiles.values():
            profile.start_background()
        self._loop = asyncio.current_task()
        in_a_row, turned_at = 0, self.clock.now()
        while (queued := self.queue.pop_nowait() or await self.queue.pop()) is not None:
            is_plain = False
            try:
                is_plain = await self.schedule_one(queued)
            except Exception:  # a bug must not end the loop, whatever it costs the pod  # noqa: BLE001
                self.recorder.warning("schedule_one_failed")
                _log.exception("Scheduling failed pod=%s", queued.pod.key)
            in_a_row += 1
            if not is_plain or in_a_row == _CYCLES_IN_A_ROW or self.clock.now() - turned_at >= _ROW_SECONDS:
                await asyncio.sleep(0)
                in_a_row, turned_at = 0, self.clock.now()

    async def schedule_one(self, queued: QueuedPodInfo) -> bool:
        """Run one scheduling cycle, for the pod alone or for its whole group, and begin to bind what it has placed.

        Return whether the next cycle may follow at once: a pod found its node, and nobody waits at Permit. After
        anything else the loop has to turn, because pods may have been refused that give back what they hold.
        """
        pod = queued.pod
        profile = self.profiles.get(pod.scheduler_name)
        has_waited = self.exclusive.lock.locked()
        async with self.exclusive.lock:
            if self.waiting_pods.is_giving_back:
                await self.waiting_pods.given_back()
                has_waited = True
            is_gone = has_waited and pending_version(self.pods, pod) is None
            if profile is None or is_gone or self._skip(profile, pod):
                self.queue.done(pod.uid)
                return False
            if queued.woken_by and not self.queue.settle_early(queued, has_room=self.room.has_room(profile, queued)):
                return False
            self.cycles += 1
            groups = self.group_cycles.find(pod)
            if groups is not None:
                attempts = await self.group_cycles.run_group_cycle(groups, queued, self._skip)
            else:
                self.recorder.queue_wait(self.clock.now() - queued.enqueued_at)
                attempt = await self.scheduling.run_scheduling_cycle(profile, queued)
                attempts = () if attempt is None else (attempt,)
        await self._begin_to_bind(attempts)
        return groups is None and bool(attempts) and not self.waiting_pods

    async def _begin_to_bind(self, attempts: Sequence[Attempt]) -> None:
        """Start the binding cycles, some at a time where they are many: each goes a good way in its first turn."""
        begun = 0
        try:
            for attempt in attempts:
                task = asyncio.create_task(self.binding.run_binding_cycle(attempt), name=f"bind {attempt.pod.key}")
                self._bindings[task] = attempt
                task.add_done_callback(self._binding_done)
                begun += 1
                if begun % _BINDINGS_PER_TURN == 0:
                    await asyncio.sleep(0)
        except asyncio.CancelledError:
            for attempt in attempts[begun:]:
                self.waiting_pods.stop(attempt.pod.uid)
                self.scheduling.undo(attempt)
            raise

    def _skip(self, profile: Profile, pod: Pod) -> bool:
        """Tell whether there is nothing to schedule: the pod is being deleted, or has a node in our books already."""
        if pod.metadata.deletion_timestamp:
            profile.event_recorder.event(
                pod,
                type="Warning",
                reason="FailedScheduling",
                action="Scheduling",
                note=f"skip schedule deleting pod: {pod.key}",
            )
            return True
        return self.cache.is_assumed(pod.uid)

    def _binding_done(self, task: asyncio.Task[None]) -> None:
        """Note that a binding task is over; one that was cut short leaves its pod to be dealt with."""
        attempt = self._bindings.pop(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.recorder.warning("binding_task_failed")
            _log.error("Binding task ended with an error task=%s", task.get_name(), exc_info=error)
        if attempt.is_settled:
            return
        loop = self._loop
        if self._stopping or (loop is not None and (loop.done() or loop.cancelling())):
            # Whatever was reserved is given back; the pod begins anew in the next scheduler.
            self.waiting_pods.stop(attempt.pod.uid)
            self.scheduling.undo(attempt)
            return
        self.recorder.warning("binding_cut_short")
        self.waiting_pods.stop(attempt.pod.uid)
        self.binding.fail(attempt, Status(Code.ERROR, "the binding was cut short"))

    @property
    def binding_count(self) -> int:
        """Return how many binding cycles are under way, waiting pods included."""
        return len(self._bindings)

    @property
    def idle(self) -> bool:
        """Tell whether nothing is left to do until something happens: no pod to pop, bind or report."""
        written = self.statuses.idle and (self.in_tree_groups is None or self.in_tree_groups.idle)
        return not self.queue.active_count and not self._bindings and written

    async def stop(self, *, at_once: bool = False, grace_seconds: float = _STOP_GRACE_SECONDS) -> None:
        """End: no new cycle begins, waiting pods are let go, bindings under way finish, writes are flushed.

        All of that together takes `grace_seconds` at most, also where the API server answers nothing any more. With
        `at_once`, for a scheduler that leads no more, bindings are broken off and nothing more is written.
        """
        if self._stopping:
            return
        self._stopping = True
        end = self.clock.now() + grace_seconds
        self.queue.close()
        if at_once:
            for task in self._bindings:
                task.cancel()
            self._cancel_writes()
        until = end - min(_LAST_WRITES_SECONDS, grace_seconds / 2)
        if self._loop is not None and self._loop is not asyncio.current_task():
            # A cycle that waits for an extender, or for its turn, has done nothing yet that could not be left.
            for task in await self._wait_for([self._loop], until):
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        # A pod that waits at Permit holds nothing in the API; its next life begins in the next scheduler. Not so one
        # that was allowed and is about to go on: others of its group may be bound already.
        for task in [task for task, one in self._bindings.items() if self.waiting_pods.is_held_back(one.pod.uid)]:
            task.cancel()
        late = await self._wait_for(self._bindings, until)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        flush = asyncio.create_task(self._flush(), name="flush statuses")
        # Events are written after that, and need a moment, too.
        if await self._wait_for([flush], (until + end) / 2):
            flush.cancel()
            self._cancel_writes()
        close = asyncio.create_task(self._close(), name="close the scheduler")
        for task in await self._wait_for([close], end):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if close.done() and not close.cancelled():
            close.result()

    async def _flush(self) -> None:
        await self.statuses.flush()
        if self.in_tree_groups is not None:
            await self.in_tree_groups.flush()

    def _cancel_writes(self) -> None:
        self.statuses.cancel()
        if self.in_tree_groups is not None:
            self.in_tree_groups.cancel()

    async def _close(self) -> None:
        for profile in self.profiles.values():
            await profile.close()
        if self.extenders is not None:
            await self.extenders.close()
        await self.client.close()

    async def _wait_for(self, tasks: Iterable[asyncio.Task[None]], until: float) -> Collection[asyncio.Task[None]]:
        """Wait until all are done, or it is too late; return those that are not."""
        pending = {task for task in tasks if not task.done()}
        if not pending:
            return pending
        over = asyncio.ensure_future(self.clock.sleep(max(until - self.clock.now(), 0.0)))
        while pending and not over.done():
            await asyncio.wait({*pending, over}, return_when=asyncio.FIRST_COMPLETED)
            pending = {task for task in pending if not task.done()}
        over.cancel()
        return pending

    def check_invariants(self) -> None:
        """Raise AssertionError where queue, cache or snapshot contradict themselves."""
        self.cache.check_invariants()
        self.queue.check_invariants()
        self.snapshot.check_invariants()
