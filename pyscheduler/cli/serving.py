"""One scheduler from its first list to its last write: leadership, ports, and a clean end.

`serve` is what `run` and the demo have in common. The lease is watched from the very beginning, and taken once the
caches are filled: whoever leads can schedule. At the end, everything together has ten seconds: first the probe says
that this replica goes, then bindings under way finish while the lease is still renewed, then the lease is given back
and a standby takes over at once; the ports are closed last. An API server that is gone makes none of it longer.
"""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from pyscheduler.api.errors import PySchedulerError
from pyscheduler.cli.garbage import keep_for_good, rare_collections

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence

    from pyscheduler.cli.flags import Flags
    from pyscheduler.cli.ports import Ports
    from pyscheduler.cli.watchdog import Watchdog
    from pyscheduler.cluster.real.lease import LeaderElector
    from pyscheduler.cluster.real.loop_heartbeat import Heartbeat
    from pyscheduler.config.types import Configuration
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.scheduler.ports import Transport
    from pyscheduler.scheduler.scheduler import Scheduler
    from pyscheduler.telemetry.metrics import Metrics

__all__ = ["RunOptions", "serve", "unless_stopped"]

T = TypeVar("T")

_log = logging.getLogger(__name__)

_BLOCKED: Final = "pyscheduler_event_loop_longest_block_seconds"
_BLOCKED_HELP: Final = "Longest time for which the event loop was blocked within the last minute or two."
#: How long the end may take, from the signal on.
_STOP_SECONDS: Final = 10.0
#: How much of that is kept for giving back the lease.
_RELEASE_SECONDS: Final = 1.5


@attrs.frozen(kw_only=True)
class RunOptions:
    """What `run` was asked to do; the demo asks the same way."""

    config: Configuration
    #: The file that `config` was read from, for messages; None where there is none.
    config_file: str | None = None
    #: kube-scheduler's feature gates, all of them; None takes the defaults.
    feature_gates: Mapping[str, bool] | None = None
    #: Distributions and entry points whose plugins are left out.
    blocked: Sequence[str] = ()
    bind_address: str = "127.0.0.1"
    #: Port of health and metrics; 0 takes a free one, None serves none.
    health_port: int | None = 0
    #: The whole command line, for the HTTPS port and what /metrics shows; None: neither.
    flags: Flags | None = None
    seed: int | None = None
    max_unschedulable_seconds: float = 300.0


async def serve(
    options: RunOptions,
    transport: Transport,
    *,
    stop: asyncio.Event,
    recorder: Recorder | None = None,
    on_ready: Callable[[Scheduler], Awaitable[None]] | None = None,
    lease_transport: Callable[[], Awaitable[Transport]] | None = None,
    watchdog: Watchdog | None = None,
) -> None:
    """Run a scheduler over `transport` until `stop` is set, then end cleanly.

    `recorder` also gets every measurement; `on_ready` is called once the caches are synced, before the first cycle.
    With `lease_transport`, which opens a connection for the lease alone, it schedules only while it leads, if the
    configuration asks for that. With a `watchdog`, leadership and liveness depend on its heartbeat. Raises
    `PySchedulerError` when leadership is lost.
    """
    from pyscheduler.cli.inspection import Inspection
    from pyscheduler.cli.metric_views import metric_view
    from pyscheduler.cluster.real.lease_fence import FencedTransport
    from pyscheduler.cluster.real.startup_check import wait_for_server
    from pyscheduler.telemetry.metrics import Metrics

    metrics = Metrics(also=recorder, view=metric_view(options.flags.metrics) if options.flags is not None else None)
    heartbeat = watchdog.heartbeat if watchdog is not None else None
    _show_program(metrics, options, heartbeat)
    elector = _elector(options, lease_transport, metrics, heartbeat)
    if elector is not None:
        transport = FencedTransport(transport, leads=lambda: elector.is_leader)
        if watchdog is not None:
            deadline = options.config.leader_election.renew_deadline_seconds
            watchdog.guard(elector, renew_deadline_seconds=deadline)
        elector.watch()
    try:
        # Before the server is waited for: a mistake in the profiles is told whether the cluster is there or not.
        scheduler = build_scheduler(options, transport, metrics)
        ports = _ports(options, scheduler, elector, metrics, heartbeat, stop)
    except BaseException:
        if elector is not None:
            await elector.release()
        raise
    inspection = Inspection(scheduler)
    with rare_collections():
        try:
            await ports.open()
            if await unless_stopped(wait_for_server(transport, clock=scheduler.clock), stop) is None:
                return
            if not await _begin(scheduler, elector, stop, delay=options.config.delay_cache_until_active):
                return
            _announce(scheduler, elector, "became leader")
            # What was listed lives long.
            keep_for_good()
            if on_ready is not None:
                await on_ready(scheduler)
            try:
                await _schedule(scheduler, elector, stop)
            finally:
                _announce(scheduler, elector, "stopped leading")
        finally:
            await inspection.stop()
            await _end(scheduler, elector, ports, stop)


