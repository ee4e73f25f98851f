"""`pyscheduler run`: the scheduler on a real cluster."""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import socket
from typing import TYPE_CHECKING, Any

import attrs
import click

from pyscheduler.api.errors import PySchedulerError
from pyscheduler.cli.garbage import keep_for_good, rare_collections
from pyscheduler.cli.options import block_option, feature_gates_option, logging_options

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence

    from pyscheduler.cluster.real.lease import LeaderElector
    from pyscheduler.config.types import Configuration
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.scheduler.ports import Transport
    from pyscheduler.scheduler.scheduler import Scheduler

__all__ = ["RunOptions", "command", "serve"]

_log = logging.getLogger(__name__)


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
) -> None:
    """Run a scheduler over `transport` until `stop` is set, then end cleanly.

    `recorder` also gets every measurement; `on_ready` is called once the caches are synced, before the first cycle.
    With `lease_transport`, which opens a connection for the lease alone, it schedules only while it leads, if the
    configuration asks for that. Raises `PySchedulerError` when leadership is lost.
    """
    from pyscheduler.cli.health import HealthServer
    from pyscheduler.cli.inspection import Inspection
    from pyscheduler.cli.mistakes import found_in
    from pyscheduler.cluster.real.lease_fence import FencedTransport
    from pyscheduler.cluster.real.probe import check_server
    from pyscheduler.config.dump import to_json
    from pyscheduler.config.feature_gates import default_gates
    from pyscheduler.framework.clock import LoopClock
    from pyscheduler.framework.errors import ConfigError
    from pyscheduler.runtime.discovery import discover
    from pyscheduler.scheduler.assembly import Settings, build
    from pyscheduler.telemetry.metrics import Metrics

    if options.config.extenders:
        # Scheduling as if they had agreed to everything would be worse than not scheduling.
        text = "extenders are not called yet; take them out, or leave these pods to kube-scheduler @ $.extenders"
        raise ConfigError(text, source=options.config_file)
    metrics = Metrics(also=recorder)
    elector = _elector(options, lease_transport, metrics)
    if elector is not None:
        transport = FencedTransport(transport, leads=lambda: elector.is_leader)
    settings = Settings(
        feature_gates=options.feature_gates if options.feature_gates is not None else default_gates(),
        max_unschedulable_seconds=options.max_unschedulable_seconds,
        host_name=socket.gethostname(),
    )
    # Before the first request: a mistake in the profiles is told whether the cluster is there or not.
    with found_in(options.config_file):
        scheduler = build(
            options.config,
            transport,
            LoopClock(),
            random.Random(options.seed),
            registry=discover(blocked=options.blocked),
            recorder=metrics,
            settings=settings,
        )
    health = HealthServer(
        ready=lambda: scheduler.synced,
        metrics=metrics.render,
        configz=lambda: to_json(options.config),
        routes=scheduler.routes,
    )
    inspection = Inspection(scheduler)
    with rare_collections():
        try:
            if options.health_port is not None:
                await health.start(options.bind_address, options.health_port)
                _log.info("Serving health and metrics address=%s port=%d", options.bind_address, health.port)
            await check_server(transport)
            if not await _unless_stopped(scheduler.start(), stop):
                return
            if elector is not None and not await _unless_stopped(elector.acquire(), stop):
                return
            # What was listed lives long.
            keep_for_good()
            if on_ready is not None:
                await on_ready(scheduler)
            await _schedule(scheduler, elector, stop)
        finally:
            await inspection.stop()
            # Bindings finish while the lease is still renewed; then it is given back, and a standby takes over at once.
            await scheduler.stop()
            if elector is not None:
                await elector.release()
            await health.stop()


def _elector(
    options: RunOptions, lease_transport: Callable[[], Awaitable[Transport]] | None, recorder: Recorder
) -> LeaderElector | None:
    """Return what competes for the lease; None where there is to be none."""
    from pyscheduler.cluster.real.lease import LeaderElector

    election = options.config.leader_election
    if lease_transport is None or not election.leader_elect:
        return None
    # Its own randomness: it runs in a thread of its own, and must not shift the choice among nodes.
    return LeaderElector(config=election, transport=lease_transport, rng=random.Random(), recorder=recorder)


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
        await scheduler.stop(at_once=True)
        raise PySchedulerError(f"leader election lost: {elector.reason}")
    await scheduler.stop()
    await loop


