"""Simulate the jobs of a trace with given settings, and return a report and the tables of results."""

from __future__ import annotations

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import attrs
import msgspec

from pyscheduler.config.feature_gates import parse
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.scheduler.assembly import Settings
from pyscheduler_lab.clusters import Cluster
from pyscheduler_lab.clusters.failures import read_failures
from pyscheduler_lab.results.measures import Measures
from pyscheduler_lab.results.tables import Tables, tables_of
from pyscheduler_lab.simulation.policies import Policy, jobs_of_teams, policy_named, queue_plan, teams_of, weighted
from pyscheduler_lab.simulation.replay import Replay
from pyscheduler_lab.traces import Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence

    from pyscheduler_lab.clusters.failures import Failures
    from pyscheduler_lab.results.settings import RunSettings
    from pyscheduler_lab.simulation.queue_plan import Team
    from pyscheduler_lab.simulation.replay import Progress
    from pyscheduler_lab.simulation.replay_report import ReplayReport
    from pyscheduler_lab.traces import Job

__all__ = ["Run", "Workload", "in_order", "play", "play_each", "policy_of", "read_workload", "run"]


@attrs.frozen(kw_only=True)
class Workload:
    """The jobs of a trace, the nodes that they run on, and their teams."""

    jobs: Sequence[Job]
    cluster: Cluster
    teams: Sequence[Team]
    failures: Failures | None = None
    #: How many jobs the reader of the trace left out or changed, by reason; and names of columns that it does not read.
    notes: Mapping[str, int | str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Run:
    """A run: settings, tables, and the counts of the replay."""

    settings: RunSettings
    tables: Tables
    report: ReplayReport

    @property
    def measures(self) -> Measures:
        """Return the measures of all jobs."""
        return Measures.of(self.tables)


def read_workload(settings: RunSettings, *, read_trace: Callable[..., Trace] = Trace.read) -> Workload:
    """Return the workload that the settings name; raise `ConfigError` for a mistake in them.

    `read_trace` is called as `Trace.read`, and may keep traces.
    """
    cluster = Cluster.read(settings.nodes, watts=settings.watts)
    failures = read_failures(settings.failures, cluster) if settings.failures is not None else None
    trace = read_trace(
        settings.trace,
        vc=settings.vc,
        merge_vcs=settings.merge_vcs,
        shape=settings.shape,
        columns=tuple(settings.trace_columns.items()),
    )
    jobs = jobs_of_teams(trace.first(settings.jobs).jobs, source=trace.source)
    teams = teams_of(jobs, cluster, settings.quotas)
    return Workload(jobs=jobs, cluster=cluster, teams=teams, failures=failures, notes=trace.notes)


def run(settings: RunSettings, *, progress: Callable[[Progress], object] = lambda _: None) -> Run:
    """Replay the workload that the settings name; raise `ConfigError` for a mistake in them."""
    return play(read_workload(settings), policy_of(settings), settings, progress=progress)


def policy_of(settings: RunSettings) -> Policy:
    """Return the policy of the settings, with their weights; raise `ConfigError` for a mistake in it."""
    return weighted(policy_named(settings.policy, gates=parse(settings.feature_gates)), settings.weights)


def play(
    workload: Workload,
    policy: Policy,
    settings: RunSettings,
    *,
    progress: Callable[[Progress], object] = lambda _: None,
) -> Run:
    """Replay a workload under a policy; of the settings, those of the scheduler count."""
    jobs = in_order(workload.jobs, settings.seed)
    played = Replay(
        jobs,
        workload.cluster,
        policy.config,
        registry=discover(blocked=settings.blocked),
        settings=Settings(
            feature_gates=parse(settings.feature_gates),
            max_unschedulable_seconds=settings.max_unschedulable_seconds,
            ties=settings.ties,
        ),
        seed=settings.seed,
        queues=queue_plan(policy, workload.teams, jobs),
        fidelity=settings.fidelity,
        failures=workload.failures,
    )
    report = _to_end(played.run(progress))
    tables = tables_of(played, workload.cluster, workload.teams if policy.has_queues else ())
    return Run(settings=msgspec.structs.replace(settings, policy=policy.name), tables=tables, report=report)


def _to_end(replay: Coroutine[None, None, ReplayReport]) -> ReplayReport:
    """Run a replay in an event loop of its own; in a thread if the caller has a running loop, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        return _in_thread(replay)
    return asyncio.run(replay)


def _in_thread(replay: Coroutine[None, None, ReplayReport]) -> ReplayReport:
    """Run a replay in a thread; if the caller is interrupted, the replay is cancelled."""
    cancels: list[Callable[[], object]] = []

    async def cancellable() -> ReplayReport:
        task = asyncio.current_task()
        assert task is not None
        cancels.append(partial(asyncio.get_running_loop().call_soon_threadsafe, task.cancel))
        return await replay

    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(asyncio.run, cancellable())
        try:
            return done.result()
        except KeyboardInterrupt:
            for cancel in cancels:
                cancel()
            raise


def play_each(
    workload: Workload,
    policies: Iterable[Policy],
    settings: RunSettings,
    seeds: Sequence[int],
    *,
    progress: Callable[..., object] = lambda _, **_keywords: None,
) -> Iterator[Run]:
    """Yield the run of each policy with each seed, by policy; `progress` also gets the `name` of the policy."""
    for policy in policies:
        for seed in seeds:
            one = msgspec.structs.replace(settings, seed=seed)
            yield play(workload, policy, one, progress=partial(progress, name=policy.name))


def in_order(jobs: Sequence[Job], seed: int) -> Sequence[Job]:
    """Return the jobs by arrival; a seed other than 0 shuffles those that arrive at the same time."""
    if not seed:
        return jobs
    rng = random.Random(f"arrivals/{seed}")
    return sorted(rng.sample(jobs, len(jobs)), key=lambda job: job.arrival)