def _show_program(metrics: Metrics, options: RunOptions, heartbeat: Heartbeat | None) -> None:
    """Show which version this is, which features are on, what the process takes, and how long its loop is blocked."""
    from pyscheduler.cli.version import build_labels, compatibility_labels
    from pyscheduler.config.feature_gates import default_gates, stage_of

    gates = options.feature_gates if options.feature_gates is not None else default_gates()
    values: dict[tuple[tuple[str, str], ...], float] = {
        (("name", name), ("stage", stage_of(name))): float(on) for name, on in sorted(gates.items())
    }
    metrics.gauge("kubernetes_feature_enabled", lambda: values)
    build, compatible = tuple(build_labels().items()), tuple(compatibility_labels().items())
    metrics.gauge("kubernetes_build_info", lambda: {build: 1.0})
    metrics.gauge("version_info", lambda: {compatible: 1.0})
    metrics.show_process()
    if heartbeat is not None:
        metrics.gauge(_BLOCKED, lambda: {(): heartbeat.longest_seconds()}, description=_BLOCKED_HELP)


def build_scheduler(options: RunOptions, transport: Transport, recorder: Recorder) -> Scheduler:
    """Put the scheduler together; raise `ConfigError` for all that is wrong with its profiles."""
    from pyscheduler.cli.mistakes import found_in
    from pyscheduler.config.feature_gates import default_gates
    from pyscheduler.framework.clock import LoopClock
    from pyscheduler.runtime.discovery import discover
    from pyscheduler.scheduler.assembly import Settings, build

    settings = Settings(
        feature_gates=options.feature_gates if options.feature_gates is not None else default_gates(),
        max_unschedulable_seconds=options.max_unschedulable_seconds,
        host_name=socket.gethostname(),
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


def _ports(
    options: RunOptions,
    scheduler: Scheduler,
    elector: LeaderElector | None,
    metrics: Metrics,
    heartbeat: Heartbeat | None,
    stop: asyncio.Event,
) -> Ports:
    from pyscheduler.cli.pages import Pages
    from pyscheduler.cli.ports import Ports, probes
    from pyscheduler.config.completed import completed
    from pyscheduler.config.dump import to_json
    from pyscheduler.config.feature_gates import default_gates
    from pyscheduler.telemetry.pod_resources import render_pod_resources

    async def pod_resources() -> tuple[bytes, str]:
        pods = list(scheduler.pods) if elector is None or elector.is_leader else []
        return await asyncio.to_thread(render_pod_resources, pods)

    gates = options.feature_gates if options.feature_gates is not None else default_gates()
    pages = Pages(
        probes=probes(scheduler, elector, stop, heartbeat),
        metrics=metrics.render,
        configz=lambda: to_json(completed(options.config)),
        routes=scheduler.routes,
        resources=pod_resources,
    )
    return Ports(
        pages=pages,
        scheduler=scheduler,
        bind_address=options.bind_address,
        health_port=options.health_port,
        flags=options.flags,
        profiling=options.config.enable_profiling,
        visits=metrics.visits(),
        feature=lambda name: gates[name],
    )


def _elector(
    options: RunOptions,
    lease_transport: Callable[[], Awaitable[Transport]] | None,
    recorder: Recorder,
    heartbeat: Heartbeat | None,
) -> LeaderElector | None:
    """Return what competes for the lease; None where there is to be none."""
    from pyscheduler.cluster.real.lease import LeaderElector

    election = options.config.leader_election
    if lease_transport is None or not election.leader_elect:
        return None
    # Its own randomness: it runs in a thread of its own, and must not shift the choice among nodes.
    return LeaderElector(
        config=election, transport=lease_transport, rng=random.Random(), recorder=recorder, heartbeat=heartbeat
    )


async def _begin(scheduler: Scheduler, elector: LeaderElector | None, stop: asyncio.Event, *, delay: bool) -> bool:
    """Fill the caches and take the lease; with `delay` the lease comes first. Return False when told to stop.

    Raises `ConfigError` where something that is needed may not be listed.
    """
    from pyscheduler.framework.errors import ConfigError, ForbiddenError

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
        except ForbiddenError as error:
            raise ConfigError(f"{error}; grant it (`pyscheduler config --rbac` prints the rules)") from error
    return True


def _announce(scheduler: Scheduler, elector: LeaderElector | None, what: str) -> None:
    """Tell in an event about the lease who leads, or does no more.

    Differs from kube-scheduler: it is written through events.k8s.io, as all others are, and so has an action.
    """
    # Each its own action: events that agree in all but their note count as one that happened twice.
    action = {"became leader": "BecomeLeader", "stopped leading": "StopLeading"}[what]
    if elector is None or elector.lease is None:
        return
    recorder = scheduler.client.event_recorder(next(iter(scheduler.profiles)))
    note = f"{elector.identity} {what}"
    recorder.event(elector.lease, type="Normal", reason="LeaderElection", action=action, note=note)


async def _schedule(scheduler: Scheduler, elector: LeaderElector | None, stop: asyncio.Event) -> None:
    """Schedule until told to stop, or until leadership is lost, which raises `PySchedulerError`."""
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
    """Stop all, within ten seconds, whoever does not answer any more."""
    stop.set()  # whatever it was that ended it: this replica is not ready any more
    begun = scheduler.clock.now()
    lost = elector is not None and bool(elector.reason)
    await scheduler.stop(at_once=lost, grace_seconds=_STOP_SECONDS - (_RELEASE_SECONDS if elector is not None else 0))
    if elector is not None:
        left = _STOP_SECONDS - (scheduler.clock.now() - begun)
        try:
            async with asyncio.timeout(max(left, _RELEASE_SECONDS)):
                await elector.release()
        except TimeoutError:
            _log.warning("The lease could not be given back in time; a standby waits until it runs out")
    await ports.close()


async def unless_stopped(work: Coroutine[Any, Any, T], stop: asyncio.Event) -> asyncio.Task[T] | None:
    """Await `work` and return it, done; None when the program was told to stop meanwhile. Raises what `work` raises."""
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