async def _unless_stopped(work: Coroutine[Any, Any, None], stop: asyncio.Event) -> bool:
    """Await `work`; return False when the program was told to stop meanwhile."""
    start = asyncio.create_task(work, name="start")
    stopped = asyncio.create_task(stop.wait(), name="stop signal")
    await asyncio.wait({start, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not start.done():
        start.cancel()
        await asyncio.gather(start, return_exceptions=True)
        return False
    await start
    return True


async def run_on_cluster(options: RunOptions, *, kubeconfig: str | None, master: str | None) -> None:
    """Find the cluster, check that it answers, and schedule until a signal comes."""
    from pyscheduler.cluster.real import auth
    from pyscheduler.cluster.real.http import HTTPTransport

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    path = kubeconfig or options.config.client_connection.kubeconfig or None

    async def credentials() -> auth.Credentials:
        return auth.plain(master) if master and not path else await auth.load(kubeconfig=path, master=master)

    async def lease_transport() -> Transport:
        # Credentials of its own: it lives on the loop of another thread.
        return HTTPTransport(await credentials())

    transport = HTTPTransport(await credentials())
    try:
        await serve(options, transport, stop=stop, lease_transport=lease_transport)
    finally:
        await transport.close()


@click.command("run")
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    help="A KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1), as kube-scheduler takes it. "
    "Without one there is a single profile named 'pyscheduler' with the default plugins.",
)
@click.option(
    "--kubeconfig",
    metavar="FILE",
    help="How to reach the cluster. Without it: $KUBECONFIG, the pod's service account, or ~/.kube/config.",
)
@click.option("--master", metavar="URL", help="The API server's address; overrides the kubeconfig's.")
@click.option(
    "--bind-address",
    default="0.0.0.0",  # noqa: S104 - probes and scrapes come from outside, as with kube-scheduler
    show_default=True,
    help="Where health and metrics are served.",
)
@click.option(
    "--health-port",
    type=click.IntRange(0, 65535),
    default=10251,
    show_default=True,
    help="Port for /healthz, /readyz, /metrics; 0 serves none.",
)
@click.option(
    "--pod-max-in-unschedulable-pods-duration",
    "max_unschedulable",
    type=click.FloatRange(min=0, min_open=True),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="After so long a pod is tried again even if nothing happened.",
)
@click.option(
    "--leader-elect",
    type=bool,
    is_flag=False,
    flag_value=True,
    default=None,
    metavar="true|false",
    help="Schedule only while holding a Lease, so that several instances can stand by; overrides the file. "
    "[default: true, as in kube-scheduler]",
)
@click.option("--seed", type=int, help="Make the choice among equal nodes repeatable.")
@feature_gates_option
@block_option
@logging_options()
def command(  # noqa: PLR0913, PLR0917 - one for each flag, handed over by name
    config_file: str | None,
    kubeconfig: str | None,
    master: str | None,
    bind_address: str,
    health_port: int,
    max_unschedulable: float,
    leader_elect: bool | None,
    seed: int | None,
    feature_gates: str,
    blocked: tuple[str, ...],
) -> None:
    """Schedule the pods of a cluster whose schedulerName names one of the profiles.

    It stands beside kube-scheduler and touches no pod of another schedulerName. Stop it with SIGTERM or Ctrl-C:
    bindings under way are finished first.

    \b
    Try it on one pod:
      pyscheduler run --kubeconfig ~/.kube/config --config configs/default.yaml
      kubectl run hello --image=nginx --overrides='{"spec":{"schedulerName":"pyscheduler"}}'
    """
    from pyscheduler.config.feature_gates import parse
    from pyscheduler.config.load import load

    gates = parse(feature_gates)
    config = load(config_file, gates=gates)
    if leader_elect is not None:
        election = attrs.evolve(config.leader_election, leader_elect=leader_elect)
        config = attrs.evolve(config, leader_election=election)
    options = RunOptions(
        config=config,
        config_file=config_file,
        feature_gates=gates,
        blocked=blocked,
        bind_address=bind_address,
        health_port=health_port or None,
        seed=seed,
        max_unschedulable_seconds=max_unschedulable,
    )
    asyncio.run(run_on_cluster(options, kubeconfig=kubeconfig, master=master))
