"""The work that comes from the queue: the next pod, alone or with all pods of its group."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

import attrs

from pyscheduler.scheduler.failure import pending_version
from pyscheduler.scheduler.room import has_room
from pyscheduler.scheduler.work import Work, WorkResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler.api import Pod
    from pyscheduler.framework.pod_info import QueuedPodInfo
    from pyscheduler.runtime.permit.waiting_pods import WaitingPodMap
    from pyscheduler.runtime.profile import Profile
    from pyscheduler.scheduler.group_cycle import GroupCycles
    from pyscheduler.scheduler.scheduling_cycle import SchedulingCycle

__all__ = ["QueuedPods"]


@attrs.define(kw_only=True, eq=False)
class QueuedPods:
    """A `WorkSource`: pods in the order of the queue."""

    #: It pops pods in order, so it takes none by name.
    held_profiles: ClassVar[tuple[str, ...]] = ()
    profiles: Mapping[str, Profile]
    waiting_pods: WaitingPodMap
    scheduling: SchedulingCycle
    group_cycles: GroupCycles
    #: Scheduling cycles run so far; a group cycle counts once.
    cycles: int = 0

    @property
    def has_work(self) -> bool:
        """Return True if a pod can be popped now."""
        return self.scheduling.queue.active_count > 0

    def next(self) -> Work | None:
        """Pop the next pod."""
        queued = self.scheduling.queue.pop()
        return None if queued is None else Work(f"pod={queued.pod.key}", partial(self._schedule, queued))

    async def _schedule(self, queued: QueuedPodInfo, has_waited: bool) -> WorkResult:
        """Run one scheduling cycle: for the pod alone, or for its whole group."""
        pod = queued.pod
        profile = self.profiles.get(pod.scheduler_name)
        is_gone = has_waited and pending_version(self.scheduling.failure.pods, pod) is None
        if profile is None or is_gone or self._skip(profile, pod):
            self.scheduling.queue.done(pod.uid)
            return WorkResult()
        if queued.woken_by and not self.scheduling.queue.settle_early(
            queued, has_room=has_room(self.scheduling, profile, queued)
        ):
            return WorkResult()
        self.cycles += 1
        groups = self.group_cycles.find(pod)
        if groups is not None:
            return WorkResult(await self.group_cycles.run_group_cycle(groups, queued, self._skip))
        self.scheduling.recorder.queue_wait(self.scheduling.clock.now() - queued.enqueued_at)
        attempt = await self.scheduling.run_scheduling_cycle(profile, queued)
        # Other tasks must run first after a rejection, or while pods wait at Permit: some may release their nodes.
        return WorkResult() if attempt is None else WorkResult((attempt,), may_continue=not self.waiting_pods)

    def _skip(self, profile: Profile, pod: Pod) -> bool:
        """Return True if the pod must not be scheduled: it is being deleted, or the cache has it on a node."""
        if pod.metadata.deletion_timestamp:
            profile.event_recorder.event(
                pod,
                type="Warning",
                reason="FailedScheduling",
                action="Scheduling",
                note=f"skip schedule deleting pod: {pod.key}",
            )
            return True
        return self.scheduling.cache.is_assumed(pod.uid)
