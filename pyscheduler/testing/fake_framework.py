"""The scheduler with chosen plugins on a fake cluster, for tests that schedule pods or call single extension points.

`schedule` runs pods through the whole scheduler. `run_filter` and similar methods call one extension point.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Unpack, cast

import attrs
import msgspec

from kube_testserver.virtual_time import VirtualClock
from pyscheduler.api import EndedPod, Pod
from pyscheduler.config.feature_gates import parse as parse_gates
from pyscheduler.config.load import loads
from pyscheduler.framework.cycle_state import CycleState
from pyscheduler.framework.errors import APIError
from pyscheduler.framework.node_statuses import NodeStatuses
from pyscheduler.framework.pod_info import PodInfo, QueuedPodInfo
from pyscheduler.framework.recorder import NullRecorder
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.runtime.assembly.plugin_methods import misspelt_methods
from pyscheduler.runtime.cooperative_yield import run_now
from pyscheduler.scheduler.assembly import Settings, build
from pyscheduler.testing.argument_checks import (
    check_config,
    check_disable,
    check_enable,
    check_feature_gates,
    check_pod,
)
from pyscheduler.testing.watched_calls import RealStepWatch, SlowCalls, signers, watch_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from kube_objects.clock import Clock
    from pyscheduler.api import KubeObject, Node
    from pyscheduler.cluster.real.informer import RealInformer
    from pyscheduler.config.types import Configuration
    from pyscheduler.framework.hooks import PluginRegistry
    from pyscheduler.framework.interfaces import Plugin, PostFilterResult
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.framework.plugin_failures import PluginFailure
    from pyscheduler.framework.status import Status
    from pyscheduler.runtime.extension_points.signing import Signing
    from pyscheduler.runtime.profile import Profile
    from pyscheduler.scheduler.scheduler import Scheduler
    from pyscheduler.testing.builders import PodKeywords
    from pyscheduler.testing.fake_cluster import FakeCluster

__all__ = ["FakeFramework", "ScheduleResult", "advance_until_done"]

#: Limit for the first lists, in virtual seconds.
_START_SECONDS: Final = 300

#: Limit for a framework to stop, in virtual seconds.
_STOP_SECONDS: Final = 100

_AWAITS: Final = (
    "a plugin or the API server has not answered yet; advance the clock if it awaits handle.clock.sleep(). The test "
    "kit does not wait for asyncio.sleep(), sockets and threads: await them in the test, and then framework.settle()"
)

#: How many failures of plugins are kept.
_NOTED_FAILURES: Final = 100


@attrs.frozen(kw_only=True)
class ScheduleResult:
    """The current state of a pod.

    `state` is `bound`, `waiting` (at Permit), `pending` or `gated`. `node` is the node where the pod is bound, or
    reserved while it waits, else None. `message` is the message of the PodScheduled condition, or ""; of a gated pod
    without this condition, it is `gated by PLUGIN: REASON`. Of a pod that is being bound, it begins with `binding to
    NODE is under way`.
    """

    state: str
    node: str | None
    message: str
    pod: Pod

    @property
    def bound(self) -> bool:
        """Return True if the pod is bound."""
        return self.state == "bound"


class _Recorder(NullRecorder):
    """Counts warnings by kind, and keeps what reads gauges and counters, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.warnings: Counter[str] = Counter()
        self.reads: defaultdict[str, list[Callable[[], Mapping[tuple[tuple[str, str], ...], float]]]] = defaultdict(
            list
        )

    def warning(self, kind: str) -> None:
        self.warnings[kind] += 1

    def gauge(
        self, name: str, read: Callable[[], Mapping[tuple[tuple[str, str], ...], float]], *, description: str = ""
    ) -> None:
        self.reads[name].append(read)

    counter = gauge


