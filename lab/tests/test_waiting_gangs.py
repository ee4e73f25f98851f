"""Gangs that wait in a full cluster are hardly ever tried, because nothing happens that could help them.

One node is free, so each gang finds room for some of its members and gives it back. This room was free before, so it
wakes no other gang. When jobs end, each event causes few attempts, and gangs start at once.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from lab.tests.test_replay import CONFIGS
from pyscheduler.config.feature_gates import parse
from pyscheduler.config.load import load
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.scheduler.assembly import Settings
from pyscheduler_lab.clusters import Cluster
from pyscheduler_lab.simulation.replay import UNSCHEDULABLE_SECONDS, Replay
from pyscheduler_lab.traces import Job

IN_TREE = "GenericWorkload=true,GangScheduling=true"
PROFILES = [
    pytest.param("coscheduling", "", id="Coscheduling"),
    pytest.param("gang", "", id="Gang"),
    pytest.param("gangsort", "", id="GangSort"),
    pytest.param("in-tree-gang", IN_TREE, id="in-tree"),
]


def job(name: str, *, arrival: float, duration: float, workers: int = 1, gpus: int = 8) -> Job:
    """Return a job whose workers have some GPUs each."""
    return Job(
        name=name,
        arrival=arrival,
        duration=duration,
        workers=workers,
        gpus=gpus,
        cpu_milli=1000 * gpus,
        memory_mib=4096 * gpus,
    )


def play(jobs: list[Job], *, nodes: int, config: str, gates: str) -> Replay:
    """Replay jobs to their end."""
    parsed = parse(gates)
    settings = Settings(feature_gates=parsed, max_unschedulable_seconds=UNSCHEDULABLE_SECONDS)
    configuration = load(CONFIGS / f"{config}.yaml", gates=parsed)
    played = Replay(jobs, Cluster.uniform(nodes), configuration, registry=discover(), settings=settings)
    report = asyncio.run(played.run())
    assert report.finished == len(jobs)
    return played


@pytest.mark.slow
@pytest.mark.parametrize(("config", "gates"), PROFILES)
def test_a_full_cluster_costs_no_attempts(config: str, gates: str) -> None:
    """Each pod is tried when it comes, and each event afterwards is worth two attempts at most."""
    held = [job(f"fill-{number}", arrival=0, duration=900) for number in range(7)]
    waiting = [job(f"two-{number}", arrival=10, duration=300, workers=2) for number in range(6)]
    waiting += [job(f"four-{number}", arrival=12, duration=300, workers=4) for number in range(3)]
    played = play([*held, *waiting], nodes=8, config=config, gates=gates)
    pods = sum(each.workers for each in [*held, *waiting])
    failed_when_created = sum(each.workers for each in waiting)
    failed_after_events = pods
    assert played._scheduler.cycles <= pods + failed_when_created + failed_after_events
    starts = sorted(run.started for run in played.meter.runs.values() if run.started is not None)
    if config != "gangsort":  # without a plugin for gangs, pods run in part
        assert starts[7] <= 900.5
    assert not any(moment.idle for moment in played.meter.moments) or config == "gangsort"


@pytest.mark.slow
@pytest.mark.parametrize(("config", "gates"), PROFILES)
def test_random_jobs_all_run_with_few_attempts(config: str, gates: str) -> None:
    """Each job runs, and each kind of pod costs at most one failed attempt for each event."""
    rng = random.Random(1)
    jobs = [job(f"fill-{number}", arrival=0, duration=rng.choice([300, 301, 600])) for number in range(5)]
    for number in range(10):
        workers, gpus = rng.choice([1, 1, 2, 3, 4]), rng.choice([1, 2, 4, 8])
        jobs.append(
            job(f"j{number}", arrival=rng.randint(5, 200), duration=rng.randint(60, 300), workers=workers, gpus=gpus)
        )
    played = play(jobs, nodes=5, config=config, gates=gates)
    pods = sum(each.workers for each in jobs)
    kinds = len({(each.workers > 1 and each.name, each.gpus) for each in jobs})
    assert played._scheduler.cycles <= 2 * pods + pods * kinds / 2
    runs = [run for run in played.meter.runs.values() if run.started is not None]
    assert len(runs) == len(jobs)
