"""`pyscheduler demo-gang`: forty gangs of mixed size fight for too few GPUs, and none is ever partial.

As in `demo`, the API server is a process of its own and this one schedules over HTTP. The pods run for some seconds and
leave; the next get their place. A watch that knows nothing of the scheduler records every binding (`demo_gang_record`),
is what the picture is drawn from, and gives the verdict that the exit code tells.
"""

from __future__ import annotations

import asyncio
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click

from pyscheduler.cli.options import logging_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.cli.demo_gang_record import Judge, Verdict
    from pyscheduler.cli.demo_gang_view import GangView
    from pyscheduler.cli.demo_gang_workload import Gang
    from pyscheduler.cluster.real.http import HTTPTransport
    from pyscheduler.config.types import Configuration
    from pyscheduler.scheduler.scheduler import Scheduler

__all__ = ["command", "play"]

_REFRESH_SECONDS = 0.2
#: It has failed when so long passes without a pod being bound, or ending.
_STALL_SECONDS = 60.0
#: Between two waves of gangs.
_WAVE_SECONDS = 2.0


@attrs.define
class _Fight:
    """Looks at the record until all gangs are through, or nothing moves any more."""

    judge: Judge
    view: GangView
    stop: asyncio.Event
    begun: float = 0.0
    ended: float = 0.0
    gpu_seconds: float = 0.0
    _moved: tuple[int, float] = (-1, 0.0)

    async def follow(self) -> None:
        """Show progress and sum up the GPU time used, until all is over."""
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
    """Create the gangs, wave by wave, as a user would."""
    import msgspec

    from pyscheduler.cli.demo_gang_workload import gang_manifests
    from pyscheduler.cluster.real.response_errors import raise_for_status

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
    """Schedule the gangs in this process, on a server in another; return what the record says of them.

    SIGTERM cancels it. Raises `ConfigError` where the profile cannot be used.
    """
    from pyscheduler.cli.child_server import end_server
    from pyscheduler.cli.demo_gang_record import Judge, Recording
    from pyscheduler.cli.demo_gang_view import GangView
    from pyscheduler.cli.demo_gang_workload import GPUS_PER_NODE
    from pyscheduler.cli.demo_view import DemoRecorder
    from pyscheduler.cli.serving import RunOptions, serve
    from pyscheduler.cluster.real import auth
    from pyscheduler.cluster.real.http import HTTPTransport

    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    view = GangView()
    view.note("starting the embedded API server in its own process")
    server, url = await _start(nodes)
    capacity = {f"node-{number}": GPUS_PER_NODE for number in range(1, nodes + 1)}
    judge = Judge(capacity, {gang.name: gang.size for gang in gangs})
    recorder = DemoRecorder()
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
        await serve(options, HTTPTransport(auth.plain(url)), stop=fight.stop, recorder=recorder, on_ready=begin)
        await asyncio.gather(*tasks)
        verdict = await asyncio.to_thread(recording.stop)
    finally:
        view.close()
        for each in tasks:
            each.cancel()
        await users.close()
        await end_server(server)
    view.summary(verdict, seconds=fight.ended - fight.begun, busy=fight.busy, attempts=len(recorder.attempts))
    return verdict


async def _start(nodes: int) -> tuple[asyncio.subprocess.Process, str]:
    import msgspec

    from pyscheduler.cli.child_server import start_server
    from pyscheduler.cli.demo_gang_workload import cluster_manifests

    with tempfile.TemporaryDirectory() as folder:
        manifests = Path(folder) / "cluster.json"
        items = {"apiVersion": "v1", "kind": "List", "items": cluster_manifests(nodes)}
        manifests.write_bytes(msgspec.json.encode(items))
        return await start_server(manifests)


@click.command("demo-gang")
@click.option("--gangs", "count", type=click.IntRange(1, 99), default=40, show_default=True, help="How many gangs.")
@click.option(
    "--nodes", type=click.IntRange(1, 99), default=8, show_default=True, help="How many nodes, of 8 GPUs each."
)
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    default=None,
    help="Profile to use, for PodGroups of scheduler-plugins. [default: Coscheduling with short windows]",
)
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Decides the gangs, and choices among equal nodes."
)
@logging_options(default=0)
def command(count: int, nodes: int, config_file: str | None, seed: int) -> None:
    """Let forty gangs of mixed size fight for too few GPUs, live.

    An embedded API server runs in a process of its own; the scheduler talks to it over HTTP, as it would to a real one.
    A watch that shares no code with the scheduler records every binding. The exit code is 1 if a gang was ever partial,
    a node overcommitted, or a gang did not finish.
    """
    from pyscheduler.cli.demo_gang_workload import GANG_PROFILE, GPUS_PER_NODE, make_gangs
    from pyscheduler.cli.demo_view import end_with
    from pyscheduler.config.load import load, loads

    config = load(config_file) if config_file else loads(GANG_PROFILE)
    gangs = make_gangs(count, largest=nodes * GPUS_PER_NODE, seed=seed)
    try:
        verdict = asyncio.run(play(config, gangs, nodes=nodes, seed=seed))
    except asyncio.CancelledError as error:
        raise click.Abort from error
    end_with(verdict.problems)
    click.echo(
        f"check: no gang was ever partial: each of {verdict.gangs} had room for all its members before the first was "
        "bound, and all ran together to their end"
    )
