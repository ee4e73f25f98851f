"""A profile of the configuration as a running framework: what the scheduling cycle calls, and the plugins' `Handle`.

Each `run_*` method is one extension point; the mechanism behind it has a module of its own (`filtering`, `scoring`,
`binding` ...). Up to Permit they are plain functions and return values; nothing that a plugin does raises here.
"""

from __future__ import annotations

import inspect
import logging
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar, cast

from pyscheduler.framework.interfaces import GroupCyclePlugin
from pyscheduler.framework.profile import ExtensionPoint
from pyscheduler.runtime.background import Background
from pyscheduler.runtime.batching import Batch, BatchTurn
from pyscheduler.runtime.bound_plugins import bind_plugins
from pyscheduler.runtime.equivalence_cache.classes import EquivalenceClasses
from pyscheduler.runtime.event_registration import by_event, by_plugin, with_extenders
from pyscheduler.runtime.eviction import Evictions
from pyscheduler.runtime.plugin_calls import PluginCalls
from pyscheduler.runtime.preemption import Preemption
from pyscheduler.runtime.profile_builder import assemble
from pyscheduler.runtime.registry import one_line
from pyscheduler.runtime.what_if import what_if

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection, Coroutine, Hashable, Iterable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from pyscheduler.api import KubeObject, Pod
    from pyscheduler.framework.clock import Clock
    from pyscheduler.framework.cycle_state import CycleState
    from pyscheduler.framework.events import ClusterEvent, ClusterEventWithHint
    from pyscheduler.framework.handle import Client, EventRecorder, Nominator
    from pyscheduler.framework.interfaces import Plugin, PostFilterResult
    from pyscheduler.framework.node_info import NodeInfo
    from pyscheduler.framework.node_statuses import NodeStatuses
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.framework.pod_info import PodInfo, QueuedPodInfo
    from pyscheduler.framework.preemption import PreemptionRules
    from pyscheduler.framework.profile import ProfileSpec
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.framework.snapshot import Snapshot
    from pyscheduler.framework.status import Status
    from pyscheduler.framework.waiting import WaitVerdict
    from pyscheduler.framework.watches import Lister
    from pyscheduler.framework.what_if import WhatIf
    from pyscheduler.queue.hints import HintMap
    from pyscheduler.runtime.bound_plugins import BoundPlugins
    from pyscheduler.runtime.filtering import FilterOutcome
    from pyscheduler.runtime.handle_dependencies import HandleDependencies
    from pyscheduler.runtime.plugin_calls import PluginMethod
    from pyscheduler.runtime.pre_filtering import PreFilterOutcome
    from pyscheduler.runtime.registry import Registry
    from pyscheduler.runtime.reserving import Release
    from pyscheduler.runtime.scoring import Ranking, ScoreOutcome
    from pyscheduler.runtime.signing import Signature
    from pyscheduler.runtime.waiting_index import WaitingPodIndex
    from pyscheduler.runtime.waiting_pods import HeldPod

__all__ = ["SAMPLED_SHARE", "Profile"]

_log = logging.getLogger(__name__)

K = TypeVar("K", bound="KubeObject")
S = TypeVar("S")

#: The share of cycles in which single plugins are timed, as in kube-scheduler.
SAMPLED_SHARE: Final = 0.1


