"""Run one scheduler as a process: fill the caches, take the lease, schedule, and end cleanly.

The lease is taken after the caches are filled, so that a leader can schedule at once. The shutdown takes about ten
seconds at most, even if the API server does not answer:

1. The readiness probe fails.
2. The scheduler finishes the bindings that have begun, and still renews the lease.
3. The lease is released, so that a standby can take it at once.
4. The ports are closed.
"""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from kube_objects.clock import LoopClock
from pyscheduler.cluster.real.lease import LeaderElector
from pyscheduler.cluster.real.startup_check import wait_for_server
from pyscheduler.config.completed import completed
from pyscheduler.config.dump import to_json
from pyscheduler.config.feature_gates import default_gates, stage_of
from pyscheduler.config.problems import found_in
from pyscheduler.flags.effective_config import with_election
from pyscheduler.framework.errors import ConfigError, ForbiddenError, PySchedulerError
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.scheduler.assembly import Settings, build
from pyscheduler.scheduler.debugger import DebugSignal
from pyscheduler.serving.config_reload import ConfigReloader
from pyscheduler.serving.gc_tuning import keep_for_good, rare_collections
from pyscheduler.serving.inspection import InspectionPages
from pyscheduler.serving.missing_kinds import warn_of_missing_kinds
from pyscheduler.serving.pages import Pages
from pyscheduler.serving.ports import Ports, probes
from pyscheduler.serving.version import build_labels, compatibility_labels
from pyscheduler.stories.book import StoryBook
from pyscheduler.stories.gauges import register_gauges
from pyscheduler.stories.lines import log_gap
from pyscheduler.telemetry.memory_limit import memory_limit_bytes
from pyscheduler.telemetry.metric_view import metric_view
from pyscheduler.telemetry.metrics import Metrics
from pyscheduler.telemetry.pod_resources import render_pod_resources

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence

    from pyscheduler.cluster.real.base_transport import ConnectingTransport
    from pyscheduler.cluster.real.loop_heartbeat import Heartbeat
    from pyscheduler.config.types import Configuration, LeaderElection
    from pyscheduler.flags.run_flags import Flags
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.scheduler.ports import Transport
    from pyscheduler.scheduler.scheduler import Scheduler
    from pyscheduler.serving.watchdog import Watchdog

__all__ = ["RunOptions", "serve", "unless_stopped"]

T = TypeVar("T")

_log = logging.getLogger(__name__)

_BLOCKED: Final = "pyscheduler_event_loop_longest_block_seconds"
#: Limit for the whole end, from the signal on.
_STOP_SECONDS: Final = 10.0
#: Part of that limit which is reserved for the release of the lease.
_RELEASE_SECONDS: Final = 1.5


@attrs.frozen(kw_only=True)
class RunOptions:
    """The options of one scheduler process."""

    config: Configuration
    #: The file that `config` was read from, for messages.
    config_file: str | None = None
    #: All of kube-scheduler's feature gates.
    feature_gates: Mapping[str, bool] = attrs.Factory(default_gates)
    #: Distributions and entry points whose plugins are ignored.
    blocked: Sequence[str] = ()
    bind_address: str = "127.0.0.1"
    #: Port of health and metrics; 0 takes a free port, None opens no port.
    health_port: int | None = 0
    #: The whole command line. None: no HTTPS port, and /metrics shows everything.
    flags: Flags | None = None
    seed: int | None = None
    max_unschedulable_seconds: float = 300.0


