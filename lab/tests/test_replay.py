"""Replays of traces: when jobs run, what is left of them, and what is measured."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest

from pyscheduler.config.load import load
from pyscheduler.config.types import Configuration
from pyscheduler.podgroup import DIALECTS
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler_lab.clusters import Cluster
from pyscheduler_lab.results.columns import Cells, cells_of
from pyscheduler_lab.results.measures import Measures
from pyscheduler_lab.results.tables import tables_of
from pyscheduler_lab.simulation.replay import Progress, Replay
from pyscheduler_lab.simulation.replay_objects import pod_of
from pyscheduler_lab.simulation.replay_report import ReplayReport
from pyscheduler_lab.traces import Job

CONFIGS = Path(__file__).parents[2] / "configs"
#: A pod is tried again so long after room was freed, at most: its backoff.
BACKOFF = 10


def job(name: str, *, arrival: float, duration: float, workers: int = 1, gpus: int = 8) -> Job:
    """Return a job whose workers ask for a core, and some memory, per GPU."""
    return Job(
        name=name,
        arrival=arrival,
        duration=duration,
        workers=workers,
        gpus=gpus,
        cpu_milli=1000 * max(gpus, 1),
        memory_mib=1024,
    )


def config_named(name: str) -> Configuration:
    """Return a configuration of the repository, or the one without a file."""
    return load(CONFIGS / f"{name}.yaml") if name else load(None)


def play(
    jobs: list[Job], *, nodes: int, config: str = "", seed: int = 0, **keywords: Any
) -> tuple[ReplayReport, Replay]:
    """Replay jobs on so many nodes of 8 GPUs."""
    played = Replay(jobs, Cluster.uniform(nodes), config_named(config), registry=discover(), seed=seed)
    return asyncio.run(played.run(**keywords)), played


def cells(played: Replay, nodes: int) -> Cells:
    """Return the columns of a replay on so many nodes of 8 GPUs."""
    return cells_of(Measures.of(tables_of(played, Cluster.uniform(nodes), ())))


@pytest.mark.parametrize("config", ["", "coscheduling", "gangsort"], ids=["default", "coscheduling", "gangsort"])
def test_jobs_arrive_run_and_end(config: str) -> None:
    """Each runs its time from the moment it is bound; in the end nothing is left of them anywhere."""
    jobs = [
        job("a", arrival=0, duration=1000),
        job("b", arrival=100, duration=500),
        job("c", arrival=5000, duration=100, workers=2, gpus=4),
    ]
    report, played = play(jobs, nodes=1, config=config)
    runs = played.meter.runs
    found = cells(played, 1)
    assert (report.jobs, report.finished) == (found["jobs"], found["finished"]) == (3, 3)
    assert (found["gangs"], found["gangs_scheduled"]) == (1, 1)
    assert (runs["a"].started, runs["a"].ended) == (0, 1000)
    assert runs["b"].started is not None
    assert 1000 <= runs["b"].started <= 1000 + BACKOFF
    assert runs["b"].ended == runs["b"].started + 500
    assert (runs["c"].started, runs["c"].ended, found["makespan_s"]) == (5000, 5100, 5100)
    waited = runs["b"].started - 100
    assert found["wait_mean_s"] == pytest.approx(waited / 3, abs=0.001)
    assert found["wait_p50_s"] == 0
    assert found["jct_mean_s"] == pytest.approx((1000 + waited + 500 + 100) / 3, abs=0.001)
    assert found["jct_p50_s"] == pytest.approx(min(1000, waited + 500), abs=0.001)
    assert found["gpu_utilisation"] == pytest.approx(1600 / 5100, abs=1e-6)
    assert found["partial_gpu_seconds"] == 0
    assert report.warnings == {}
    assert report.attempts == sum(report.attempts_by_result.values()) >= 4
    assert not played.cluster.server.pods()
    assert not played.cluster.server.objects("scheduling.x-k8s.io/v1alpha1", "PodGroup")


def test_gpus_held_by_incomplete_jobs_are_integrated() -> None:
    """Two nodes for a gang that needs three, for as long as another job has the third; as one worker after another."""
    jobs = [job("a", arrival=0, duration=600), job("b", arrival=100, duration=50, workers=3)]
    report, played = play(jobs, nodes=3)
    started = played.meter.runs["b"].started
    assert started is not None
    assert cells(played, 3)["partial_gpu_seconds"] == pytest.approx(2 * 8 * (started - 100), abs=0.01)
    assert report.finished == 2
    assert max(moment.idle for moment in played.meter.moments) == 16


def test_group_plugins_prevent_partial_holding() -> None:
    """The same jobs with Coscheduling: the part that has a place gives it back at once."""
    jobs = [job("a", arrival=0, duration=600), job("b", arrival=100, duration=50, workers=3)]
    report, played = play(jobs, nodes=3, config="coscheduling")
    assert played.dialect == report.dialect == "sigs"
    assert cells(played, 3)["partial_gpu_seconds"] == 0
    assert report.finished == 2


def test_reservations_at_permit_count_as_held() -> None:
    """A gang that misses but a tenth holds on to its places; nobody has anything of them."""
    jobs = [job("a", arrival=0, duration=30, gpus=8), job("b", arrival=10, duration=50, workers=10)]
    _, played = play(jobs, nodes=10, config="coscheduling")
    started = played.meter.runs["b"].started
    assert started is not None
    assert cells(played, 10)["partial_gpu_seconds"] == pytest.approx(9 * 8 * (started - 10), rel=0.2)


def test_replay_ends_when_nothing_changes() -> None:
    """A job that fits nowhere is left over, and what cannot be said is null."""
    report, played = play([job("wide", arrival=5, duration=10, gpus=9)], nodes=2)
    found = cells(played, 2)
    assert (report.jobs, report.finished, found["gpu_utilisation"]) == (1, 0, None)
    assert (found["jct_mean_s"], found["jct_p50_s"], found["wait_mean_s"]) == (None, None, 0)
    assert report.attempts_by_result.keys() == {"unschedulable"}


def test_unfinishable_job_is_counted_to_the_end() -> None:
    """Plain pods keep what they have, and their job waits for ever; the time until the last event counts."""
    jobs = [job("g", arrival=0, duration=10, workers=3), job("late", arrival=500, duration=10, gpus=0)]
    report, played = play(jobs, nodes=2)
    found = cells(played, 2)
    assert report.finished == 1
    assert found["partial_gpu_seconds"] == pytest.approx(16 * 510, rel=0.01)
    assert found["wait_mean_s"] == pytest.approx(510 / 2, rel=0.01)


def test_jobs_without_gpus_are_replayed() -> None:
    """They run like others; a cluster without GPUs has no utilisation."""
    played = Replay(
        [job("c", arrival=0, duration=10, gpus=0)], Cluster.uniform(1, gpus=0), load(None), registry=discover()
    )
    report = asyncio.run(played.run())
    found = cells_of(Measures.of(tables_of(played, Cluster.uniform(1, gpus=0), ())))
    assert (report.finished, found["gpu_utilisation"], found["jct_mean_s"]) == (1, None, 10)


@pytest.mark.slow
def test_same_seed_gives_the_same_report() -> None:
    """The report and the columns are equal, except for the wall time."""
    jobs = [job(f"j{n}", arrival=10 * n, duration=100 + n, workers=1 + n % 4, gpus=2 + 2 * (n % 3)) for n in range(16)]

    def outcome(seed: int) -> tuple[dict[str, Any], Cells]:
        report, played = play(jobs, nodes=4, config="coscheduling", seed=seed)
        found: dict[str, Any] = msgspec.to_builtins(report)
        assert found.pop("wall_s") > 0
        del found["phases"]
        return found, cells(played, 4)

    first = outcome(7)
    assert outcome(7) == first


@pytest.mark.slow
def test_idle_months_take_no_time() -> None:
    """Nobody polls, and no watch is kept alive: attempts and phases say what there was to do."""
    seen: list[Progress] = []
    jobs = [job("a", arrival=0, duration=60), job("b", arrival=200 * 86400, duration=60)]
    report, _ = play(jobs, nodes=1, config="coscheduling", progress=seen.append)
    assert (report.finished, report.attempts) == (2, 2)
    assert [phase.name for phase in report.phases] == ["start", "arrivals", "drain"]
    assert sum(phase.attempts for phase in report.phases) == 2
    assert sum(phase.cpu_s for phase in report.phases) < 20
    assert [each.time for each in seen] == sorted(each.time for each in seen)
    assert (seen[0].arrived, seen[-1].arrived, seen[-1].finished) == (1, 2, 2)


def test_groups_use_the_dialect_of_the_group_plugin() -> None:
    """So that each of the ready profiles sees groups, and not pods that have nothing to do with each other."""
    jobs = [job("a", arrival=0, duration=600), job("b", arrival=100, duration=50, workers=3)]
    report, played = play(jobs, nodes=3, config="gang")
    assert played.dialect == "koordinator"
    assert report.finished == 2
    bound = played.meter.runs["b"].bound
    assert len(bound) == 3


def test_resolved_deadlocks_are_read_from_the_plugin() -> None:
    """From the plugins' own counter, by its name; 0 where no plugin has one."""
    played = Replay([], Cluster.uniform(1), load(None), registry=discover())
    counts = played._counts
    assert counts.deadlocks_resolved == 0
    counts.counter("pyscheduler_other_total", lambda: {(("result", "resolved"),): 5.0})
    assert counts.deadlocks_resolved == 0
    with_groups = Replay([], Cluster.uniform(1), config_named("coscheduling"), registry=discover())
    counts = with_groups._counts
    assert counts.deadlocks_resolved == 0
    assert counts._deadlocks()


def test_reports_can_be_stored() -> None:
    """All of it is data."""
    report, _ = play([job("a", arrival=0, duration=1)], nodes=1)
    assert msgspec.convert(msgspec.to_builtins(report), ReplayReport) == report


def test_plugins_see_what_the_trace_says() -> None:
    """A column that cannot be an annotation is left out, as is an empty cell."""
    columns = {"est_duration": "90", "two words": "x", "region": ""}
    one = attrs.evolve(job("train", arrival=0, duration=100), team="vision", job_class="large", columns=columns)
    pod = pod_of(one, 0, DIALECTS[0], scheduler_name="s", has_group=False)
    assert pod["metadata"]["annotations"] == {"trace/vc": "vision", "trace/class": "large", "trace/est_duration": "90"}
    assert play([one], nodes=1)[0].finished == 1