class Profile:
    """One profile; make it with `build`. It is the `Handle` of its plugins."""

    plugins: Mapping[str, Plugin]
    #: The args each was made with, defaults included; None for a plugin that takes none.
    args: Mapping[str, object]
    #: The names of the plugins at each extension point, in the order in which they run.
    points: Mapping[ExtensionPoint, tuple[str, ...]]
    #: By Score plugin; positive.
    score_weights: Mapping[str, int]
    _bound: BoundPlugins
    _registrations: Mapping[str, Sequence[ClusterEventWithHint]]

    def __init__(self, spec: ProfileSpec, services: HandleDependencies) -> None:
        self.name = spec.scheduler_name
        self.percentage_of_nodes_to_score = spec.percentage_of_nodes_to_score
        self.event_recorder: EventRecorder = services.event_recorder(spec.scheduler_name)
        self._services = services
        self._calls = PluginCalls(profile=spec.scheduler_name, clock=services.clock, recorder=services.recorder)
        self._background = Background(recorder=services.recorder)
        self._closed = False
        self.plugins = {}
        #: What is carried from one pod to the next; None with the gate OpportunisticBatching off.
        self.batch: Batch | None = None
        if services.feature_gates.get("OpportunisticBatching", False):
            self.batch = Batch(profile=spec.scheduler_name, clock=services.clock, recorder=services.recorder)
        #: What preempts, by the plugin in whose name.
        self.preemptors: dict[str, Preemption] = {}

    @classmethod
    def build(cls, spec: ProfileSpec, registry: Registry, services: HandleDependencies) -> Profile:
        """Make the profile and its plugins; raise `ConfigError` listing everything that is wrong with it."""
        profile = cls(spec, services)
        assembly = assemble(spec, registry, profile, services.declare)
        profile.plugins = assembly.plugins
        profile.args = assembly.args
        profile.points = assembly.points
        profile.score_weights = {name: assembly.weights[name] for name in assembly.points[ExtensionPoint.SCORE]}
        profile._bound = bind_plugins(
            assembly,
            profile._calls,
            services.snapshot,
            permit_wait_limit=services.permit_wait_limit_seconds,
            memories=None if services.extenders else EquivalenceClasses(),
        )
        profile._registrations = assembly.registrations
        if services.extenders:
            generic_workload = services.feature_gates.get("GenericWorkload", False)
            profile._registrations = with_extenders(assembly.registrations, generic_workload=generic_workload)
        return profile

    def __repr__(self) -> str:
        return f"Profile({self.name}, {list(self.plugins)})"

    # What the queue asks

    @property
    def queue_sort_name(self) -> str:
        """Return the name of the QueueSort plugin."""
        return self.points[ExtensionPoint.QUEUE_SORT][0]

    def sort_key(self, info: QueuedPodInfo) -> object:
        """Return the pod's place in activeQ; keys of one profile can be compared, the smallest pops first."""
        return self._bound.sort_key(info)

    @property
    def adjacency_key(self) -> Callable[[QueuedPodInfo], Hashable | None] | None:
        """Return what tells with which group a pod leaves activeQ; None where the QueueSort plugin has none."""
        return self._bound.adjacency_key

    def run_pre_enqueue(self, pod: Pod) -> Status | None:
        """Return why the pod may not stand in line, in the name of the plugin that says so; None when it may."""
        return self._bound.pre_enqueueing.run(pod, sampled=self._sample())

    def hints(self) -> HintMap:
        """Return the plugins that registered each event, with their hints (None: always worth an attempt)."""
        return by_event(self._registrations)

    def registered_events(self) -> Mapping[str, Sequence[ClusterEvent]]:
        """Return the events that each plugin registered."""
        return by_plugin(self._registrations)

    # The scheduling cycle

    @property
    def has_post_filter(self) -> bool:
        """Tell whether anybody could make room for a pod that fits nowhere."""
        return bool(self.points[ExtensionPoint.POST_FILTER])

    @property
    def has_score(self) -> bool:
        """Tell whether anybody ranks nodes; where nobody does, the first feasible node is as good as any."""
        return bool(self.points[ExtensionPoint.SCORE])

    def run_pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterOutcome:
        """Begin a cycle."""
        return self._bound.pre_filtering.run(state, pod, nodes, sampled=self._sample())

    def find_feasible(
        self, state: CycleState, pod: Pod, nodes: Nodes, *, limit: int | None = None, start: int = 0
    ) -> FilterOutcome:
        """Search `nodes` from row `start` on, round the end, until `limit` feasible ones were found (None: all)."""
        return self._bound.filtering.find_feasible(state, pod, nodes, limit=limit, start=start)

    def others_may_help(self, statuses: NodeStatuses) -> bool:
        """Tell whether a node may take a pod that it refused alone, once other pods are placed."""
        return self._bound.filtering.others_may_help(statuses)

    def run_filters(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses:
        """Return the complete statuses of `nodes`, nominated pods taken into account.

        Where a plugin fails, its ERROR stands for every node.
        """
        return self._bound.filtering.run_filters(state, pod, nodes)

    def run_add_pod(self, state: CycleState, pod: Pod, to_add: PodInfo, node: NodeInfo) -> Status | None:
        """Tell all PreFilter plugins that `to_add` was put on `node` in a what-if."""
        return self._bound.pre_filtering.add_pod(state, pod, to_add, node)

    def run_remove_pod(self, state: CycleState, pod: Pod, to_remove: PodInfo, node: NodeInfo) -> Status | None:
        """Tell all PreFilter plugins that `to_remove` was taken off `node` in a what-if."""
        return self._bound.pre_filtering.remove_pod(state, pod, to_remove, node)

    async def run_post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeStatuses
    ) -> tuple[PostFilterResult | None, Status]:
        """Try to make room for a pod that fits nowhere."""
        return await self._bound.post_filtering.run(state, pod, statuses)

    def run_pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Show the feasible nodes to those who will score them; anything returned is an error."""
        return self._bound.pre_scoring.run(state, pod, nodes)

    def run_score(self, state: CycleState, pod: Pod, nodes: Nodes, *, details: bool = False) -> ScoreOutcome:
        """Score the feasible nodes; `details` also keeps each plugin's scores from before normalisation."""
        return self._bound.scoring.run(state, pod, nodes, details=details)

    def rank_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ranking:
        """Score the feasible nodes for who asks for the best only, which may be known from pods like this one."""
        return self._bound.scoring.rank(state, pod, nodes)

    def run_reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Reserve; after a rejection or an error the caller runs Unreserve."""
        return self._bound.reserving.reserve(state, pod, node_name)

    def run_unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Undo Reserve, in reverse order."""
        self._bound.reserving.unreserve(state, pod, node_name)
        self._services.waiting_pods.forget(pod.uid)

    def release(self, state: CycleState | None = None, *, without: Collection[str] = ()) -> Release | None:
        """Return what frees in a trial what evicted pods hold in plugins' books, but for some plugins'."""
        return self._bound.releasing.release(state=state, without=without)

    def run_permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, Mapping[str, float]]:
        """Ask for permission to bind; a WAIT comes with seconds by plugin, for `add_waiting_pod`."""
        return self._bound.permitting.run(state, pod, node_name)

    def add_waiting_pod(self, pod: Pod, node_name: str, timeouts: Mapping[str, float]) -> HeldPod:
        """Begin the wait at Permit. The binding cycle that ends it, with `wait_on_permit`, must follow."""
        return self._services.waiting_pods.add(pod, node_name=node_name, profile_name=self.name, timeouts=timeouts)

    @property
    def group_cycle_plugins(self) -> tuple[GroupCyclePlugin, ...]:
        """Return the plugins that have groups of pods scheduled in one cycle."""
        return tuple(plugin for plugin in self.plugins.values() if isinstance(plugin, GroupCyclePlugin))

    # The binding cycle

    def will_wait_on_permit(self, pod: Pod) -> bool:
        """Tell whether the pod is a waiting one."""
        return self._services.waiting_pods.get(pod.uid) is not None

    async def wait_on_permit(self, pod: Pod) -> Status | None:
        """Wait until the pod is allowed, or return why it was not; a pod that does not wait goes on at once."""
        return await self._services.waiting_pods.wait(pod.uid)

    def run_pre_bind_pre_flights(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Ask who has PreBind work: None when somebody has, SKIP when nobody, or an error."""
        return self._bound.pre_binding.pre_flight(state, pod, node_name)

    async def run_pre_bind(
        self, state: CycleState, pod: Pod, node_name: str, *, may_be_called_off: bool = False
    ) -> Status | None:
        """Prepare the binding; where it may be called off, a preemption can end this with an error."""
        pre_binding = self._bound.pre_binding
        work = pre_binding.run(state, pod, node_name)
        if may_be_called_off:
            running = partial(pre_binding.interrupted, state)
            return await self._services.pods_in_pre_bind.run(pod.uid, work, running=running)
        return await work

    async def run_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Bind; SKIP when no plugin wanted to."""
        return await self._bound.binding.bind(state, pod, node_name)

    async def run_post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Tell everybody that the pod is bound."""
        await self._bound.binding.post_bind(state, pod, node_name)
        self._services.waiting_pods.forget(pod.uid)

    def batch_turn(self, pod: Pod, cycle: int) -> BatchTurn | None:
        """Return a pod's part in opportunistic batching; None with the gate off. `cycle` numbers the popped pods."""
        return None if self.batch is None else BatchTurn(self.batch, self.sign_pod(pod), cycle)

    def sign_pod(self, pod: Pod) -> Signature | None:
        """Return the pod's signature, hashable; None where it has none: with extenders no two pods are surely alike."""
        return None if self._services.extenders else self._bound.signing.sign(pod)

    def evaluations(self) -> Mapping[tuple[str, str], int]:
        """Return how often each plugin was asked, by (plugin, extension point): scheduler_plugin_evaluation_total."""
        return self._bound.evaluations()

    def running_tasks(self) -> Mapping[str, int]:
        """Return how many tasks of plugins run beside the scheduler, by the first word of the name they were given."""
        names = (name.removeprefix(f"{self.name} ") for name in self._background.names())
        return Counter(name.partition(" ")[0].partition(".")[0] for name in names)

    def _active_filters(self, state: CycleState) -> Sequence[PluginMethod]:
        return self._bound.filtering.active(state)

    def _is_followed(self, state: CycleState) -> bool:
        return self._bound.pre_filtering.follows(state)

    def _sample(self) -> bool:
        return self._services.rng.random() < SAMPLED_SHARE

    # Life

    def start_background(self) -> None:
        """Start `run()` of the plugins that have one; call it once, when there is something to schedule."""
        for name, plugin in self.plugins.items():
            run = getattr(plugin, "run", None)
            if run is not None:
                self._background.spawn(run(), name=f"{self.name} {name}.run")

    async def close(self) -> None:
        """Cancel background tasks, then close the plugins; idempotent."""
        if self._closed:
            return
        self._closed = True
        await self._background.close()
        for name, plugin in self.plugins.items():
            close = getattr(plugin, "close", None)
            if close is None:
                continue
            try:
                answer = close()
                if inspect.isawaitable(answer):
                    await answer
            except (Exception, SystemExit) as error:  # noqa: BLE001 - the plugin boundary; the others are to be closed too
                self.recorder.warning("plugin_error")
                _log.error('Plugin failed to close plugin=%s err="%s"', name, one_line(error))

    # The handle of the plugins

    @property
    def profile_name(self) -> str:
        """Return the `schedulerName` of this profile."""
        return self.name

    @property
    def snapshot(self) -> Snapshot:
        """Return the snapshot of the current cycle; outside cycles, of the last one."""
        return self._services.snapshot

    @property
    def clock(self) -> Clock:
        """Return the clock."""
        return self._services.clock

    @property
    def recorder(self) -> Recorder:
        """Return the sink of metrics."""
        return self._services.recorder

    @property
    def nominator(self) -> Nominator:
        """Return the nominated pods."""
        return self._services.nominator

    @property
    def client(self) -> Client:
        """Return the way to the API server."""
        return self._services.client

    @property
    def feature_gates(self) -> Mapping[str, bool]:
        """Return every known feature gate and whether it is on."""
        return self._services.feature_gates

    def lister(self, kind: type[K]) -> Lister[K]:
        """Return the cached objects of a watched kind; raise `PluginError` where it is not watched."""
        return self._services.lister(kind)

    def get_waiting_pod(self, uid: str) -> HeldPod | None:
        """Return the pod waiting at Permit under that uid, of whatever profile."""
        return self._services.waiting_pods.get(uid)

    def waiting_pods(self) -> Iterable[HeldPod]:
        """Return all pods waiting at Permit, of all profiles."""
        return self._services.waiting_pods.all()

    def index_waiting_pods(self, key: Callable[[Pod], Hashable | None]) -> WaitingPodIndex:
        """Return an index of the waiting pods of all profiles by `key(pod)`."""
        return self._services.waiting_pods.index(key)

    def reject_waiting_pod(self, uid: str, *, plugin: str = "", reason: str = "removed") -> bool:
        """Reject a waiting pod; return False when there is none under that uid."""
        return self._services.waiting_pods.reject(uid, plugin=plugin, reason=reason)

    def wait_verdict(self, uid: str) -> WaitVerdict | None:
        """Return how the pod's wait at Permit ended, until its binding cycle is over."""
        return self._services.waiting_pods.verdict(uid)

    def activate(self, pods: Iterable[Pod]) -> None:
        """Move pods that are unschedulable or in backoff to activeQ at once."""
        self._services.queue.activate(pods)

    def resort(self, pods: Iterable[Pod]) -> None:
        """Sort these pods anew, wherever they queue."""
        self._services.queue.resort(pods)

    def queue_place(self, uid: str) -> str:
        """Return where a pod queues, or ""."""
        return self._services.queue.place_of(uid) or ""

    def what_if(self) -> AbstractAsyncContextManager[WhatIf]:
        """Return what to ask with whether pods would fit, between two cycles."""
        return what_if(self, self._services.snapshot_access)

    def preemptor(self, plugin: str, rules: PreemptionRules) -> Preemption:
        """Return what makes room in the name of a plugin, by its rules."""
        services = self._services
        evictions = Evictions(
            plugin,
            handle=self,
            in_pre_bind=services.pods_in_pre_bind,
            in_background=services.feature_gates.get("SchedulerAsyncPreemption", True),
        )
        made = self.preemptors[plugin] = Preemption(
            plugin,
            rules,
            handle=self,
            rng=services.preemption_rng,
            filters=self._active_filters,
            follows=self._is_followed,
            release=self.release,
            extenders=services.extenders,
            evictions=evictions,
        )
        return made

    def spawn(self, work: Coroutine[object, object, None], *, name: str = "") -> asyncio.Task[None]:
        """Run a coroutine beside the scheduler."""
        return self._background.spawn(work, name=f"{self.name} {name or getattr(work, '__qualname__', 'task')}")

    def shared(self, key: str, make: Callable[[], S]) -> S:
        """Return the one object that plugins of all profiles share under `key`."""
        shared = self._services.shared
        if key not in shared:
            shared[key] = make()
        return cast("S", shared[key])

    def add_route(self, path: str, handler: Callable[[Mapping[str, str]], object]) -> None:
        """Answer GET `path` beside the metrics."""
        self._services.routes.add(path, handler, profile=self.name)
