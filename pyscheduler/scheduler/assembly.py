"""Build a scheduler from a configuration, a transport, a clock and a source of randomness."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import attrs

from kube_objects.kinds import NODES, PODS
from pyscheduler.api import Node, Pod
from pyscheduler.cache.cache import Cache
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.config.feature_gates import default_gates
from pyscheduler.config.forms import placed_in_file
from pyscheduler.config.problems import found_in
from pyscheduler.config.profiles import profiles as profile_specs
from pyscheduler.framework.errors import ConfigError
from pyscheduler.framework.plugin_failures import PluginFailures
from pyscheduler.framework.recorder import NullRecorder
from pyscheduler.framework.step_watch import StepWatch
from pyscheduler.framework.stories import NullStories, Stories
from pyscheduler.framework.work_sources import WorkSourcePlugin
from pyscheduler.podgroup import PodGroups
from pyscheduler.podgroup.wire import IN_TREE_PODGROUPS
from pyscheduler.queue.nominator import Nominator
from pyscheduler.queue.scheduling_queue import SchedulingQueue
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.runtime.assembly.permissions import Need, needs_of_plugins, reading
from pyscheduler.runtime.assembly.profile_set import build_profiles
from pyscheduler.runtime.handle_dependencies import HandleDependencies
from pyscheduler.runtime.permit.waiting_pods import WaitingPodMap
from pyscheduler.runtime.placement import PlacementPipeline
from pyscheduler.runtime.snapshot_access import SnapshotAccess
from pyscheduler.runtime.tie_break import TieBreak
from pyscheduler.scheduler.binding_cycle import BindingCycle
from pyscheduler.scheduler.event_handlers import EventHandlers
from pyscheduler.scheduler.extenders_setup import make_extenders, with_ignored_resources
from pyscheduler.scheduler.failure import FailureHandler
from pyscheduler.scheduler.gang_preemption import GangPreemption
from pyscheduler.scheduler.gauges import register_gauges
from pyscheduler.scheduler.group_commit import GroupCommit
from pyscheduler.scheduler.group_cycle import GroupCycles
from pyscheduler.scheduler.group_placements import PlacementSearch
from pyscheduler.scheduler.group_preemption import GroupPreemption
from pyscheduler.scheduler.in_tree_groups import RULES as GROUP_RULES, InTreeGroups, make_in_tree_groups
from pyscheduler.scheduler.informers import LIVE_PODS, Informers
from pyscheduler.scheduler.kubelet_rejections import RULES as REJECTION_RULES, KubeletRejections
from pyscheduler.scheduler.object_fields import ObjectFields
from pyscheduler.scheduler.pod_status import RULES as STATUS_RULES, PodStatusWriter
from pyscheduler.scheduler.ports import ClientSettings
from pyscheduler.scheduler.queued_pods import QueuedPods
from pyscheduler.scheduler.scheduler import Scheduler
from pyscheduler.scheduler.scheduling_cycle import SchedulingCycle
from pyscheduler.scheduler.unconfirmed import UnconfirmedBindings
from pyscheduler.scheduler.work import WorkSources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kube_objects.clock import Clock
    from pyscheduler.config.types import Configuration
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.runtime.assembly.registry import Registry
    from pyscheduler.runtime.profile import Profile
    from pyscheduler.runtime.tie_break import Ties
    from pyscheduler.scheduler.extenders import Extenders
    from pyscheduler.scheduler.ports import ClusterClient, Transport

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
    #: The choice among nodes of equal score.
    ties: Ties = "random"
    #: Keeps why each pod waits.
    stories: Stories = attrs.Factory(NullStories)


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
    # Each consumer draws from a stream of its own, so that one more draw here shifts no decision there.
    client_rng, sampling_rng, choices_rng, preemption_rng = (random.Random(rng.getrandbits(64)) for _ in range(4))
    connection = config.client_connection
    client_settings = ClientSettings(qps=connection.qps, burst=connection.burst, host_name=settings.host_name)
    client = transport.connect(client_settings, clock=clock, rng=client_rng, recorder=recorder)
    failures = PluginFailures(recorder)
    failures.steps = StepWatch(clock, failures)
    informers = Informers(client, failures=failures)
    pods = informers.get(Pod, field_selector=LIVE_PODS)
    nodes = informers.get(Node)
    extenders = make_extenders(config.extenders, transport, pods=pods, nodes=nodes, clock=clock, recorder=recorder)
    nominator = Nominator(find_pod=lambda pod: pods.get(pod.name, pod.namespace))
    snapshot = Snapshot(nominator=nominator)
    cache = Cache(recorder=recorder)
    waiting_pods = WaitingPodMap(clock=clock, recorder=recorder, failures=failures)
    fields = ObjectFields()
    services = HandleDependencies(
        snapshot=snapshot,
        clock=clock,
        rng=sampling_rng,
        recorder=recorder,
        failures=failures,
        stories=settings.stories,
        client=client,
        nominator=nominator,
        waiting_pods=waiting_pods,
        snapshot_access=SnapshotAccess(waiting_pods.releases, refresh=lambda: cache.update_snapshot(snapshot)),
        feature_gates=settings.feature_gates,
        permit_wait_limit_seconds=settings.permit_wait_limit_seconds,
        lister=informers.lister,
        fields=fields.of,
        declare=informers.declare,
        event_recorder=client.event_recorder,
        preemption_rng=preemption_rng,
        extenders=extenders.members if extenders is not None else (),
    )
    if settings.feature_gates["GenericWorkload"]:
        informers.declare(IN_TREE_PODGROUPS)
    specs = with_ignored_resources(profile_specs(config, registry.args_type, keep_wrong=True), config.extenders)
    with found_in(config.source), placed_in_file(config):
        profiles = build_profiles(specs, registry, services)
    for profile in profiles.values():
        failures.owners.add(profile.plugins)
        waiting_pods.plugins.update(profile.plugins)
    fields.follow((each for profile in profiles.values() for each in profile.plugins.values()), pods=pods, nodes=nodes)
    informers.declare_registered(profiles.values())
    work = WorkSources()
    services.queue = _make_queue(config, settings, services, profiles, cache, nominator, work.wake)
    pipeline = PlacementPipeline(
        snapshot=snapshot,
        tie_break=TieBreak(choices_rng, settings.ties),
        percentage_of_nodes_to_score=config.percentage_of_nodes_to_score,
        extenders=extenders,
    )
    scheduler = _make_scheduler(services, profiles, cache, client, informers, extenders, pipeline, work)
    scheduler.handlers.register(pods, nodes, informers.announced(profiles.values()))
    _add_work_sources(scheduler, rng)
    register_gauges(scheduler)
    return scheduler


def _make_in_tree_groups(profiles: Mapping[str, Profile], gates: Mapping[str, bool]) -> InTreeGroups | None:
    """Return the state of Kubernetes' own groups; None without the gate GenericWorkload."""
    if not gates["GenericWorkload"]:
        return None
    handle = next(iter(profiles.values())).handle
    return make_in_tree_groups(handle, retries_after_backoff=gates["TopologyAwareWorkloadScheduling"])