async def serve(
    options: RunOptions,
    transport: ConnectingTransport,
    *,
    stop: asyncio.Event,
    metrics: Metrics | None = None,
    on_ready: Callable[[Scheduler], Awaitable[None]] | None = None,
    lease_transport: Callable[[], Awaitable[Transport]] | None = None,
    watchdog: Watchdog | None = None,
) -> None:
    """Run a scheduler over `transport` until `stop` is set, then end cleanly.

    `metrics` receives the measurements (default: filtered by the flags). `on_ready` is called once the caches are
    synced, before the first cycle. `lease_transport` opens a connection for the lease alone; with it, the scheduler
    schedules only while it leads, if the configuration enables leader election. With a `watchdog`, leadership and
    liveness depend on its heartbeat. Raises `PySchedulerError` when leadership is lost.
    """
    if metrics is None:
        view = None
        if options.flags is not None:
            flags = options.flags.metrics
            view = metric_view(flags.disabled_metrics, flags.allow_metric_labels, flags.allow_metric_labels_manifest)
        metrics = Metrics(view=view)
    heartbeat = watchdog.heartbeat if watchdog is not None else None
    _show_program(metrics, options, heartbeat)
    elector = _elector(options, lease_transport, metrics, heartbeat)
    if elector is not None:
        transport.fence(lambda: elector.is_leader)
        if watchdog is not None:
            deadline = options.config.leader_election.renew_deadline_seconds
            watchdog.guard(elector, renew_deadline_seconds=deadline)
        elector.watch()
    try:
        # Before waiting for the server: a mistake in the profiles is reported even if the cluster cannot be reached.
        # Imports take a second or two, and nothing waits for the loop yet.
        with heartbeat.paused() if heartbeat is not None else nullcontext():
            scheduler = build_scheduler(options, transport, metrics)
        reloader = _reloader(options, scheduler)
        ports = _ports(options, scheduler, elector, metrics, heartbeat, stop, reloader)
    except BaseException:
        if elector is not None:
            await elector.release()
        raise
    debug_signal = DebugSignal(scheduler)
    with rare_collections():
        try:
            await ports.open()
            if await unless_stopped(wait_for_server(transport, clock=scheduler.clock), stop) is None:
                return
            if not await _begin(scheduler, elector, stop, delay=options.config.delay_cache_until_active):
                return
            _announce(scheduler, elector, "became leader")
            _log_gap(scheduler, elector, options.config.leader_election)
            keep_for_good()
            if on_ready is not None:
                await on_ready(scheduler)
            reloading = asyncio.create_task(reloader.run(), name="reload") if options.config_file else None
            try:
                await _schedule(scheduler, elector, stop)
            finally:
                if reloading is not None:
                    reloading.cancel()
                    await asyncio.gather(reloading, return_exceptions=True)
                _announce(scheduler, elector, "stopped leading")
        finally:
            await debug_signal.stop()
            await _end(scheduler, elector, ports, stop)


def _show_program(metrics: Metrics, options: RunOptions, heartbeat: Heartbeat | None) -> None:
    """Add metrics of the program: version, feature gates, resource usage, longest block of the event loop."""
    values: dict[tuple[tuple[str, str], ...], float] = {
        (("name", name), ("stage", stage_of(name))): float(on) for name, on in sorted(options.feature_gates.items())
    }
    metrics.gauge("kubernetes_feature_enabled", lambda: values)
    build, compatible = tuple(build_labels().items()), tuple(compatibility_labels().items())
    metrics.gauge("kubernetes_build_info", lambda: {build: 1.0})
    metrics.gauge("version_info", lambda: {compatible: 1.0})
    metrics.show_process()
    metrics.gauge("pyscheduler_memory_limit_bytes", lambda: {(): memory_limit_bytes()})
    if heartbeat is not None:
        metrics.gauge(_BLOCKED, lambda: {(): heartbeat.longest_seconds()})


def build_scheduler(options: RunOptions, transport: Transport, recorder: Recorder) -> Scheduler:
    """Build the scheduler; raise `ConfigError` with every mistake in its profiles."""
    book = StoryBook(LoopClock())
    register_gauges(recorder, book)
    settings = Settings(
        feature_gates=options.feature_gates,
        max_unschedulable_seconds=options.max_unschedulable_seconds,
        host_name=socket.gethostname(),
        stories=book,
    )
    with found_in(options.config_file):
        return build(
            options.config,
            transport,
            LoopClock(),
            random.Random(options.seed),
            registry=discover(blocked=options.blocked),
            recorder=recorder,
            settings=settings,
        )


def _reloader(options: RunOptions, scheduler: Scheduler) -> ConfigReloader:
    """Return the reloader of the configuration file; flags count in what the file says, as they do at the start."""
    flags, gates = options.flags, options.feature_gates

    def with_flags(config: Configuration) -> Configuration:
        return with_election(config, flags, gates) if flags is not None else config

    return ConfigReloader(options.config_file or "", options.config, gates, scheduler, with_flags=with_flags)


def _ports(
    options: RunOptions,
    scheduler: Scheduler,
    elector: LeaderElector | None,
    metrics: Metrics,
    heartbeat: Heartbeat | None,
    stop: asyncio.Event,
    reloader: ConfigReloader,
) -> Ports:
    def is_leader() -> bool:
        return elector is None or elector.is_leader

    def configuration() -> Configuration:
        return completed(reloader.config)

    async def pod_resources() -> tuple[bytes, str]:
        pods = list(scheduler.pods) if is_leader() else []
        return await asyncio.to_thread(render_pod_resources, pods)

    pages = Pages(
        probes=probes(scheduler, elector, stop, heartbeat),
        metrics=metrics.render,
        configz=lambda: to_json(configuration()),
        routes=scheduler.routes,
        resources=pod_resources,
    )
    book = scheduler.stories
    assert isinstance(book, StoryBook), "build_scheduler has set it"
    return Ports(
        pages=pages,
        inspection=InspectionPages(scheduler=scheduler, book=book, is_leader=is_leader, configuration=configuration),
        scheduler=scheduler,
        bind_address=options.bind_address,
        health_port=options.health_port,
        flags=options.flags,
        profiling=options.config.enable_profiling,
        request_metrics=metrics.request_metrics(),
        feature=options.feature_gates.__getitem__,
    )


