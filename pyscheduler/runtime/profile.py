"""A running profile: the methods by which the scheduler calls the plugins of the profile."""

from __future__ import annotations

import inspect
import logging
from collections import Counter
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from pyscheduler.framework.interfaces import GroupCyclePlugin
from pyscheduler.framework.profile import ExtensionPoint
from pyscheduler.runtime.assembly.bound_plugins import bind_plugins, make_equivalence_key
from pyscheduler.runtime.assembly.profile_builder import assemble
from pyscheduler.runtime.batching import Batch, BatchTurn
from pyscheduler.runtime.equivalence_cache.cache import EquivalenceCache
from pyscheduler.runtime.equivalence_cache.obstacles import find_obstacles
from pyscheduler.runtime.extension_points.event_registration import with_extenders
from pyscheduler.runtime.extension_points.plugin_calls import PluginCalls
from pyscheduler.runtime.plugin_handle import PluginHandle
from pyscheduler.runtime.preemption.search import grant_preemption

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Collection, Mapping, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework.cycle_state import CycleState
    from pyscheduler.framework.events import ClusterEvent, ClusterEventWithHint, QueueingHintFn
    from pyscheduler.framework.interfaces import Plugin
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.framework.profile import ProfileSpec
    from pyscheduler.framework.status import Status
    from pyscheduler.queue.hints import HintMap
    from pyscheduler.runtime.assembly.profile_builder import Assembly
    from pyscheduler.runtime.assembly.registry import Registry
    from pyscheduler.runtime.extension_points.pre_filtering import PreFilterOutcome
    from pyscheduler.runtime.extension_points.reserving import Release
    from pyscheduler.runtime.extension_points.signing import Signature
    from pyscheduler.runtime.handle_dependencies import HandleDependencies
    from pyscheduler.runtime.permit.waiting_pods import HeldPod
    from pyscheduler.runtime.preemption.search import Preemption

__all__ = ["SAMPLED_SHARE", "Profile"]

_log = logging.getLogger(__name__)

#: The share of cycles in which single plugins are timed, as in kube-scheduler.
SAMPLED_SHARE: Final = 0.1


