"""`pyscheduler demo-gang`: forty gangs of mixed size compete for too few GPUs, and none runs partially.

A gang is a group of pods that start together or not at all.
"""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING

import attrs
import click

from pyscheduler.cli.shared_options import logging_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.cluster.real.http import HTTPTransport
    from pyscheduler.config.types import Configuration
    from pyscheduler.scheduler.scheduler import Scheduler
    from pyscheduler_lab.demo.gang_record import Judge, Verdict
    from pyscheduler_lab.demo.gang_view import GangView
    from pyscheduler_lab.demo.gang_workload import Gang

__all__ = ["command", "play"]

_REFRESH_SECONDS = 0.2
#: The demo fails if no pod is bound and none ends for this long.
_STALL_SECONDS = 60.0
#: Time between two waves of gangs.
_WAVE_SECONDS = 2.0


@attrs.define
class _Fight:
    """Follows the record until all gangs have finished or nothing changes any more."""

    judge: Judge
    view: GangView
    stop: asyncio.Event
    begun: float = 0.0
    ended: float = 0.0
    gpu_seconds: float = 0.0
    _moved: tuple[int, float] = (-1, 0.0)

    async def follow(self) -> None:
        """Show progress and add up the GPU time used, until the end."""
        self.begun = last = time.monotonic()
        self._moved = (-1, last)
        while not self.stop.is_set():
            await asyncio.sleep(_REFRESH_SECONDS)
            now = time.monotonic()
            self.gpu_seconds += sum(self.judge.used.values()) * (now - last)
            last = now
            self.view.progress(self.judge, seconds=now - self.begun)
            gangs = self.judge.gangs.values()
            if all(gang.is_finished for gang in gangs) or self._is_stuck(now):
                self.ended = now
                self.stop.set()

    def _is_stuck(self, now: float) -> bool:
        steps = sum(len(gang.bound) + len(gang.ended) for gang in self.judge.gangs.values())
        if steps != self._moved[0]:
            self._moved = (steps, now)
        return now - self._moved[1] > _STALL_SECONDS

    @property
    def busy(self) -> float:
        """Return the share of GPU time that was used."""
        there = sum(self.judge.capacity.values()) * max(self.ended - self.begun, 1e-9)
        return self.gpu_seconds / there


async def _submit(transport: HTTPTransport, gangs: Sequence[Gang], scheduler_name: str) -> None:
    """Create the gangs in waves."""
    import msgspec

    from pyscheduler.cluster.real.response_errors import raise_for_status
    from pyscheduler_lab.demo.gang_workload import gang_manifests

    paths = {
        "Pod": "/api/v1/namespaces/default/pods",
        "PodGroup": "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups",
    }
    for number, manifests in enumerate(gang_manifests(gangs, scheduler_name)):
        if number:
            await asyncio.sleep(_WAVE_SECONDS)
        for manifest in manifests:
            path = paths[manifest["kind"]]
            answer = await transport.request("POST", path, body=msgspec.json.encode(manifest))
            raise_for_status(answer, f"POST {path}")


async def play(config: Configuration, gangs: Sequence[Gang], *, nodes: int, seed: int | None = 0) -> Verdict:
    """Schedule the gangs in this process, on a server in another process; return the verdict of the record.

    SIGTERM cancels the demo. Raises `ConfigError` for an unusable profile.
    """
    from pyscheduler.cli.demo.child_server import end_server, start_server
    from pyscheduler.cli.demo.trace_view import DemoMetrics
    from pyscheduler.cluster.real import auth
    from pyscheduler.cluster.real.http import HTTPTransport
    from pyscheduler.serving.lifecycle import RunOptions, serve
    from pyscheduler_lab.demo.gang_record import Judge, Recording
    from pyscheduler_lab.demo.gang_view import GangView
    from pyscheduler_lab.demo.gang_workload import GPUS_PER_NODE, cluster_manifests

    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    view = GangView()
    view.note("starting the embedded API server in its own process")
    server, url = await start_server(cluster_manifests(nodes))
    capacity = {f"node-{number}": GPUS_PER_NODE for number in range(nodes)}
    judge = Judge(capacity, {gang.name: gang.size for gang in gangs})
    metrics = DemoMetrics()
    fight = _Fight(judge, view, asyncio.Event())
    users = HTTPTransport(auth.plain(url))
    tasks: list[asyncio.Task[None]] = []

    def give_up(submitted: asyncio.Task[None]) -> None:
        if not submitted.cancelled() and submitted.exception() is not None:
            fight.stop.set()

    async def begin(_: Scheduler) -> None:
        tasks.append(asyncio.create_task(_submit(users, gangs, config.profiles[0].scheduler_name), name="submit"))
        tasks.append(asyncio.create_task(fight.follow(), name="follow"))
        tasks[0].add_done_callback(give_up)

    try:
        recording = await asyncio.to_thread(Recording, url, judge)
        recording.start()
        pods = sum(gang.size for gang in gangs)
        gpus = sum(capacity.values())
        view.note(
            f"{len(gangs)} gangs of {pods} pods want {pods} GPUs; there are {gpus}. Scheduling over HTTP at {url}"
        )
        options = RunOptions(config=config, health_port=None, seed=seed)
        await serve(options, HTTPTransport(auth.plain(url)), stop=fight.stop, metrics=metrics, on_ready=begin)
        await asyncio.gather(*tasks)
        verdict = await asyncio.to_thread(recording.stop)
    finally:
        view.close()
        for each in tasks:
            each.cancel()
        await users.close()
        await end_server(server)
    view.summary(verdict, seconds=fight.ended - fight.begun, busy=fight.busy, attempts=len(metrics.attempts))
    return verdict


@click.command("demo-gang")
@click.option("--gangs", "count", type=click.IntRange(1, 99), default=40, show_default=True, help="Number of gangs.")
@click.option(
    "--nodes", type=click.IntRange(1, 99), default=8, show_default=True, help="Number of nodes, of 8 GPUs each."
)
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    default=None,
    help="Configuration file, for PodGroups of scheduler-plugins. [default: Coscheduling with short timeouts]",
)
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Seed of the gangs and of choices among equal nodes."
)
@logging_options(default=0)
def command(count: int, nodes: int, config_file: str | None, seed: int) -> None:
    """Schedule forty gangs of mixed size that compete for too few GPUs.

    An embedded API server runs in a process of its own. The scheduler uses it over HTTP, as it uses a real API server.
    A watch that shares no code with the scheduler records every binding. The exit code is 1 if a gang ever
    ran with fewer pods than its minimum, a node was overcommitted, or a gang did not finish.
    """
    from pyscheduler.cli.demo.trace_view import end_with
    from pyscheduler.config.load import load, loads
    from pyscheduler_lab.demo.gang_workload import GANG_PROFILE, GPUS_PER_NODE, make_gangs

    config = load(config_file) if config_file else loads(GANG_PROFILE)
    gangs = make_gangs(count, largest=nodes * GPUS_PER_NODE, seed=seed)
    try:
        verdict = asyncio.run(play(config, gangs, nodes=nodes, seed=seed))
    except asyncio.CancelledError as error:
        raise click.Abort from error
    end_with(verdict.problems)
    click.echo(
        f"check passed: no gang ran partially; each of {verdict.gangs} gangs had room for all its members before the "
        "first was bound, and its members ran together until their end"
    )
