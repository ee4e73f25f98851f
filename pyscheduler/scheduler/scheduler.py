"""The scheduler as a whole: start, the scheduling loop, stop.

The loop takes the next `Work`, for example an attempt to schedule a pod or a group, and runs it. Each pod that found a
node gets a binding task.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import attrs

from pyscheduler.framework.status import Code, Status
from pyscheduler.scheduler.adoption import adopt_bindings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from kube_objects.clock import Clock
    from pyscheduler.api import KubeObject, Node, Pod
    from pyscheduler.cache.cache import Cache
    from pyscheduler.cache.snapshot import Snapshot
    from pyscheduler.framework.plugin_failures import PluginFailures
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.framework.stories import Stories
    from pyscheduler.queue.scheduling_queue import SchedulingQueue
    from pyscheduler.runtime.assembly.permissions import Need
    from pyscheduler.runtime.permit.waiting_pods import WaitingPodMap
    from pyscheduler.runtime.profile import Profile
    from pyscheduler.runtime.routes import Routes
    from pyscheduler.runtime.snapshot_access import SnapshotAccess
    from pyscheduler.scheduler.attempt import Attempt
    from pyscheduler.scheduler.binding_cycle import BindingCycle
    from pyscheduler.scheduler.event_handlers import EventHandlers
    from pyscheduler.scheduler.extenders import Extenders
    from pyscheduler.scheduler.pod_status import PodStatusWriter
    from pyscheduler.scheduler.ports import ClusterClient, Informer, Writer
    from pyscheduler.scheduler.queued_pods import QueuedPods
    from pyscheduler.scheduler.scheduling_cycle import SchedulingCycle
    from pyscheduler.scheduler.work import Work, WorkSource, WorkSources

__all__ = ["Scheduler"]

_log = logging.getLogger(__name__)

#: The largest number of changes by which the snapshot may be behind the cache.
_FAR_BEHIND = 250

#: How long a new leader waits for broken watches, in seconds.
_CATCH_UP_SECONDS = 10.0

#: How long the first cycle waits for `prepare()` of plugins, in seconds.
_PREPARE_SECONDS = 10.0

#: The loop yields after that many works in a row, or that many seconds. The other tasks (watch events, bindings that
#: begin, events to be written) then run together, which costs much less than one by one.
_WORKS_IN_A_ROW = 8
_ROW_SECONDS = 0.001

#: The number of binding cycles that begin before the loop yields.
_BINDINGS_PER_TURN = 50

#: The longest duration of a stop, and the part of it that is reserved for the writes after the last binding. Seconds.
_STOP_GRACE_SECONDS = 10.0
_LAST_WRITES_SECONDS = 2.0


@attrs.define(kw_only=True, eq=False)
class Scheduler:
    """A scheduler; `build` is the only place that makes one."""

    client: ClusterClient
    clock: Clock
    recorder: Recorder
    #: What plugins did wrong.
    plugin_failures: PluginFailures
    cache: Cache
    snapshot: Snapshot
    queue: SchedulingQueue
    profiles: Mapping[str, Profile]
    waiting_pods: WaitingPodMap
    statuses: PodStatusWriter
    handlers: EventHandlers
    scheduling: SchedulingCycle
    binding: BindingCycle
    #: What the loop runs next. `queued_pods` is one of the sources.
    work: WorkSources
    queued_pods: QueuedPods
    #: Everything that writes to the API server in the background, `statuses` among them.
    writers: Sequence[Writer]
    pods: Informer[Pod]
    nodes: Informer[Node]
    #: HTTP handlers of plugins.
    routes: Routes
    #: The lock on the snapshot: a work has it, or a question that a plugin asks between two works.
    snapshot_access: SnapshotAccess
    #: Returns the permissions that the scheduler and its plugins need, without those of the client path.
    needs: Callable[[], Sequence[Need]]
    #: Informers of the kinds that plugins watch.
    others: Sequence[Informer[KubeObject]] = ()
    extenders: Extenders | None = None
    #: The sources of `work` that plugins have added.
    sources: list[WorkSource] = attrs.Factory(list)
    _bindings: dict[asyncio.Task[None], Attempt] = attrs.Factory(dict)
    _loop: asyncio.Task[None] | None = None
    _stopping: bool = False
    synced: bool = False

    async def start(self) -> None:
        """List and watch all kinds; return when the caches hold the cluster. Schedules nothing yet."""
        self.nodes.add_event_handler(on_add=self._keep_up, on_update=self._keep_up, on_delete=self._keep_up)
        self.pods.add_event_handler(on_add=self._keep_up, on_update=self._keep_up, on_delete=self._keep_up)
        # Pods last, so that a plugin that sees a pod finds the pod's node and all other objects.
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
        """Return when all watches are open, or after ten seconds; call it when leadership begins.

        A standby whose watch is broken does not know which pods its predecessor has bound.
        Differs from kube-scheduler, which begins at once.
        """
        informers = (self.nodes, *self.others, self.pods)
        tasks = [asyncio.create_task(informer.catch_up(), name="catch up") for informer in informers]
        late = await self._end_by(tasks, self.clock.now() + _CATCH_UP_SECONDS)
        if late:
            self.recorder.warning("not_caught_up")
            _log.warning("Scheduling begins though not all watches are open missing=%d", len(late))

    def _keep_up(self, *_: object) -> None:
        """Let the snapshot follow while much changes: a list of everything, at once, would hold the next cycle."""
        far_behind = self.cache.generation - self.snapshot.generation >= _FAR_BEHIND
        # A cycle under way needs its snapshot as it is.
        if far_behind and not self.snapshot_access.is_held:
            self.cache.update_snapshot(self.snapshot)

    async def run(self) -> None:
        """Schedule until stopped; `start` comes first, and where there is a lease, leadership."""
        self.stories.begin()
        self.queue.start()
        self.handlers.rejections.start()
        self._loop = asyncio.current_task()
        await self._prepare()
        for profile in self.profiles.values():
            profile.start_background()
        await self.begin_to_bind(adopt_bindings(self.scheduling, self.profiles.values()))
        in_a_row, yielded_at = 0, self.clock.now()
        while (work := await self.work.next()) is not None:
            may_continue = False
            try:
                may_continue = await self._run_work(work)
            except Exception:  # a bug must not end the loop, and must lose no pod  # noqa: BLE001
                self.recorder.warning("schedule_one_failed")
                _log.exception("Scheduling failed %s", work.name)
                self._requeue_abandoned()
            in_a_row += 1
            if not may_continue or in_a_row == _WORKS_IN_A_ROW or self.clock.now() - yielded_at >= _ROW_SECONDS:
                await asyncio.sleep(0)
                in_a_row, yielded_at = 0, self.clock.now()

    async def _prepare(self) -> None:
        """Wait for `prepare()` of all plugins, ten seconds at most."""
        tasks = [task for profile in self.profiles.values() for task in profile.start_preparations()]
        for task in await self._end_by(tasks, self.clock.now() + _PREPARE_SECONDS) if tasks else ():
            self.recorder.warning("plugin_not_prepared")
            _log.warning("Scheduling begins though a plugin is not prepared task=%s", task.get_name())

    def add_source(self, source: WorkSource) -> None:
        """Add a kind of work; call it before `start`. The queue holds the pods of the source's profiles for it."""
        self.queue.hold(source.held_profiles)
        self.sources.append(source)
        self.work.add(source)

    async def _run_work(self, work: Work) -> bool:
        """Run one work under the lock on the snapshot and begin its bindings; return whether the next may follow."""
        async with self.snapshot_access as has_waited:
            result = await work.run(has_waited)
        await self.begin_to_bind(result.attempts)
        return result.may_continue

    def _requeue_abandoned(self) -> None:
        """Return the pods to the queue that a failed work popped or took and did not deal with."""
        bound = {attempt.pod.uid for attempt in self._bindings.values()}
        for queued in [flight.info for flight in self.queue.in_flight]:
            if queued.pod.uid not in bound:
                queued.unschedulable_plugins, queued.pending_plugins = set(), set()
                queued.woken_by = ""  # an error counts, also in an attempt that an event brought
                self.queue.requeue_failed(queued)

    @property
    def stories(self) -> Stories:
        """The record of why each pod waits."""
        return self.scheduling.stories

    @property
    def cycles(self) -> int:
        """Return how many scheduling cycles were run so far."""
        return self.queued_pods.cycles

    async def begin_to_bind(self, attempts: Sequence[Attempt]) -> None:
        """Start the binding cycles, and yield after each fifty: the first step of a binding cycle is long."""
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

    def _binding_done(self, task: asyncio.Task[None]) -> None:
        """Forget a binding task that ended; if it was cut short, return its pod to the queue or release its node."""
        attempt = self._bindings.pop(task)
        if attempt.barrier is not None:
            attempt.barrier.leave(attempt.pod.uid)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.recorder.warning("binding_task_failed")
            _log.error("Binding task ended with an error task=%s", task.get_name(), exc_info=error)
        if attempt.is_settled:
            return
        loop = self._loop
        if self._stopping or (loop is not None and (loop.done() or loop.cancelling())):
            # Release what the pod reserved; the next scheduler starts again with the pod.
            self.waiting_pods.stop(attempt.pod.uid)
            self.scheduling.undo(attempt)
            return
        self.recorder.warning("binding_cut_short")
        self.waiting_pods.stop(attempt.pod.uid)
        self.binding.fail(attempt, Status(Code.ERROR, "the binding was cut short"))

    @property
    def binding_count(self) -> int:
        """Return how many binding cycles run now, those of waiting pods included."""
        return len(self._bindings)

    def binding_node(self, uid: str) -> str:
        """Return the node to which a binding cycle is binding the pod; "" if none runs for it."""
        attempts = (attempt for attempt in self._bindings.values() if attempt.pod.uid == uid)
        return next((attempt.pod.node_name for attempt in attempts), "")

    @property
    def idle(self) -> bool:
        """Return True if nothing is left to do until an event or a timer: no work, no binding, no write."""
        is_deciding = self.work.has_work or bool(self._bindings)
        return not is_deciding and self.handlers.rejections.idle and all(writer.idle for writer in self.writers)

    async def stop(self, *, at_once: bool = False, grace_seconds: float = _STOP_GRACE_SECONDS) -> None:
        """End: no new work begins, waiting pods are released, bindings under way finish, writes are flushed.

        This takes `grace_seconds` at most, also if the API server does not answer. With `at_once`, for a scheduler that
        lost its leadership, bindings are cancelled and nothing more is written.
        """
        if self._stopping:
            return
        self._stopping = True
        end = self.clock.now() + grace_seconds
        last_binding = end - min(_LAST_WRITES_SECONDS, grace_seconds / 2)
        self.work.close()
        self.queue.stop()
        if at_once:
            for task in self._bindings:
                task.cancel()
            self._cancel_writes()
        if self._loop is not asyncio.current_task():
            # A work that waits for an extender, or for the lock, has done nothing that must be finished.
            await self._end_by([self._loop] if self._loop is not None else (), last_binding)
        # A pod that waits at Permit has written nothing; the next scheduler starts again with it. A pod that was
        # allowed must go on, because other members of its group may be bound already.
        for task, attempt in list(self._bindings.items()):
            if self.waiting_pods.is_held_back(attempt.pod.uid):
                task.cancel()
        closing = asyncio.create_task(self.stories.close(), name="close stories")
        await self._end_by([*self._bindings, closing], last_binding)
        # Events are written after the statuses, and need a moment, too.
        await self._end_by([asyncio.create_task(self._flush(), name="flush statuses")], (last_binding + end) / 2)
        close = asyncio.create_task(self._close(), name="close the scheduler")
        await self._end_by([close], end)
        if not close.cancelled():
            close.result()

    async def _flush(self) -> None:
        try:
            for writer in self.writers:
                await writer.flush()
        finally:
            self._cancel_writes()

    def _cancel_writes(self) -> None:
        for writer in self.writers:
            writer.cancel()

    async def _close(self) -> None:
        self.binding.unconfirmed.stop()
        self.handlers.rejections.stop()
        for profile in self.profiles.values():
            await profile.close()
        if self.extenders is not None:
            await self.extenders.close()
        await self.client.close()

    async def _end_by(self, tasks: Iterable[asyncio.Task[None]], until: float) -> Collection[asyncio.Task[None]]:
        """Wait for the tasks; cancel and return those that are not done at `until`."""
        tasks = set(tasks)
        late = {task for task in tasks if not task.done()}
        if late:
            over = asyncio.ensure_future(self.clock.sleep(max(until - self.clock.now(), 0.0)))
            while late and not over.done():
                await asyncio.wait({*late, over}, return_when=asyncio.FIRST_COMPLETED)
                late = {task for task in late if not task.done()}
            over.cancel()
        for task in late:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return late

    def check_invariants(self) -> None:
        """Raise AssertionError if the queue, the cache or the snapshot is inconsistent."""
        self.cache.check_invariants()
        self.queue.check_invariants()
        self.snapshot.check_invariants()
