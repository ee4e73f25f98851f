"""Take the next pod from the queue, and schedule it alone or with all pods of its group.

Differs from kube-scheduler: if a pod found no node, equal pods are not tried until a node may have room.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

import attrs

from kube_objects.claims import uses_storage
from pyscheduler.framework.cycle_state import AfterFailure
from pyscheduler.framework.errors import PLUGIN_FAILURES
from pyscheduler.framework.interfaces import SignPlugin
from pyscheduler.framework.plugin_failures import GROUP_CYCLE
from pyscheduler.framework.profile import ExtensionPoint
from pyscheduler.runtime.cooperative_yield import CooperativeYield, run_now
from pyscheduler.scheduler.failure import pending_version
from pyscheduler.scheduler.room import has_room, is_rejected_again
from pyscheduler.scheduler.work import Work, WorkResult

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework.interfaces import GroupCyclePlugin
    from pyscheduler.framework.pod_info import QueuedPodInfo
    from pyscheduler.runtime.permit.waiting_pods import WaitingPodMap
    from pyscheduler.runtime.preemption.search import Preemption
    from pyscheduler.runtime.profile import Profile
    from pyscheduler.scheduler.group_cycle import GroupCycles
    from pyscheduler.scheduler.scheduling_cycle import SchedulingCycle

__all__ = ["QueuedPods"]

#: The maximum number of kinds of failed pods that are remembered.
_KINDS: Final = 1000
#: The maximum number of pods that share a failure in one work.
_SHARED: Final = 1000


@attrs.define(eq=False)
class _Kind:
    """Pods for which a full attempt has the same result, and the last of them that failed in one.

    A failed attempt has two effects beside that on its pod. The next search for a node begins elsewhere, and a search
    for victims draws random numbers. Sharing the failure repeats both.
    """

    twin: str = ""
    #: Whether these are members of groups.
    is_grouped: bool = False
    #: The state of the cluster in that attempt, and its number of nodes.
    generation: int = 0
    node_count: int = 0
    #: By how many nodes the start of the next search moved.
    step: int = 0
    #: The searches for victims, and what they drew.
    searches: Sequence[tuple[Preemption, Sequence[int]]] = ()


#: Whether pods of a kind would find no room now.
_Known: TypeAlias = "dict[_Kind, bool]"


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
    _kinds: dict[Hashable, _Kind] = attrs.Factory(dict)

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
        if self._is_hopeless(profile, queued):
            await self._share_failures(queued)
            return WorkResult()
        self.cycles += 1
        groups = self.group_cycles.find(pod)
        if groups is not None:
            return WorkResult(await self.group_cycles.run_group_cycle(groups, queued, self._skip))
        waited = self.scheduling.clock.now() - queued.enqueued_at
        self.scheduling.recorder.observe("pyscheduler_queue_wait_duration_seconds", waited)
        start = self.scheduling.pipeline.next_start
        for preemption in profile.preemptors.values():
            preemption.draws = ()
        attempt = await self.scheduling.run_scheduling_cycle(profile, queued)
        if attempt is None:
            self._note_failure(profile, queued, start)
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

    def _note_failure(self, profile: Profile, queued: QueuedPodInfo, start: int) -> None:
        """Record a failed attempt, whose search began at `start`."""
        key, nodes = _key_of(profile, queued), len(self.scheduling.snapshot.nodes)
        if key is None or not nodes:
            return
        if key not in self._kinds and len(self._kinds) >= _KINDS:
            self._kinds.clear()
        kind = self._kinds.setdefault(key, _Kind(is_grouped=_is_grouped(queued)))
        kind.twin, kind.generation, kind.node_count = queued.pod.uid, self.scheduling.snapshot.generation, nodes
        kind.step = (self.scheduling.pipeline.next_start - start) % nodes
        kind.searches = [(each, each.draws) for each in profile.preemptors.values() if each.draws]

    def _is_hopeless(self, profile: Profile, queued: QueuedPodInfo) -> bool:
        """Return True if no node has room, and a pod of the same kind failed since this pod was moved.

        That pod tried PostFilter, too, and still sleeps: no event came since that its plugins find worth an attempt.
        """
        if queued.woken_by or not (queued.moved_by or queued.was_flushed):
            return False
        key = _key_of(profile, queued)
        kind = self._kinds.get(key) if key is not None else None
        queued.kind = (queued.pod_info, kind) if kind is not None else None
        if kind is None or not self._has_failed(kind, queued) or self._has_extenders(queued.pod):
            return False
        if kind.is_grouped and self._group_failure(profile, queued.pod) is None:
            return False
        if not is_rejected_again(self.scheduling, profile, queued):
            return False
        if self.scheduling.snapshot.generation == kind.generation and not kind.is_grouped:
            return True
        # Pods of a lower priority may have been placed since then. A group that may preempt is rehearsed.
        turns = CooperativeYield(self.scheduling.clock)
        return not any(run_now(each.may_have_victims(queued.pod, turns)) for each in profile.preemptors.values())

    def _has_extenders(self, pod: Pod) -> bool:
        """Return True if an extender has a say about the pod: its answers may differ between equal pods."""
        extenders = self.scheduling.pipeline.extenders
        return extenders is not None and extenders.have_a_say(pod)

    def _group_failure(self, profile: Profile, pod: Pod) -> Callable[[AfterFailure], None] | None:
        """Return what repeats the effects of a failed attempt of a member on its group; None if it must be tried."""
        if self.scheduling.queue.nominator.nodes:
            return None  # the attempt looks at the members that wait for victims to end
        for plugin in profile.group_cycle_plugins:
            try:
                repeat = plugin.shared_failure(pod)
            except PLUGIN_FAILURES as error:
                self._report(error, plugin, pod)
                continue
            if repeat is not None:
                return partial(self._repeat, repeat, plugin, pod)
        return None

    def _repeat(
        self, repeat: Callable[[AfterFailure], None], plugin: GroupCyclePlugin, pod: Pod, after: AfterFailure
    ) -> None:
        try:
            repeat(after)
        except PLUGIN_FAILURES as error:
            self._report(error, plugin, pod)

    def _report(self, error: BaseException, plugin: GroupCyclePlugin, pod: Pod) -> None:
        about, call = f"pod={pod.key}", plugin.shared_failure
        self.scheduling.plugin_failures.report(error, plugin=plugin.name, point=GROUP_CYCLE, about=about, call=call)

    def _has_failed(self, kind: _Kind, queued: QueuedPodInfo) -> bool:
        """Return True if another pod of this kind failed since this pod was moved, and sleeps."""
        queue, twin = self.scheduling.queue, kind.twin
        if twin == queued.pod.uid or queue.nominator.node_of(twin) or queue.nominator.node_of(queued.pod.uid):
            return False
        if kind.node_count != len(self.scheduling.snapshot.nodes):
            return False
        sleeping = queue.sub_queues.unschedulable.sleeper(twin)
        if sleeping is None or sleeping.rejectors != queued.rejectors:
            return False
        # An event would have moved both. A pod is flushed by itself.
        is_same = self.scheduling.cache.generation == kind.generation
        return not queued.was_flushed or is_same or sleeping.tried_in > queue.sub_queues.flushed_in

    async def _share_failures(self, queued: QueuedPodInfo) -> None:
        """Return a popped pod to the queue as if it had been tried; the next pods share a failure, too.

        As after an attempt that fails, other tasks run after each pod.
        """
        queue, cache = self.scheduling.queue, self.scheduling.cache
        self._share_failure(queued)
        known: _Known = {}
        generation = cache.generation
        for _ in range(_SHARED):
            await asyncio.sleep(0)
            if cache.generation != generation:
                known.clear()
                generation = cache.generation
            first = queue.sub_queues.first()
            if first is None or not self._shares_failure(known, first):
                return
            self._share_next(first)

    def _shares_failure(self, known: _Known, queued: QueuedPodInfo) -> bool:
        """Return True if the next pod shares the failure of its kind."""
        info, kind = queued.kind or (None, None)
        pod = queued.pod
        if info is not queued.pod_info or not isinstance(kind, _Kind) or pod.metadata.deletion_timestamp:
            return False  # it is looked at in a work of its own
        if kind.is_grouped != _is_grouped(queued):
            return False
        if kind not in known:
            known[kind] = self._is_hopeless(self.profiles[pod.scheduler_name], queued)
            return known[kind]
        if queued.woken_by or not (queued.moved_by or queued.was_flushed):
            return False
        if not (known[kind] and self._has_failed(kind, queued)):
            return False
        return not kind.is_grouped or self._group_failure(self.profiles[pod.scheduler_name], pod) is not None

    def _share_failure(self, queued: QueuedPodInfo) -> None:
        """Return a popped pod to the queue as if it had been tried."""
        self._repeat_effects(queued)
        self.scheduling.queue.requeue_failed(queued, queued.after_failure)

    def _share_next(self, queued: QueuedPodInfo) -> None:
        """Let the next pod fail as if it had been tried."""
        if _kind_of(queued).is_grouped:
            # The failure of its group changes the order of the queue.
            popped = self.scheduling.queue.pop()
            assert popped is queued, "there is a next pod"
            self._share_failure(popped)
            return
        self._repeat_effects(queued)
        self.scheduling.queue.fail_first()

    def _repeat_effects(self, queued: QueuedPodInfo) -> None:
        kind, pipeline = _kind_of(queued), self.scheduling.pipeline
        pipeline.next_start = (pipeline.next_start + kind.step) % kind.node_count
        if kind.is_grouped:
            repeat = self._group_failure(self.profiles[queued.pod.scheduler_name], queued.pod)
            assert repeat is not None, "nothing has changed since it was looked for"
            queued.after_failure = AfterFailure()
            repeat(queued.after_failure)
        elif kind.generation == self.scheduling.snapshot.generation:
            for preemption, draws in kind.searches:
                preemption.repeat(draws)

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


def _kind_of(queued: QueuedPodInfo) -> _Kind:
    _, kind = queued.kind or (None, None)
    assert isinstance(kind, _Kind), "the kind is known"
    return kind


def _is_grouped(queued: QueuedPodInfo) -> bool:
    return queued.after_failure is not None and queued.after_failure.serve_backoff


def _key_of(profile: Profile, queued: QueuedPodInfo) -> Hashable | None:
    """Return what pods have in common for which PostFilter has the same result; None if no other pod is like this one.

    A member that the plugin of its group rejected did not fail for lack of room.
    """
    pod, spec = queued.pod, queued.pod.spec
    affinity, is_grouped = spec.affinity, _is_grouped(queued)
    if is_grouped and any(plugin.name in queued.rejectors for plugin in profile.group_cycle_plugins):
        return None
    if uses_storage(pod) or spec.topology_spread_constraints:
        return None
    if affinity is not None and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None):
        return None
    if _has_unknown_post_filter(profile):
        return None
    key = profile.equivalence_key(pod)
    # Labels matter to the anti-affinity of others only: pods that have constraints of their own are left out above.
    labels = frozenset(pod.labels.items()) if profile.snapshot.nodes_with_anti_affinity_pods else None
    if key is None:
        return None
    return profile.name, key, pod.namespace, pod.priority, spec.preemption_policy, labels, is_grouped


def _has_unknown_post_filter(profile: Profile) -> bool:
    """Return True if a PostFilter plugin may treat equal pods differently, or make room in ways of its own."""
    return any(
        name not in profile.preemptors and not isinstance(profile.plugins[name], SignPlugin)
        for name in profile.points[ExtensionPoint.POST_FILTER]
    )