def _elector(
    options: RunOptions,
    lease_transport: Callable[[], Awaitable[Transport]] | None,
    recorder: Recorder,
    heartbeat: Heartbeat | None,
) -> LeaderElector | None:
    """Return the leader elector; None without leader election."""
    election = options.config.leader_election
    if lease_transport is None or not election.leader_elect:
        return None
    # A random generator of its own: the elector runs in another thread and must not change the choice of nodes.
    return LeaderElector(
        config=election, transport=lease_transport, rng=random.Random(), recorder=recorder, heartbeat=heartbeat
    )


async def _begin(scheduler: Scheduler, elector: LeaderElector | None, stop: asyncio.Event, *, delay: bool) -> bool:
    """Fill the caches and take the lease; with `delay`, take the lease first. Return False if `stop` was set meanwhile.

    Raises `ConfigError` if the scheduler is not allowed to list a kind that it needs.
    """
    if elector is None:
        steps = [scheduler.start]
    elif delay:
        steps = [elector.acquire, scheduler.start]
    else:
        steps = [scheduler.start, elector.acquire, scheduler.catch_up]
    for step in steps:
        try:
            if await unless_stopped(step(), stop) is None:
                return False
            if step == scheduler.start:
                warn_of_missing_kinds(scheduler)
        except ForbiddenError as error:
            raise ConfigError(f"{error}; grant it (`pyscheduler config --rbac` prints the rules)") from error
    return True


def _announce(scheduler: Scheduler, elector: LeaderElector | None, what: str) -> None:
    """Record an event about the lease: this replica leads, or leads no longer.

    Differs from kube-scheduler: the event is an events.k8s.io event, as all others are, and so has an action.
    """
    # The actions differ, because events that differ only in their note are counted as one event.
    action = {"became leader": "BecomeLeader", "stopped leading": "StopLeading"}[what]
    if elector is None or elector.lease is None:
        return
    recorder = scheduler.client.event_recorder(next(iter(scheduler.profiles)))
    note = f"{elector.identity} {what}"
    recorder.event(elector.lease, type="Normal", reason="LeaderElection", action=action, note=note)


def _log_gap(scheduler: Scheduler, elector: LeaderElector | None, election: LeaderElection) -> None:
    """Log since when no replica scheduled, unless a standby took over as soon as the lease was released."""
    if elector is None or not elector.renewed_before:
        return
    now = scheduler.clock.wall()
    if now - elector.renewed_before > election.retry_period_seconds:
        lease = f"{election.resource_namespace}/{election.resource_name}"
        log_gap(scheduler.profiles, elector.renewed_before, now, lease)


async def _schedule(scheduler: Scheduler, elector: LeaderElector | None, stop: asyncio.Event) -> None:
    """Schedule until `stop` is set; raise `PySchedulerError` when leadership is lost."""
    loop = asyncio.create_task(scheduler.run(), name="scheduling loop")
    ends: list[asyncio.Task[Any]] = [asyncio.create_task(stop.wait(), name="stop signal")]
    if elector is not None:
        ends.append(asyncio.create_task(elector.lost(), name="leadership lost"))
    await asyncio.wait({loop, *ends}, return_when=asyncio.FIRST_COMPLETED)
    for end in ends:
        end.cancel()
    if elector is not None and elector.reason:
        raise PySchedulerError(f"leader election lost: {elector.reason}")
    if loop.done():
        await loop


async def _end(scheduler: Scheduler, elector: LeaderElector | None, ports: Ports, stop: asyncio.Event) -> None:
    """Stop everything within ten seconds, even if the API server does not answer."""
    stop.set()  # whatever the cause of the end is: the readiness probe must fail now
    begun = scheduler.clock.now()
    lost = elector is not None and bool(elector.reason)
    await scheduler.stop(at_once=lost, grace_seconds=_STOP_SECONDS - (_RELEASE_SECONDS if elector is not None else 0))
    if elector is not None:
        left = _STOP_SECONDS - (scheduler.clock.now() - begun)
        try:
            async with asyncio.timeout(max(left, _RELEASE_SECONDS)):
                await elector.release()
        except TimeoutError:
            _log.warning("Could not release the lease in time; a standby takes over once the lease has expired")
    await ports.close()


async def unless_stopped(work: Coroutine[Any, Any, T], stop: asyncio.Event) -> asyncio.Task[T] | None:
    """Await `work` and return its finished task; None if `stop` was set first. Raises what `work` raises."""
    task = asyncio.create_task(work, name="start")
    stopped = asyncio.create_task(stop.wait(), name="stop signal")
    await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not task.done():
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return None
    await task
    return task