def _make_scheduler(
    services: HandleDependencies,
    profiles: Mapping[str, Profile],
    cache: Cache,
    client: ClusterClient,
    informers: Informers,
    extenders: Extenders | None,
    pipeline: PlacementPipeline,
    work: WorkSources,
) -> Scheduler:
    clock, recorder, queue, stories = services.clock, services.recorder, services.queue, services.stories
    serving = {name: profile for name, profile in profiles.items() if profile.schedules}
    pods, waiting_pods, gates = informers.get(Pod), services.waiting_pods, services.feature_gates
    in_tree = _make_in_tree_groups(profiles, gates)
    groups = services.shared.get(PodGroups.KEY)
    statuses = PodStatusWriter(client=client, clock=clock, recorder=recorder)
    failure = FailureHandler(clock=clock, recorder=recorder, queue=queue, pods=pods, statuses=statuses, stories=stories)
    scheduling = SchedulingCycle(
        clock=clock,
        recorder=recorder,
        cache=cache,
        snapshot=services.snapshot,
        queue=queue,
        pipeline=pipeline,
        failure=failure,
        group_of=groups.directory.of if isinstance(groups, PodGroups) else lambda _pod: None,
        stories=stories,
        plugin_failures=services.failures,
    )
    cycles = _make_group_cycles(in_tree, profiles, waiting_pods, scheduling, gates)
    queued_pods = QueuedPods(profiles=profiles, waiting_pods=waiting_pods, scheduling=scheduling, group_cycles=cycles)
    work.add(queued_pods)
    return Scheduler(
        client=client,
        clock=clock,
        recorder=recorder,
        plugin_failures=services.failures,
        cache=cache,
        snapshot=services.snapshot,
        queue=queue,
        profiles=profiles,
        waiting_pods=waiting_pods,
        statuses=statuses,
        handlers=EventHandlers(
            clock=clock,
            recorder=recorder,
            cache=cache,
            queue=queue,
            profiles=serving,
            waiting_pods=waiting_pods,
            statuses=statuses,
            stories=stories,
            rejections=KubeletRejections(
                client=client, cache=cache, profiles=serving, stories=stories, recorder=recorder
            ),
        ),
        scheduling=scheduling,
        binding=BindingCycle(
            scheduling=scheduling,
            statuses=statuses,
            unconfirmed=UnconfirmedBindings(clock=clock, cache=cache, failures=services.failures),
            nominate_expectation=gates["NominatedNodeNameForExpectation"],
            extenders=extenders,
        ),
        work=work,
        queued_pods=queued_pods,
        writers=(statuses, in_tree) if in_tree is not None else (statuses,),
        pods=pods,
        nodes=informers.get(Node),
        others=[informer for _, informer in informers.others()],
        routes=services.routes,
        snapshot_access=services.snapshot_access,
        needs=lambda: [
            *_own_needs(schedules=bool(serving), has_groups=in_tree is not None),
            *needs_of_plugins(profiles.values(), informers.declared()),
        ],
        extenders=extenders,
    )


