"""The work that comes from the queue: the next pod, alone or with all pods of its group.

If an event moves several equal pods back to the queue, they are tried one after another, until one fails. If no node
has room for such a pod then, the other pods are rejected without an attempt, with the reason of the failed pod. So an
event that helps one of a thousand equal pods costs two attempts.

Differs from kube-scheduler, which tries each of the equal pods.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

import attrs

from kube_objects.claims import uses_storage
from pyscheduler.framework.interfaces import SignPlugin
from pyscheduler.framework.profile import ExtensionPoint
from pyscheduler.runtime.cooperative_yield import CooperativeYield
from pyscheduler.scheduler.failure import pending_version
from pyscheduler.scheduler.room import has_room
from pyscheduler.scheduler.work import Work, WorkResult

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from pyscheduler.api import Pod
    from pyscheduler.framework.pod_info import QueuedPodInfo
    from pyscheduler.runtime.permit.waiting_pods import WaitingPodMap
    from pyscheduler.runtime.profile import Profile
    from pyscheduler.scheduler.group_cycle import GroupCycles
    from pyscheduler.scheduler.scheduling_cycle import SchedulingCycle

__all__ = ["QueuedPods"]

#: The maximum number of kinds of failed pods that are remembered.
_KINDS: Final = 1000


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
    #: The uid of the pod of each kind that failed last.
    _failed: dict[Hashable, str] = attrs.Factory(dict)

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
        if queued.woken_by:
            is_worth = has_room(self.scheduling, profile, queued) or await self._may_preempt(profile, queued)
            if not self.scheduling.queue.settle_early(queued, has_room=is_worth):
                return WorkResult()
        if queued.moved_by and not queued.woken_by and self._is_hopeless(profile, queued):
            self.scheduling.queue.share_failure(queued)
            return WorkResult()
        self.cycles += 1
        groups = self.group_cycles.find(pod)
        if groups is not None:
            return WorkResult(await self.group_cycles.run_group_cycle(groups, queued, self._skip))
        waited = self.scheduling.clock.now() - queued.enqueued_at
        self.scheduling.recorder.observe("pyscheduler_queue_wait_duration_seconds", waited)
        attempt = await self.scheduling.run_scheduling_cycle(profile, queued)
        if attempt is None and (kind := _kind_of(profile, queued)) is not None:
            if len(self._failed) >= _KINDS:
                self._failed.clear()
            self._failed[kind] = pod.uid
        # Other tasks must run first after a rejection, or while pods wait at Permit: some may release their nodes.
        return WorkResult() if attempt is None else WorkResult((attempt,), may_continue=not self.waiting_pods)

    async def _may_preempt(self, profile: Profile, queued: QueuedPodInfo) -> bool:
        """Return True if PostFilter may help the pod now; a pod in backoff is tried anyway when that ends."""
        if self.scheduling.queue.sub_queues.backoff.is_backing_off(queued):
            return False
        if _has_unknown_post_filter(profile):
            return True
        turns = CooperativeYield(self.scheduling.clock)
        for preemption in profile.preemptors.values():
            if await preemption.may_have_victims(queued.pod, turns):
                return True
        return False

    def _is_hopeless(self, profile: Profile, queued: QueuedPodInfo) -> bool:
        """Return True if no node has room, and a pod of the same kind failed since the event that moved this pod.

        That pod tried PostFilter, too, and still sleeps: no event came since that its plugins find worth an attempt.
        """
        kind, nominator = _kind_of(profile, queued), self.scheduling.queue.nominator
        twin = self._failed.get(kind) if kind is not None else None
        if twin is None or twin == queued.pod.uid or nominator.node_of(twin) or nominator.node_of(queued.pod.uid):
            return False
        sleeping = self.scheduling.queue.sub_queues.unschedulable
        return sleeping.sleeps(twin, queued.rejectors) and not has_room(self.scheduling, profile, queued)

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


def _kind_of(profile: Profile, queued: QueuedPodInfo) -> Hashable | None:
    """Return what pods have in common for which PostFilter has the same result; None if no other pod is like this one.

    A member of a group concerns the plugin that serves the group: its failure may end the waits of other members.
    """
    pod, spec = queued.pod, queued.pod.spec
    after, affinity = queued.after_failure, spec.affinity
    if (after is not None and after.serve_backoff) or uses_storage(pod) or spec.topology_spread_constraints:
        return None
    if affinity is not None and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None):
        return None
    if _has_unknown_post_filter(profile):
        return None
    key = profile.equivalence_key(pod)
    # Labels matter to the anti-affinity of others only: pods that have constraints of their own are left out above.
    labels = frozenset(pod.labels.items()) if profile.snapshot.nodes_with_anti_affinity_pods else None
    return None if key is None else (profile.name, key, pod.namespace, pod.priority, spec.preemption_policy, labels)


def _has_unknown_post_filter(profile: Profile) -> bool:
    """Return True if a PostFilter plugin may treat equal pods differently, or make room in ways of its own."""
    return any(
        name not in profile.preemptors and not isinstance(profile.plugins[name], SignPlugin)
        for name in profile.points[ExtensionPoint.POST_FILTER]
    )
