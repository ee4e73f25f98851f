"""`pyscheduler demo`: schedule the pods of a production cluster's trace on an embedded API server."""

from __future__ import annotations

import asyncio
import resource
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click

from pyscheduler.cli.demo.device_audit import RESERVATIONS
from pyscheduler.cli.shared_options import logging_options

if TYPE_CHECKING:
    from pyscheduler.cli.demo.audit import Report
    from pyscheduler.cli.demo.trace_view import DemoMetrics, View
    from pyscheduler.scheduler.scheduler import Scheduler

__all__ = ["Outcome", "command", "play"]

#: The demo ends if nothing has happened for this long, in seconds.
_QUIET_SECONDS = 1.0
#: The demo fails if no pod is tried or bound for this long, in seconds.
_STALL_SECONDS = 60.0
_REFRESH_SECONDS = 0.25
#: `configs/default.yaml` with GpuSharing; no program on the nodes writes which device a reservation pod got.
_PER_DEVICE_PROFILE = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 5000, burst: 10000}
profiles:
- schedulerName: pyscheduler
  plugins: {multiPoint: {enabled: [{name: GpuSharing}]}}
  pluginConfig: [{name: GpuSharing, args: {allocationTimeout: 0s, namespace: device-reservations}}]
"""
_RESERVATIONS: dict[str, object] = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": RESERVATIONS},
}


@attrs.define
class _Watch:
    """Follows a scheduler until it has finished or makes no progress any more, then stops it."""

    stop: asyncio.Event
    view: View
    metrics: DemoMetrics
    total: int
    begun: float = 0.0
    ended: float = 0.0
    stalled: bool = False
    _scheduler: Scheduler | None = None

    async def on_ready(self, scheduler: Scheduler) -> None:
        self.begun = self.ended = time.perf_counter()
        self._scheduler = scheduler

    async def follow(self) -> None:
        """Show progress; return when nothing is left to do, or nothing has changed for too long."""
        last, moved = -1, time.perf_counter()
        while not self.stop.is_set():
            await asyncio.sleep(_REFRESH_SECONDS)
            now = time.perf_counter()
            if self._scheduler is not None:
                steps = self._look(self._scheduler, now)
                if steps != last:
                    last, moved = steps, now
                if now - max(self.ended, moved) > _QUIET_SECONDS and self._scheduler.idle:
                    self.stop.set()
            if now - moved > _STALL_SECONDS:
                self.stalled = True
                self.stop.set()

    def _look(self, scheduler: Scheduler, now: float) -> int:
        """Show progress; return a number that changes whenever something happens."""
        bound = self.metrics.bound
        if not scheduler.idle:
            self.ended = now
        self.view.progress(bound=bound, pending=self.total - bound, seconds=self.ended - self.begun)
        return scheduler.cycles + bound


@attrs.frozen(kw_only=True)
class Outcome:
    """The result of a demo: the checker's report and the measurements."""

    report: Report
    metrics: DemoMetrics
    #: Time from the synced caches to the last attempt or binding.
    seconds: float
    #: Peak memory of the scheduler's process, in KiB.
    peak_kib: int


async def play(
    trace: Path, config_file: str | None, *, limit: int | None = None, seed: int | None = 0, per_device: bool = False
) -> Outcome:
    """Schedule the first `limit` pods of the trace (default: all) on a server in another process, and check the result.

    With `per_device`, GPUs are counted one by one, by a profile of the demo; `config_file` has no effect then. SIGTERM
    cancels the demo. Raises `ConfigError` for unreadable files, `PySchedulerError` if the scheduler makes no progress.
    """
    from pyscheduler.cli.demo.audit import audit
    from pyscheduler.cli.demo.child_server import end_server, start_server
    from pyscheduler.cli.demo.openb_trace import openb_nodes, openb_pods
    from pyscheduler.cli.demo.trace_view import DemoMetrics, View
    from pyscheduler.cluster.real import auth
    from pyscheduler.cluster.real.http import HTTPTransport
    from pyscheduler.config.load import load, loads
    from pyscheduler.framework.errors import PySchedulerError
    from pyscheduler.serving.lifecycle import RunOptions, serve

    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    config = loads(_PER_DEVICE_PROFILE) if per_device else load(config_file)
    view = View()
    pods = list(openb_pods(trace, scheduler_name=config.profiles[0].scheduler_name, per_device=per_device))[:limit]
    spaces = [_RESERVATIONS] if per_device else []
    manifests = [*spaces, *openb_nodes(trace, per_device=per_device), *pods]
    view.note("starting the embedded API server in its own process")
    server, url = await start_server(manifests, "--reject-only")
    metrics = DemoMetrics()
    watch = _Watch(stop=asyncio.Event(), view=view, metrics=metrics, total=len(pods))
    try:
        options = RunOptions(config=config, config_file=config_file, health_port=None, seed=seed)
        view.note(f"scheduling {len(pods)} pods over HTTP at {url}")
        transport = HTTPTransport(auth.plain(url))
        following = asyncio.create_task(watch.follow(), name="progress")
        await serve(options, transport, stop=watch.stop, metrics=metrics, on_ready=watch.on_ready)
        await following
        if watch.stalled:
            raise PySchedulerError(
                f"the scheduler has made no progress for {_STALL_SECONDS:.0f} s; run again with -v 4 to see why"
            )
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        report = await asyncio.to_thread(audit, url)
    finally:
        view.close()
        await end_server(server)
    # All attempts may happen between two refreshes of the display.
    seconds = max(watch.ended, metrics.last_at) - watch.begun
    outcome = Outcome(report=report, metrics=metrics, seconds=seconds, peak_kib=peak)
    view.summary(report, metrics, seconds=outcome.seconds, peak_kib=peak)
    return outcome


@click.command("demo")
@click.option(
    "--trace",
    default="lab/pyscheduler_lab/data/openb",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Folder with the recorded cluster (openb); the default exists only in a checkout of pyscheduler.",
)
@click.option(
    "--config", "config_file", metavar="FILE", default=None, help="Configuration file. [default: configs/default.yaml]"
)
@click.option("--pods", "limit", type=click.IntRange(min=1), help="Schedule only the first N pods.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the choice among equal nodes.")
@click.option(
    "--gpus",
    type=click.Choice(["sum", "each"]),
    default="sum",
    show_default=True,
    help="Count the GPUs of a node as one amount, or each by itself with the plugin GpuSharing.",
)
@logging_options(default=0)
def command(trace: Path, config_file: str | None, limit: int | None, seed: int | None, gpus: str) -> None:
    """Schedule the 8,152 pods of a production GPU cluster with 1,523 nodes.

    An embedded API server runs in a process of its own. The scheduler uses it over HTTP, as it uses a real API server.
    At the end, an independent checker lists all objects again. The exit code is 1 if it finds an overcommitted node,
    a pod that was bound twice, or a pending pod that fits on a node.
    """
    from pyscheduler.cli.demo.trace_view import end_with

    default = Path("configs/default.yaml")
    per_device = gpus == "each"
    if per_device and config_file:
        raise click.UsageError("--gpus each has a profile of its own; leave out --config")
    try:
        config_file = config_file or (str(default) if default.exists() else None)
        report = asyncio.run(play(trace, config_file, limit=limit, seed=seed, per_device=per_device)).report
    except asyncio.CancelledError as error:
        raise click.Abort from error
    end_with(report.problems)
    click.echo("check passed: no node is overcommitted, no pod was bound twice, no pending pod fits on a node")