class FakeFramework:
    """A scheduler with chosen plugins on a `FakeCluster`; `FakeCluster.framework` creates it."""

    def __init__(  # noqa: PLR0913 - what a test chooses, all by keyword
        self,
        cluster: FakeCluster,
        *,
        enable: Sequence[type[Plugin] | str],
        disable: Sequence[str],
        weights: Mapping[str, int],
        args: Mapping[str, Mapping[str, object]],
        config: str | None,
        feature_gates: str,
        seed: int,
        allow_plugin_errors: bool = False,
        register: Callable[[PluginRegistry], object] | None = None,
    ) -> None:
        self.cluster = cluster
        self.allow_plugin_errors = allow_plugin_errors
        #: The failures of plugins so far, at most a hundred.
        self.plugin_errors: list[PluginFailure] = []
        self._recorder = _Recorder()
        #: How often the scheduler passed over something, by kind, as in the metric `pyscheduler_warnings_total`.
        self.warnings: Counter[str] = self._recorder.warnings
        check_enable(enable)
        check_feature_gates(feature_gates)
        check_config(config, disable=disable, args=args, weights=weights)
        registry = discover()
        if register is not None:
            register(registry)
        names = []
        for plugin in enable:
            if isinstance(plugin, str):
                names.append(plugin)
            else:
                registry.add(plugin.name, plugin)
                names.append(plugin.name)
        check_disable(disable, registry.names())
        text = config if config is not None else _configuration(names, disable, weights, args)
        # A plugin may change its args, so that each scheduler needs its own.
        load = _load if config is not None or args else _load_once
        self.scheduler: Scheduler = build(
            load(text, feature_gates),
            cluster.transport(),
            cluster.clock,
            random.Random(seed),
            registry=registry,
            recorder=self._recorder,
            settings=Settings(feature_gates=parse_gates(feature_gates)),
        )
        self.scheduler.plugin_failures.listeners.append(self._note_failure)
        self._slow = SlowCalls()
        self._signing: Sequence[Signing] = ()
        if cluster.watch_plugins:
            for profile in self.scheduler.profiles.values():
                watch_calls(profile.calls, self._slow)
            self._signing = signers(self.profile)
            failures = self.scheduler.plugin_failures
            failures.steps = RealStepWatch(self._slow, cluster.clock, failures)
        self._running: asyncio.Task[None] | None = None
        #: Whether the error that ended the scheduler was raised to the caller.
        self._told = False

    # The parts

    @property
    def profile(self) -> Profile:
        """Return the first profile."""
        return next(iter(self.scheduler.profiles.values()))

    def plugin(self, name: str) -> Plugin:
        """Return the plugin object named `name` of the first profile; raise `KeyError` if it is not enabled."""
        plugins = self.profile.plugins
        if name not in plugins:
            raise KeyError(
                f"the profile does not enable {name!r}; write enable=[...]. Enabled are {', '.join(plugins)}"
            )
        return plugins[name]

    @property
    def plugin_warnings(self) -> list[str]:
        """Return what is likely wrong although it works: slow calls, and names that are nearly right."""
        plugins = {
            type(each): None for profile in self.scheduler.profiles.values() for each in profile.plugins.values()
        }
        return [
            *self._slow.texts(),
            *(text for plugin in plugins for text in misspelt_methods(plugin)),
            *self.scheduler.plugin_failures.warnings,
        ]

    def metric(self, name: str, **labels: str) -> float:
        """Return the value of a plugin's counter or gauge: the sum of all its series that have these labels.

        Of a histogram, `name` ends in `_count` or `_sum`. Raises `KeyError` if no plugin has the metric.
        """
        try:
            return self.profile.handle.metric_families.value(name, labels)
        except KeyError:
            if name not in self._recorder.reads:
                raise
        found = [pair for read in self._recorder.reads[name] for pair in read().items()]
        return sum(value for pairs, value in found if labels.items() <= set(pairs))

    # Scheduling

    async def start(self) -> None:
        """List, watch, and begin to schedule; `schedule` and `settle` call it if needed.

        Time passes only if the first lists need several attempts. Raises `TimeoutError` if they do not succeed.
        """
        if self._running is None:
            starting = asyncio.create_task(self.scheduler.start())
            await self.cluster.clock.advance(0)
            for _ in range(_START_SECONDS):
                if starting.done():
                    break
                await self.cluster.clock.advance(1.0)
            else:
                starting.cancel()
                raise TimeoutError(f"the caches are not synced after {_START_SECONDS} s of virtual time")
            await starting
            self._running = asyncio.create_task(self.scheduler.run(), name="fake framework")
            await self.cluster.clock.advance(0)

    async def settle(self) -> None:
        """Let everything happen that needs no time; raise the error that ended the scheduler."""
        await self.start()
        await self.cluster.clock.advance(0)
        self._raise_if_ended()

    async def schedule(self, pod: Pod | str, **keywords: Unpack[PodKeywords]) -> ScheduleResult:
        """Create the pod, unless it exists, let the scheduler try it, and return its state.

        Takes an object, or a name and the keywords of `pod_manifest`. No time passes.
        """
        if keywords and not isinstance(pod, str):
            raise TypeError("schedule() takes keywords with a name only; pass them to make_pod(...)")
        wanted = pod if isinstance(pod, Pod) else None
        name = wanted.name if wanted is not None else str(pod)
        namespace = wanted.namespace or "default" if wanted is not None else keywords.get("namespace", "default")
        await self.start()
        if self._find(name, namespace) is None:
            self.cluster.add_pod(pod, **keywords)
        await self.settle()
        result = self.result(name, namespace=namespace)
        # Without opportunistic batching, nobody else asks for the signature and sees what is wrong with it.
        for each in self._signing:
            each.sign(result.pod)
        return result

    def result(self, name: str, *, namespace: str = "default") -> ScheduleResult:
        """Return the current state of a pod; raise `KeyError` if it does not exist."""
        pod = self._find(name, namespace)
        if pod is None:
            raise KeyError(f"there is no pod {namespace}/{name}; create it with schedule() or cluster.add_pod()")
        condition = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
        message = condition.message if condition is not None and condition.status == "False" else ""
        waiting = self.scheduler.waiting_pods.get(pod.uid)
        queued = self.scheduler.queue.get(pod.uid)
        if pod.node_name:
            return ScheduleResult(state="bound", node=pod.node_name, message=message, pod=pod)
        if waiting is not None:
            return ScheduleResult(state="waiting", node=waiting.node_name, message=message, pod=pod)
        if queued is not None and queued.is_gated:
            message = message or f"gated by {queued.gating_plugin}: {queued.gating_reason}"
            return ScheduleResult(state="gated", node=None, message=message, pod=pod)
        if node := self.scheduler.binding_node(pod.uid):
            message = f"binding to {node} is under way: {_AWAITS}"
        return ScheduleResult(state="pending", node=None, message=message, pod=pod)

    def _find(self, name: str, namespace: str) -> Pod | None:
        """Return a pod, without reading the other pods."""
        try:
            return self.cluster.pod(name, namespace=namespace)
        except APIError as error:
            if error.status == 404:
                return None
            raise

    # One extension point at a time

    def nodes(self) -> Nodes:
        """Return the nodes of a fresh snapshot of the cluster."""
        self._refresh()
        return self.scheduler.snapshot.nodes

    def run_pre_enqueue(self, pod: Pod) -> Status | None:
        """Run PreEnqueue."""
        check_pod(pod, "run_pre_enqueue")
        return self.profile.run_pre_enqueue(pod)

    def run_pre_filter(self, pod: Pod, state: CycleState | None = None) -> Status | None:
        """Run PreFilter on all nodes; return the rejection, if any.

        Pass one `state` to several of these methods if a plugin reads at one extension point what it wrote at another.
        """
        check_pod(pod, "run_pre_filter")
        return self.profile.run_pre_filter(_given(state), pod, self.nodes()).status

    def run_filter(self, pod: Pod, state: CycleState | None = None) -> dict[str, Status | None]:
        """Run PreFilter and Filter; return each node's status, None if the node passes.

        If PreFilter rejects the pod, every node has that status. Without `state`, a new one is used.
        """
        check_pod(pod, "run_filter")
        state = _given(state)
        nodes = self.nodes()
        names = [nodes.name(row) for row in range(len(nodes))]
        outcome = self.profile.run_pre_filter(state, pod, nodes)
        if outcome.status is not None:
            return dict.fromkeys(names, outcome.status)
        statuses = self.profile.run_filters(state, pod, nodes)
        found = {name: statuses.status(row) for row, name in enumerate(names)}
        if outcome.result is not None and outcome.result.node_names is not None:
            for name in set(names) - outcome.result.node_names:
                found[name] = statuses.absent
        return found

    def run_post_filter(self, pod: Pod, state: CycleState | None = None) -> tuple[PostFilterResult | None, Status]:
        """Run PreFilter and Filter, then PostFilter with their statuses, even if a node passes."""
        check_pod(pod, "run_post_filter")
        state = _given(state)
        nodes = self.nodes()
        outcome = self.profile.run_pre_filter(state, pod, nodes)
        if outcome.status is not None:
            statuses = NodeStatuses.from_mapping({}, absent=outcome.status)
        else:
            statuses = self.profile.run_filters(state, pod, nodes)
        return run_now(self.profile.run_post_filter(state, pod, statuses))

    def run_score(self, pod: Pod, state: CycleState | None = None) -> dict[str, dict[str, int]]:
        """Run everything up to Score on all nodes; return node -> plugin -> weighted score, and `total`.

        Filters run because plugins may store results for Score, but every node is scored.
        """
        check_pod(pod, "run_score")
        state = _given(state)
        nodes = self.nodes()
        self.profile.run_pre_filter(state, pod, nodes)
        status = self.profile.run_pre_score(state, pod, nodes)
        if status is not None:
            raise AssertionError(f"PreScore failed: {status.message}; plugin_errors has the failure of the plugin")
        outcome = self.profile.run_score(state, pod, nodes)
        if outcome.status is not None:
            raise AssertionError(f"Score failed: {outcome.status.message}; plugin_errors has the failure of the plugin")
        return {
            nodes.name(row): {
                **{name: int(scores.weighted[row]) for name, scores in outcome.by_plugin.items()},
                "total": int(outcome.totals[row]),
            }
            for row in range(len(nodes))
        }

    def run_reserve(self, pod: Pod, node_name: str, state: CycleState | None = None) -> Status | None:
        """Run Reserve for `pod` on a node."""
        check_pod(pod, "run_reserve")
        return self.profile.run_reserve(_given(state), pod, node_name)

    def run_unreserve(self, pod: Pod, node_name: str, state: CycleState | None = None) -> None:
        """Run Unreserve."""
        check_pod(pod, "run_unreserve")
        self.profile.run_unreserve(_given(state), pod, node_name)

    def run_permit(self, pod: Pod, node_name: str, state: CycleState | None = None) -> Status | None:
        """Run Permit without waiting; a WAIT status has the shortest timeout in `timeout_seconds`."""
        check_pod(pod, "run_permit")
        status, _ = self.profile.run_permit(_given(state), pod, node_name)
        return status

    def run_pre_bind_pre_flight(self, pod: Pod, node_name: str, state: CycleState | None = None) -> Status | None:
        """Run PreBindPreFlight; SKIP if no plugin has PreBind work for the pod."""
        check_pod(pod, "run_pre_bind_pre_flight")
        return self.profile.run_pre_bind_pre_flights(_given(state), pod, node_name)

    async def run_pre_bind(self, pod: Pod, node_name: str, state: CycleState | None = None) -> Status | None:
        """Run PreBind."""
        check_pod(pod, "run_pre_bind")
        return await self.profile.run_pre_bind(_given(state), pod, node_name)

    async def run_bind(self, pod: Pod, node_name: str, state: CycleState | None = None) -> Status | None:
        """Run Bind."""
        check_pod(pod, "run_bind")
        return await self.profile.run_bind(_given(state), pod, node_name)

    async def run_post_bind(self, pod: Pod, node_name: str, state: CycleState | None = None) -> None:
        """Run PostBind."""
        check_pod(pod, "run_post_bind")
        await self.profile.run_post_bind(_given(state), pod, node_name)

    def sort_key(self, pod: Pod, *, enqueued_at: float = 0.0) -> Any:
        """Return the pod's sort key in the profile's queue."""
        check_pod(pod, "sort_key")
        return self.profile.sort_key(QueuedPodInfo(pod_info=PodInfo.of(pod), enqueued_at=enqueued_at))

    # The rest

    def get_route(self, path: str, **query: str) -> object:
        """Return a plugin's answer to GET `path`; raise `KeyError` if no plugin serves the path."""
        if self.scheduler.routes.find(path, query) is None:
            raise KeyError(f"no plugin serves {path}; call handle.add_route({path!r}, self.page) in its constructor")
        return self.scheduler.routes.answer(path, query)

    def assert_invariants(self) -> None:
        """Raise AssertionError if queue, cache or snapshot are inconsistent."""
        self.scheduler.check_invariants()

    async def close(self) -> None:
        """Stop as SIGTERM does: finish the bindings under way, for ten seconds of virtual time at most.

        Advances the clock if something waits for it, such as the retry of a request. Raises the error that ended the
        scheduler, if it was not raised before, and `TimeoutError` if it does not stop.
        """
        await advance_until_done(self.cluster.clock, self._stop())

    async def crash(self) -> None:
        """Stop and finish nothing: cancel the bindings under way, and write no status.

        What a plugin wrote before stays. Otherwise as `close`.
        """
        await advance_until_done(self.cluster.clock, self._stop(at_once=True))

    async def _stop(self, *, at_once: bool = False) -> None:
        await self.scheduler.stop(at_once=at_once)
        if self._running is not None:
            await asyncio.wait([self._running])
            self._raise_if_ended()

    def _note_failure(self, failure: PluginFailure) -> None:
        if len(self.plugin_errors) < _NOTED_FAILURES:
            self.plugin_errors.append(failure)

    def _raise_if_ended(self) -> None:
        """Raise the error that ended the scheduler, once."""
        running = self._running
        if running is None or not running.done() or running.cancelled() or self._told:
            return
        self._told = True
        running.result()

    def _refresh(self) -> None:
        """Bring informers, cache and snapshot up to date without running the event loop."""
        scheduler = self.scheduler
        cast("RealInformer[Node]", scheduler.nodes).prime(self.cluster.nodes())
        pods = [pod for pod in self.cluster.pods() if not pod.is_terminal]
        cast("RealInformer[Pod]", scheduler.pods).prime(pods)
        for profile in scheduler.profiles.values():
            for kind in {kind for plugin in profile.plugins.values() for kind in plugin.watches}:
                if self.cluster.serves(kind):
                    lister = cast("RealInformer[KubeObject]", profile.handle.lister(kind.type))
                    objects = self.cluster.objects(kind.type)
                    lister.prime([one for one in objects if not isinstance(one, EndedPod) or one.is_terminal])
        scheduler.cache.update_snapshot(scheduler.snapshot)