class Profile:
    """One profile; make it with `build`."""

    def __init__(
        self, spec: ProfileSpec, assembly: Assembly, dependencies: HandleDependencies, handle: PluginHandle
    ) -> None:
        self.name = spec.scheduler_name
        #: Where messages say that the profile is.
        self.path = spec.path
        self.percentage_of_nodes_to_score = spec.percentage_of_nodes_to_score
        self.handle = handle
        self.event_recorder = handle.event_recorder
        self.snapshot = dependencies.snapshot
        self.clock = dependencies.clock
        self.plugins: Mapping[str, Plugin] = assembly.plugins
        #: The args each was made with, defaults included; None for a plugin that takes none.
        self.args: Mapping[str, object] = assembly.args
        #: The names of the plugins at each extension point, in the order in which they run.
        self.points: Mapping[ExtensionPoint, tuple[str, ...]] = assembly.points
        #: By Score plugin; positive.
        self.score_weights = {name: assembly.weights[name] for name in assembly.points[ExtensionPoint.SCORE]}
        #: By plugin, what preempts in its name.
        self.preemptors: Mapping[str, Preemption] = handle.preemptors
        #: What opportunistic batching carries from one pod to the next; None with its gate off.
        self.batch: Batch | None = None
        if dependencies.feature_gates.get("OpportunisticBatching", False):
            self.batch = Batch(profile=self.name, clock=dependencies.clock, recorder=dependencies.recorder)
        self._dependencies = dependencies
        self._closed = False
        self._registrations: Mapping[str, Sequence[ClusterEventWithHint]] = assembly.registrations
        if dependencies.extenders:
            generic_workload = dependencies.feature_gates.get("GenericWorkload", False)
            self._registrations = with_extenders(assembly.registrations, generic_workload=generic_workload)
        #: Through which all plugins are called.
        self.calls = calls = PluginCalls(
            profile=self.name,
            clock=dependencies.clock,
            recorder=dependencies.recorder,
            failures=dependencies.failures,
        )
        #: Why answers of plugins are not cached.
        self.cache_obstacles = find_obstacles(assembly, has_extenders=bool(dependencies.extenders))
        self.equivalence_key = make_equivalence_key(assembly, calls)
        self._bound = bound = bind_plugins(
            assembly, calls, dependencies.snapshot, permit_wait_limit=dependencies.permit_wait_limit_seconds
        )
        #: Answers for plain extension points below; None where it may not.
        self.equivalence_cache: EquivalenceCache | None = None
        if not any(each.disables for each in self.cache_obstacles):
            self.equivalence_cache = EquivalenceCache(
                snapshot=dependencies.snapshot, key_of=self.equivalence_key, plain=bound
            )
        cache = self.equivalence_cache
        # The extension points that need nothing but the plugins; the modules of their classes describe them.
        self.sort_key = bound.sort_key
        self.adjacency_key = bound.adjacency_key
        self._pre_filter = (cache or bound.pre_filtering).pre_filter
        self.find_feasible = (cache or bound.filtering).find_feasible
        self.run_filters = bound.filtering.run_filters
        self.active_filters = bound.filtering.active
        self.others_may_help = bound.filtering.others_may_help
        self.counts_across_nodes = bound.pre_filtering.counts_across_nodes
        self.run_add_pod = bound.pre_filtering.add_pod
        self.run_remove_pod = bound.pre_filtering.remove_pod
        self.run_post_filter = bound.post_filtering.run
        self.run_pre_score = bound.pre_scoring.pre_score
        self.run_score = bound.scoring.score
        self.rank_nodes = cache.rank if cache is not None else bound.scoring.score
        self.run_reserve = bound.reserving.reserve
        self.run_permit = bound.permitting.run
        self.run_pre_bind_pre_flights = bound.pre_binding.pre_flight
        self.run_bind = bound.binding.bind
        #: Generates and scores placements of groups.
        self.group_placing = bound.group_placing
        self.evaluations = bound.evaluations

    @classmethod
    def build(cls, spec: ProfileSpec, registry: Registry, dependencies: HandleDependencies) -> Profile:
        """Make the profile and its plugins; raise `ConfigError` listing everything that is wrong with it."""
        handle = PluginHandle(spec.scheduler_name, dependencies)
        assembly = assemble(spec, registry, handle, dependencies.declare)
        for name in handle.preemptors.keys() & assembly.plugins.keys():
            grant_preemption(assembly.plugins[name])
        profile = cls(spec, assembly, dependencies, handle)
        handle.complete(profile)
        return profile

    def __repr__(self) -> str:
        return f"Profile({self.name}, {list(self.plugins)})"

    @property
    def schedules(self) -> bool:
        """Return whether pods that name the profile are scheduled: a profile may only carry plugins with `run`."""
        return bool(self.points[ExtensionPoint.BIND])

    # For the queue

    @property
    def queue_sort_name(self) -> str:
        """Return the name of the QueueSort plugin."""
        return self.points[ExtensionPoint.QUEUE_SORT][0]

    def run_pre_enqueue(self, pod: Pod) -> Status | None:
        """Return why the pod may not enter the queue, with the plugin that rejects it; None when it may."""
        return self._bound.pre_enqueueing.run(pod, sampled=self._sample())

    def hints(self) -> HintMap:
        """Return the plugins that registered each event, with their hints (None: always worth an attempt)."""
        return self._hints

    @cached_property
    def _hints(self) -> HintMap:
        found: dict[ClusterEvent, list[tuple[str, QueueingHintFn | None]]] = {}
        for plugin, registered in self._registrations.items():
            for each in registered:
                found.setdefault(each.event, []).append((plugin, each.queueing_hint))
        return found

    def registered_events(self) -> Mapping[str, Sequence[ClusterEvent]]:
        """Return the events that each plugin registered."""
        return {plugin: tuple(each.event for each in found) for plugin, found in self._registrations.items()}

    # The scheduling cycle

    @property
    def has_post_filter(self) -> bool:
        """Return True if some plugin can make room for a pod that fits nowhere."""
        return bool(self.points[ExtensionPoint.POST_FILTER])

    @property
    def has_score(self) -> bool:
        """Return True if some plugin ranks nodes; without one, the first feasible node is taken."""
        return bool(self.points[ExtensionPoint.SCORE])

    def run_pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterOutcome:
        """Begin a cycle."""
        return self._pre_filter(state, pod, nodes, sampled=self._sample())

    def run_unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Undo Reserve, in reverse order."""
        self._bound.reserving.unreserve(state, pod, node_name)
        self._dependencies.waiting_pods.forget(pod.uid)

    def release(self, state: CycleState | None = None, *, without: Collection[str] = ()) -> Release | None:
        """Return what frees in a trial what evicted pods hold in plugins' books, but for some plugins'."""
        return self._bound.releasing.release(state=state, without=without)

    def is_needed_by_others(self, pod: Pod) -> bool | None:
        """Return whether other pods need what the pod holds for them; None for a pod that holds its own resources."""
        return self._bound.releasing.is_needed_by_others(pod)

    def add_waiting_pod(self, pod: Pod, node_name: str, timeouts: Mapping[str, float]) -> HeldPod:
        """Begin the wait at Permit. The binding cycle that ends it, with `wait_on_permit`, must follow."""
        return self._dependencies.waiting_pods.add(pod, node_name=node_name, profile_name=self.name, timeouts=timeouts)

    @cached_property
    def group_cycle_plugins(self) -> tuple[GroupCyclePlugin, ...]:
        """Return the plugins that have groups of pods scheduled in one cycle."""
        return tuple(plugin for plugin in self.plugins.values() if isinstance(plugin, GroupCyclePlugin))

    # The binding cycle

    def will_wait_on_permit(self, pod: Pod) -> bool:
        """Return True if the pod waits at Permit."""
        return self._dependencies.waiting_pods.get(pod.uid) is not None

    async def wait_on_permit(self, pod: Pod) -> Status | None:
        """Wait until the pod is allowed, or return why it was not; a pod that does not wait goes on at once."""
        return await self._dependencies.waiting_pods.wait(pod.uid)

    async def run_pre_bind(
        self, state: CycleState, pod: Pod, node_name: str, *, may_be_called_off: bool = False
    ) -> Status | None:
        """Prepare the binding; where it may be called off, a preemption can end this with an error."""
        pre_binding = self._bound.pre_binding
        work = pre_binding.run(state, pod, node_name)
        if may_be_called_off:
            running = partial(pre_binding.interrupted, state)
            return await self._dependencies.pods_in_pre_bind.run(pod.uid, work, running=running)
        return await work

    async def run_post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Run PostBind, after which nothing is remembered of the pod's wait at Permit."""
        await self._bound.binding.post_bind(state, pod, node_name)
        self._dependencies.waiting_pods.forget(pod.uid)

    def batch_turn(self, pod: Pod, cycle: int) -> BatchTurn | None:
        """Return a pod's part in opportunistic batching; None with the gate off. `cycle` numbers the popped pods."""
        return None if self.batch is None else BatchTurn(self.batch, self.sign_pod(pod), cycle)

    def sign_pod(self, pod: Pod) -> Signature | None:
        """Return the pod's signature, hashable; None where it has none: with extenders no two pods are surely alike."""
        return None if self._dependencies.extenders else self._bound.signing.sign(pod)

    def running_tasks(self) -> Mapping[str, int]:
        """Return how many tasks of plugins run beside the scheduler, by the first word of the name they were given."""
        names = (name.removeprefix(f"{self.name} ") for name in self.handle.background.names())
        return Counter(name.partition(" ")[0].partition(".")[0] for name in names)

    def _sample(self) -> bool:
        # The number is drawn in either case, so that the next ones do not depend on the time.
        return self._dependencies.rng.random() < SAMPLED_SHARE or self.calls.is_watching

    # Life

    def start_preparations(self) -> list[asyncio.Task[None]]:
        """Start `prepare()` of the plugins that have one, and return the tasks; a failure is reported.

        A plain function of that name, or one with parameters, is the plugin's own: the name was free once.
        """
        return [
            self.handle.background.spawn(prepare(), name=f"{self.name} {name}.prepare")
            for name, plugin in self.plugins.items()
            if inspect.iscoroutinefunction(prepare := getattr(plugin, "prepare", None))
            and not inspect.signature(prepare).parameters
        ]

    def start_background(self) -> None:
        """Start `run()` of the plugins that have one; call it once, when there is something to schedule."""
        for obstacle in self.cache_obstacles:
            effect = "Equivalence cache is off" if obstacle.disables else "Equivalence cache leaves out a plugin"
            _log.info('%s profile=%s plugin=%s reason="%s"', effect, self.name, obstacle.plugin, obstacle.reason)
        for name, plugin in self.plugins.items():
            run = getattr(plugin, "run", None)
            if run is not None:
                self.handle.background.keep_running(run, plugin=name, name=f"{self.name} {name}.run")

    async def close(self) -> None:
        """Cancel background tasks, then close the plugins; idempotent."""
        if self._closed:
            return
        self._closed = True
        await self.handle.background.close()
        for name, plugin in self.plugins.items():
            close = getattr(plugin, "close", None)
            if close is None:
                continue
            try:
                answer = close()
                if inspect.isawaitable(answer):
                    await answer
            except (Exception, SystemExit) as error:  # noqa: BLE001 - the plugin boundary; the others are to be closed too
                self._dependencies.failures.report(error, plugin=name, point="Close", call=close)