def _add_work_sources(scheduler: Scheduler, rng: random.Random) -> None:
    """Let plugins add their sources of work; raise `ConfigError` listing everything that keeps a profile from one."""
    problems: list[str] = []
    for profile in scheduler.profiles.values():
        plugins = {name: each for name, each in profile.plugins.items() if isinstance(each, WorkSourcePlugin)}
        try:
            for plugin in [*plugins.values()][:1]:
                plugin.add_work_source(scheduler, profile, rng)
        except ConfigError as error:
            problems += error.problems
        else:
            text = 'a profile has one plugin that schedules its pods itself, disable "{0}" @ {1}.plugins'
            problems += [text.format(name, profile.path) for name in [*plugins][1:]]
    if problems:
        raise ConfigError(*problems)


def _own_needs(*, schedules: bool, has_groups: bool) -> Iterator[Need]:
    """Yield the permissions that the scheduler needs beside those of plugins. `schedules`: whether any profile does."""
    yield from (Need(reading(kind), "scheduling") for kind in (PODS, NODES))
    if schedules:
        yield from (Need(rule, "pod conditions") for rule in STATUS_RULES)
        yield from (Need(rule, "kubelet rejections") for rule in REJECTION_RULES)
        yield from (Need(rule, "pod groups") for rule in (GROUP_RULES if has_groups else ()))


def _make_group_cycles(
    in_tree: InTreeGroups | None,
    profiles: Mapping[str, Profile],
    waiting_pods: WaitingPodMap,
    scheduling: SchedulingCycle,
    gates: Mapping[str, bool],
) -> GroupCycles:
    """Return the cycles of groups; Kubernetes' own groups come before those of plugins."""
    own_groups = () if in_tree is None else (in_tree,)
    cycles = GroupCycles(
        scheduling=scheduling,
        commit=GroupCommit(scheduling=scheduling, waiting_pods=waiting_pods),
        profiles=profiles,
        sources={name: own_groups + profile.group_cycle_plugins for name, profile in profiles.items()},
        preemption=GroupPreemption(source=in_tree, groups=in_tree.groups, scheduling=scheduling)
        if in_tree is not None and gates["WorkloadAwarePreemption"]
        else None,
    )
    if in_tree is not None and gates["TopologyAwareWorkloadScheduling"]:
        rng = scheduling.pipeline.tie_break.rng
        cycles.placements = PlacementSearch(groups=in_tree, cache=scheduling.cache, rng=rng)
    scheduling.gangs = GangPreemption(cycles)
    return cycles


def _make_queue(
    config: Configuration,
    settings: Settings,
    services: HandleDependencies,
    profiles: Mapping[str, Profile],
    cache: Cache,
    nominator: Nominator,
    on_ready: Callable[[], object],
) -> SchedulingQueue:
    """Return the queue that all profiles share; they agree on how to sort it."""
    gates = settings.feature_gates

    def is_placed(uid: str) -> bool:
        verdict = services.waiting_pods.verdict(uid)
        return cache.is_assumed(uid) and (verdict is None or verdict.status is None)

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
        on_ready=on_ready,
        failures=services.failures,
        stories=services.stories,
    )