async def advance_until_done(clock: Clock, stopping: Coroutine[object, object, None]) -> None:
    """Advance the clock until `stopping` ends; raise `TimeoutError` if that takes too long.

    A clock that is not virtual advances by itself.
    """
    if not isinstance(clock, VirtualClock):
        await stopping
        return
    task = asyncio.ensure_future(stopping)
    await clock.advance(0)
    for _ in range(_STOP_SECONDS):
        if task.done():
            break
        await clock.advance(1.0)
    else:
        task.cancel()
        raise TimeoutError(f"a framework has not stopped after {_STOP_SECONDS} s of virtual time")
    await task


def _given(state: CycleState | None) -> CycleState:
    return state if state is not None else CycleState()


def _load(text: str, feature_gates: str) -> Configuration:
    return loads(text, source="framework configuration", gates=parse_gates(feature_gates))


#: Most tests have the same few configurations; to read one takes as long as to make all its plugins.
_load_once = lru_cache(maxsize=64)(_load)


def _configuration(
    names: Sequence[str],
    disable: Sequence[str],
    weights: Mapping[str, int],
    args: Mapping[str, Mapping[str, object]],
) -> str:
    """Return a configuration with these plugins added to the defaults."""
    # A default plugin that is enabled once more keeps its place and gets the weight.
    enabled = dict.fromkeys((*names, *weights))
    profile = {
        "schedulerName": "pyscheduler",
        "plugins": {
            "multiPoint": {
                "enabled": [{"name": name, "weight": weights.get(name, 0)} for name in enabled],
                "disabled": [{"name": name} for name in disable],
            }
        },
        "pluginConfig": [{"name": name, "args": dict(values)} for name, values in args.items()],
    }
    body = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"qps": -1},
        "profiles": [profile],
    }
    return msgspec.json.encode(body).decode()
