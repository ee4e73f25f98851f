"""`pyscheduler demo`: a production cluster's pods, placed before your eyes.

An embedded API server is started in a process of its own and filled with the trace; then this process runs the
scheduler on it over HTTP, by the same code path as `pyscheduler run`. When nothing is left to do, a checker that knows
nothing of the scheduler lists the API again; the exit code is its verdict.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click

from pyscheduler.cli.options import logging_options

if TYPE_CHECKING:
    from pyscheduler.cli.audit import Report
    from pyscheduler.cli.demo_view import View
    from pyscheduler.scheduler.scheduler import Scheduler

__all__ = ["command"]

#: The demo is over when nothing has happened for so long, in seconds.
_QUIET_SECONDS = 1.0
_REFRESH_SECONDS = 0.25


async def _start_server(manifests: Path) -> tuple[asyncio.subprocess.Process, str]:
    """Start the API server as a child; return it and its URL. Raises `ConfigError` where it does not come up."""
    from pyscheduler.framework.errors import ConfigError

    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pyscheduler", "cluster",
        "--port", "0", "--load", str(manifests), "--no-lifecycle", "-v", "0",
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode()
    if not line.startswith("serving "):
        await process.wait()
        raise ConfigError(f"the embedded API server did not come up (exit code {process.returncode})")
    return process, line.split()[1]


def _write_manifests(path: Path, trace: Path, scheduler_name: str, limit: int | None) -> int:
    """Write the trace's objects as one List; return the number of pods."""
    import msgspec

    from pyscheduler.simulation.traces import openb_nodes, openb_pods

    nodes = list(openb_nodes(trace))
    pods = list(openb_pods(trace, scheduler_name=scheduler_name))[:limit]
    path.write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": [*nodes, *pods]}))
    return len(pods)


@attrs.define
class _Watch:
    """Looks at a scheduler from outside until it is done, and stops it then."""

    stop: asyncio.Event
    view: View
    total: int
    begun: float = 0.0
    ended: float = 0.0
    task: asyncio.Task[None] | None = None

    async def on_ready(self, scheduler: Scheduler) -> None:
        self.begun = self.ended = time.perf_counter()
        self.task = asyncio.create_task(self._follow(scheduler), name="progress")

    async def _follow(self, scheduler: Scheduler) -> None:
        last = -1
        while True:
            await asyncio.sleep(_REFRESH_SECONDS)
            bound = scheduler.cache.pod_count - scheduler.cache.assumed_count
            done = scheduler.cycles + bound
            now = time.perf_counter()
            if done != last or not scheduler.idle:
                last, self.ended = done, now
            self.view.progress(bound=bound, pending=self.total - bound, seconds=self.ended - self.begun)
            if now - self.ended > _QUIET_SECONDS and scheduler.idle:
                self.stop.set()
                return


async def _demo(trace: Path, config_file: str | None, limit: int | None, seed: int | None) -> Report:
    from pyscheduler.cli.audit import audit
    from pyscheduler.cli.demo_view import DemoRecorder, View
    from pyscheduler.cli.run import RunOptions, serve
    from pyscheduler.cluster.real import auth
    from pyscheduler.cluster.real.http import HTTPTransport
    from pyscheduler.config.load import load

    config = load(config_file)
    view = View()
    with tempfile.TemporaryDirectory() as folder:
        manifests = Path(folder) / "openb.json"
        total = _write_manifests(manifests, trace, config.profiles[0].scheduler_name, limit)
        view.note("starting the embedded API server in its own process")
        server, url = await _start_server(manifests)
    recorder = DemoRecorder()
    watch = _Watch(stop=asyncio.Event(), view=view, total=total)
    try:
        options = RunOptions(config=config, health_port=0, seed=seed)
        view.note(f"scheduling {total} pods over HTTP at {url}")
        transport = HTTPTransport(auth.plain(url))
        await serve(options, transport, stop=watch.stop, recorder=recorder, on_ready=watch.on_ready)
        if watch.task is not None:
            await watch.task
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        report = await asyncio.to_thread(audit, url)
    finally:
        view.close()
        server.terminate()
        await server.wait()
    view.summary(report, recorder, seconds=watch.ended - watch.begun, peak_kib=peak)
    return report


@click.command("demo")
@click.option(
    "--trace",
    default="examples/traces/openb",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Folder of the openb trace.",
)
@click.option(
    "--config", "config_file", metavar="FILE", default=None, help="Profile to use. [default: configs/default.yaml]"
)
@click.option("--pods", "limit", type=click.IntRange(min=1), help="Place only the first so many pods.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the choice among equal nodes.")
@logging_options(default=0)
def command(trace: Path, config_file: str | None, limit: int | None, seed: int | None) -> None:
    """Place the 8,152 pods of a production GPU cluster with 1,523 nodes, live.

    An embedded API server runs in a process of its own; the scheduler talks to it over HTTP, as it would to a real one.
    At the end an independent checker lists the API again. The exit code is 1 if it found a node overcommitted, a pod
    bound twice, or a pending pod that would have fitted somewhere.
    """
    default = Path("configs/default.yaml")
    report = asyncio.run(_demo(trace, config_file or (str(default) if default.exists() else None), limit, seed))
    if report.problems:
        for problem in report.problems[:20]:
            click.echo(f"error: {problem}", err=True)
        click.echo(f"error: the check found {len(report.problems)} problems", err=True)
        sys.exit(1)
    click.echo("check: no node overcommitted, no pod bound twice, no pending pod that would fit")
