"""`pyscheduler demo-batch`: four teams share a GPU cluster by quota, borrow idle GPUs, and reclaim their own."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from pyscheduler.cli.shared_options import logging_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.cluster.real.http import HTTPTransport
    from pyscheduler.config.types import Configuration
    from pyscheduler.scheduler.scheduler import Scheduler
    from pyscheduler_lab.audit import Change, Verdict
    from pyscheduler_lab.demo.batch_record import BatchRecord
    from pyscheduler_lab.demo.batch_view import BatchView
    from pyscheduler_lab.demo.batch_workload import Arrival
    from pyscheduler_lab.traces.found import Shape

__all__ = ["Outcome", "command", "play"]

_REFRESH_SECONDS: Final = 0.2
#: The demo ends if nothing happens for this long.
_STALL_SECONDS: Final = 30.0
#: The demo ends at the latest after this time.
_LONGEST_SECONDS: Final = 100.0
#: The status of queues may lag so long; the recording goes on for longer after the last job.
_STATUS_SECONDS: Final = 4.0
_PODS: Final = "/api/v1/namespaces/default/pods"
_GROUPS: Final = "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups"


@attrs.frozen(kw_only=True)
class Outcome:
    """The result of a demo; without `problems`, no rule was broken and all jobs finished."""

    record: BatchRecord
    verdict: Verdict
    problems: list[str]


class _Users:
    """Submits jobs at their times, and creates evicted pods again as a job controller does."""

    def __init__(self, transport: HTTPTransport, jobs: Sequence[Arrival]) -> None:
        from pyscheduler_lab.demo.batch_workload import pods

        self._transport = transport
        self._jobs = jobs
        self._pods = {job.job.name: {pod["metadata"]["name"]: pod for pod in pods(job)} for job in jobs}
        self._again: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    def recreate(self, job: str, pod: str) -> None:
        """Plan to create a pod again."""
        self._again.put_nowait((job, pod))

    async def submit(self, record: BatchRecord) -> None:
        """Create all jobs, each at its time."""
        from pyscheduler_lab.demo.batch_workload import group_manifest

        begun = time.monotonic()
        for arrival in self._jobs:
            await asyncio.sleep(begun + arrival.at - time.monotonic())
            record.submit(arrival)
            await self._create(_GROUPS, group_manifest(arrival))
            for pod in self._pods[arrival.job.name].values():
                await self._create(_PODS, pod)

    async def repair(self) -> None:
        """Create evicted pods again, until cancelled."""
        while True:
            job, pod = await self._again.get()
            await self._create(_PODS, self._pods[job][pod])

    async def _create(self, path: str, manifest: dict[str, Any]) -> None:
        import msgspec

        from pyscheduler.cluster.real.response_errors import raise_for_status

        answer = await self._transport.request("POST", path, body=msgspec.json.encode(manifest))
        raise_for_status(answer, f"POST {path}")


@attrs.define
class _Progress:
    """Follows the record until all jobs have finished, nothing changes any more, or the time is over."""

    record: BatchRecord
    view: BatchView
    jobs: int
    stop: asyncio.Event
    seconds: float = 0.0

    async def follow(self) -> None:
        """Show progress until the end, and let the status of queues settle."""
        begun = moved = time.monotonic()
        changes = -1
        while not self.stop.is_set():
            await asyncio.sleep(_REFRESH_SECONDS)
            now = time.monotonic()
            self.seconds = now - begun
            self.view.progress(self.record, jobs=self.jobs, seconds=self.seconds)
            if self.record.changes != changes:
                changes, moved = self.record.changes, now
            if len(self.record.jobs) == self.jobs and self.record.is_finished:
                await asyncio.sleep(_STATUS_SECONDS + 1.0)
                self.stop.set()
            if now - moved > _STALL_SECONDS or self.seconds > _LONGEST_SECONDS:
                self.stop.set()


async def play(config: Configuration, jobs: Sequence[Arrival], *, seed: int | None = 0) -> Outcome:
    """Schedule the jobs in this process, on a server in another process; return the checker's verdict.

    SIGTERM cancels the demo. Raises `ConfigError` for an unusable profile.
    """
    from pyscheduler.cli.demo.child_server import end_server, start_server
    from pyscheduler.cluster.real import auth
    from pyscheduler.cluster.real.http import HTTPTransport
    from pyscheduler.serving.lifecycle import RunOptions, serve
    from pyscheduler_lab.demo.api_recording import ApiRecording
    from pyscheduler_lab.demo.batch_record import BatchRecord
    from pyscheduler_lab.demo.batch_view import BatchView
    from pyscheduler_lab.demo.batch_workload import TEAMS, cluster_manifests

    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    view = BatchView(TEAMS)
    view.note("starting the embedded API server in its own process")
    server, url = await start_server(cluster_manifests())
    transport = HTTPTransport(auth.plain(url))
    users = _Users(transport, jobs)
    teams = [team.name for team in TEAMS if team.parent]
    record = BatchRecord(teams, now=time.monotonic, recreate=users.recreate)
    progress = _Progress(record, view, len(jobs), asyncio.Event())
    tasks: list[asyncio.Task[None]] = []

    def give_up(done: asyncio.Task[None]) -> None:
        if not done.cancelled() and done.exception() is not None:
            progress.stop.set()

    async def begin(_: Scheduler) -> None:
        for work in (users.submit(record), users.repair(), progress.follow()):
            tasks.append(asyncio.create_task(work))
            tasks[-1].add_done_callback(give_up)

    def take(change: Change) -> None:
        loop.call_soon_threadsafe(record.take, change)

    try:
        recording = ApiRecording(url, on_change=take)
        await asyncio.to_thread(recording.start)
        gpus = sum(job.job.gpu_count for job in jobs)
        view.note(f"{len(jobs)} jobs of four teams want {gpus} GPUs; there are 128. Scheduling over HTTP at {url}")
        options = RunOptions(config=config, health_port=None, seed=seed)
        await serve(options, HTTPTransport(auth.plain(url)), stop=progress.stop, on_ready=begin)
        tasks[1].cancel()
        await asyncio.gather(tasks[0], tasks[2])
        history = await asyncio.to_thread(recording.stop)
        verdict = await asyncio.to_thread(_check, history)
    finally:
        view.close()
        for each in tasks:
            each.cancel()
        await transport.close()
        await end_server(server)
    view.summary(record, verdict, seconds=progress.seconds)
    unfinished = [name for name, job in record.jobs.items() if not job.is_finished]
    problems = [*recording.problems, *map(str, verdict.violations)]
    problems += [f"job {name} did not finish" for name in unfinished]
    return Outcome(record=record, verdict=verdict, problems=problems)


def _check(history: Any) -> Verdict:
    from pyscheduler_lab.audit import Options, check
    from pyscheduler_lab.demo.batch_workload import SCHEDULER

    options = Options(schedulers=frozenset({SCHEDULER}), status_seconds=_STATUS_SECONDS, reason_seconds=5.0)
    return check(history, options)


@click.command("demo-batch")
@click.option(
    "--jobs", "per_team", type=click.IntRange(1, 200), default=30, show_default=True, help="Number of jobs per team."
)
@click.option(
    "--shape",
    type=click.Choice(["nodepack", "worker"]),
    default="nodepack",
    show_default=True,
    help="nodepack: one pod per node of the job; worker: one pod per GPU.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of choices among equal nodes.")
@logging_options(default=0)
def command(per_team: int, shape: Shape, seed: int | None) -> None:
    """Let four teams share 128 GPUs by quota, with the queues of KAI.

    The sizes of the jobs are those of a GPU cluster's trace; months of the trace are shortened to seconds. Each team
    has one burst: it borrows the GPUs that the others do not use. The other teams reclaim these GPUs later.

    An embedded API server runs in a process of its own. The scheduler uses it over HTTP, as it uses a real API server.
    At the end, a checker that shares no code with the scheduler applies nine rules to all writes, among them: no gang
    is bound in part, and no queue exceeds its limit. docs/explanation/batch.md lists them. The exit code is 1 if a rule
    was broken or a job did not finish.
    """
    from pyscheduler.cli.demo.trace_view import end_with
    from pyscheduler.config.load import loads
    from pyscheduler_lab.demo.batch_workload import BATCH_PROFILE, arrivals

    try:
        outcome = asyncio.run(play(loads(BATCH_PROFILE), arrivals(per_team, shape), seed=seed))
    except asyncio.CancelledError as error:
        raise click.Abort from error
    end_with(outcome.problems)
    reclaims = sum(team.evictions for team in outcome.record.teams.values())
    rules = sum(1 for count in outcome.verdict.judged.values() if count)
    click.echo(
        f"check passed: all {len(outcome.record.jobs)} jobs finished, {reclaims} jobs were evicted, "
        f"and none of the {rules} rules that apply was broken"
    )
