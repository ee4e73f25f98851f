"""The one place where a scheduler is put together.

`build` takes a configuration, a transport, a clock and a source of randomness, and returns a `Scheduler`: the same on a
real cluster, in tests and in simulation. Only clock and transport differ.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import attrs

from pyscheduler.api import Node, Pod
from pyscheduler.cache.cache import Cache
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.config.feature_gates import default_gates
from pyscheduler.config.profiles import profiles as profile_specs
from pyscheduler.framework.recorder import NullRecorder
from pyscheduler.podgroup.wire import IN_TREE_PODGROUPS
from pyscheduler.queue.nominator import Nominator
from pyscheduler.queue.scheduling_queue import SchedulingQueue
from pyscheduler.runtime.discovery import discover
from pyscheduler.runtime.profile_set import build_profiles
from pyscheduler.runtime.services import Services
from pyscheduler.runtime.waiting_pods import WaitingPodMap
from pyscheduler.scheduler.algorithm import Algorithm
from pyscheduler.scheduler.binding_cycle import BindingCycle
from pyscheduler.scheduler.event_handlers import EventHandlers
from pyscheduler.scheduler.extended_algorithm import ExtendedAlgorithm
from pyscheduler.scheduler.extenders_setup import make_extenders, with_ignored_resources
from pyscheduler.scheduler.failure import FailureHandler
from pyscheduler.scheduler.gauges import register_gauges, register_profiles
from pyscheduler.scheduler.group_commit import GroupCommit
from pyscheduler.scheduler.group_cycle import GroupCycles
from pyscheduler.scheduler.in_tree_groups import make_in_tree_groups
from pyscheduler.scheduler.informers import LIVE_PODS, Informers
from pyscheduler.scheduler.permissions import needs
from pyscheduler.scheduler.pod_status import PodStatusWriter
from pyscheduler.scheduler.ports import ClientSettings
from pyscheduler.scheduler.queued_pods import QueuedPods
from pyscheduler.scheduler.room import Room
from pyscheduler.scheduler.scheduler import Scheduler
from pyscheduler.scheduler.scheduling_cycle import SchedulingCycle
from pyscheduler.scheduler.work import WorkSources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyscheduler.config.types import Configuration
    from pyscheduler.framework.clock import Clock
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.runtime.profile import Profile
    from pyscheduler.runtime.registry import Registry
    from pyscheduler.scheduler.ports import Transport

__all__ = ["Settings", "build"]


@attrs.frozen(kw_only=True)
class Settings:
    """Process settings that the configuration file does not know; flags set them."""

    feature_gates: Mapping[str, bool] = attrs.Factory(default_gates)
    #: How long a pod stays unschedulable at most before it is tried again without an event, in seconds.
    max_unschedulable_seconds: float = 300.0
    #: The longest wait at Permit, in seconds; None: what each plugin says of itself, 900 where it says nothing.
    permit_wait_limit_seconds: float | None = None
    #: Name of this machine, for events' `reportingInstance`.
    host_name: str = ""


def build(
    config: Configuration,
    transport: Transport,
    clock: Clock,
    rng: random.Random,
    *,
    registry: Registry | None = None,
    recorder: Recorder | None = None,
    settings: Settings | None = None,
) -> Scheduler:
    """Put a scheduler together. Raises `ConfigError` naming everything that is wrong with the profiles.

    `registry` holds the plugins (default: all that are installed), `recorder` takes the measurements (default: none).
    Nothing is started, and nothing is read from the API server.
    """
    registry = registry if registry is not None else discover()
    recorder = recorder if recorder is not None else NullRecorder()
    settings = settings if settings is not None else Settings()
    gates = settings.feature_gates
    # Each consumer draws from a stream of its own, so that one more draw here shifts no decision there.
    client_rng, sampling_rng, choices_rng, preemption_rng = (random.Random(rng.getrandbits(64)) for _ in range(4))
    client = transport.connect(
        ClientSettings(
            qps=config.client_connection.qps,
            burst=config.client_connection.burst,
            component="pyscheduler",
            host_name=settings.host_name,
        ),
        clock=clock,
        rng=client_rng,
        recorder=recorder,
    )
    informers = Informers(client)
    pods = informers.get(Pod, field_selector=LIVE_PODS)
    nodes = informers.get(Node)
    extenders = make_extenders(config.extenders, transport, pods=pods, nodes=nodes, clock=clock, recorder=recorder)
    nominator = Nominator(find_pod=lambda pod: pods.get(pod.name, pod.namespace))
    snapshot = Snapshot(nominator=nominator)
    cache = Cache(clock=clock, recorder=recorder)
    waiting_pods = WaitingPodMap(clock=clock, recorder=recorder)
    activator = _Activator()
    services = Services(
        snapshot=snapshot,
        clock=clock,
        rng=sampling_rng,
        recorder=recorder,
        client=client,
        nominator=nominator,
        waiting_pods=waiting_pods,
        feature_gates=gates,
        activate=activator.activate,
        resort=activator.resort,
        queue_place=activator.queue_place,
        permit_wait_limit_seconds=settings.permit_wait_limit_seconds,
        lister=informers.lister,
        declare=informers.declare,
        event_recorder=client.event_recorder,
        preemption_rng=preemption_rng,
        extenders=extenders.members if extenders is not None else (),
    )
    services.exclusive.refresh = lambda: cache.update_snapshot(snapshot)
    services.exclusive.settled = waiting_pods.given_back
    if gates["GenericWorkload"]:
        informers.declare(IN_TREE_PODGROUPS)
    specs = with_ignored_resources(profile_specs(config, registry.args_type), config.extenders)
    profiles = build_profiles(specs, registry, services)
    in_tree = make_in_tree_groups(next(iter(profiles.values()))) if gates["GenericWorkload"] else None

    def is_placed(uid: str) -> bool:
        verdict = waiting_pods.verdict(uid)
        return cache.is_assumed(uid) and (verdict is None or verdict.status is None)

    work = WorkSources()
    queue = _make_queue(config, settings, services, profiles, is_placed, work.wake)
    activator.queue = queue
    informers.declare_registered(profiles.values())
    statuses = PodStatusWriter(client=client, clock=clock, recorder=recorder)
    handlers = EventHandlers(
        clock=clock,
        recorder=recorder,
        cache=cache,
        queue=queue,
        profiles=profiles,
        waiting_pods=waiting_pods,
        statuses=statuses,
    )
    handlers.register(pods, nodes, informers.announced(profiles.values()))
    register_gauges(recorder, cache, queue)
    failure = FailureHandler(clock=clock, recorder=recorder, queue=queue, pods=pods, statuses=statuses)
    algorithm = Algorithm(
        snapshot=snapshot,
        rng=choices_rng,
        percentage_of_nodes_to_score=config.percentage_of_nodes_to_score,
        extenders_choose=extenders is not None and extenders.any_chooses,
    )
    scheduling = SchedulingCycle(
        clock=clock,
        recorder=recorder,
        cache=cache,
        snapshot=snapshot,
        queue=queue,
        algorithm=algorithm,
        failure=failure,
        extended=ExtendedAlgorithm(algorithm=algorithm, extenders=extenders) if extenders is not None else None,
    )
    binding = BindingCycle(
        clock=clock,
        recorder=recorder,
        queue=queue,
        scheduling=scheduling,
        failure=failure,
        statuses=statuses,
        nominate_expectation=gates["NominatedNodeNameForExpectation"],
        extenders=extenders,
    )
    group_cycles = GroupCycles(
        clock=clock,
        recorder=recorder,
        cache=cache,
        snapshot=snapshot,
        queue=queue,
        scheduling=scheduling,
        commit=GroupCommit(
            clock=clock,
            cache=cache,
            snapshot=snapshot,
            scheduling=scheduling,
            failure=failure,
            waiting_pods=waiting_pods,
        ),
        profiles=profiles,
        sources={
            name: ((in_tree,) if in_tree is not None else ()) + profile.group_cycle_plugins
            for name, profile in profiles.items()
        },
    )
    queued_pods = QueuedPods(
        clock=clock,
        recorder=recorder,
        cache=cache,
        queue=queue,
        pods=pods,
        profiles=profiles,
        waiting_pods=waiting_pods,
        scheduling=scheduling,
        group_cycles=group_cycles,
        room=Room(cache=cache, snapshot=snapshot),
    )
    work.add(queued_pods)
    scheduler = Scheduler(
        client=client,
        clock=clock,
        recorder=recorder,
        cache=cache,
        snapshot=snapshot,
        queue=queue,
        profiles=profiles,
        waiting_pods=waiting_pods,
        statuses=statuses,
        handlers=handlers,
        scheduling=scheduling,
        binding=binding,
        work=work,
        queued_pods=queued_pods,
        writers=(statuses, in_tree) if in_tree is not None else (statuses,),
        pods=pods,
        nodes=nodes,
        others=[informer for _, informer in informers.others()],
        routes=services.routes,
        exclusive=services.exclusive,
        needs=needs(profiles.values(), informers.kinds(), in_tree_groups=in_tree is not None),
        extenders=extenders,
    )
    register_profiles(
        recorder,
        profiles,
        bindings=lambda: scheduler.binding_count,
        prioritizing=(lambda: extenders.prioritizing) if extenders is not None else None,
    )
    return scheduler


def _make_queue(
    config: Configuration,
    settings: Settings,
    services: Services,
    profiles: Mapping[str, Profile],
    is_placed: Callable[[str], bool],
    on_ready: Callable[[], object],
) -> SchedulingQueue:
    """Return the queue that all profiles share; they agree on how to sort it."""
    gates = settings.feature_gates
    nominator = services.nominator
    assert isinstance(nominator, Nominator)
    return SchedulingQueue(
        clock=services.clock,
        recorder=services.recorder,
        sort_key=next(iter(profiles.values())).sort_key,
        nominator=nominator,
        pre_enqueue={name: profile.run_pre_enqueue for name, profile in profiles.items()},
        hints={name: profile.hints() for name, profile in profiles.items()},
        gating_events={name: profile.registered_events() for name, profile in profiles.items()},
        initial_backoff_seconds=config.pod_initial_backoff_seconds,
        max_backoff_seconds=config.pod_max_backoff_seconds,
        max_unschedulable_seconds=settings.max_unschedulable_seconds,
        pop_from_backoff=gates["SchedulerPopFromBackoffQ"],
        adjacency_key=next(iter(profiles.values())).adjacency_key,
        is_placed=is_placed,
        generic_workload=gates["GenericWorkload"],
        on_ready=on_ready,
    )


class _Activator:
    """Lets plugins reach the queue, which is made after them, because it asks them how to sort."""

    queue: SchedulingQueue

    def activate(self, pods: Iterable[Pod]) -> None:
        self.queue.activate(pods)

    def resort(self, pods: Iterable[Pod]) -> None:
        self.queue.resort(pods)

    def queue_place(self, uid: str) -> str:
        return self.queue.place_of(uid) or ""
