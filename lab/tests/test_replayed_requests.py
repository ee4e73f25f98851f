"""Replays of jobs with parts of GPUs, GPU models, labels, priorities, minimums of workers, and without an end."""

from __future__ import annotations

import asyncio
import math
from itertools import pairwise
from typing import Any

import pytest

from pyscheduler.config.load import load
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler_lab.clusters import Cluster
from pyscheduler_lab.simulation.replay import Replay
from pyscheduler_lab.simulation.replay_report import ReplayReport
from pyscheduler_lab.traces import Job


def play(jobs: list[Job], nodes: str, **keywords: Any) -> tuple[ReplayReport, Replay]:
    """Replay jobs with the default profile."""
    played = Replay(jobs, Cluster.read(nodes), load(None), registry=discover(), **keywords)
    return asyncio.run(played.run()), played


def job(name: str, at: float, duration: float, **fields: Any) -> Job:
    """Return a job."""
    return Job(name=name, arrival=at, duration=duration, **fields)


def starts(played: Replay) -> dict[str, float | None]:
    """Return when the last run of each job began; None for jobs that never ran."""
    return {name: run.spans[-1][0] if run.spans else run.started for name, run in played.meter.runs.items()}


def never_ran(played: Replay) -> dict[str, str]:
    """Return by name of a job that never ran why it waits."""
    messages = played.waiting_messages()
    return {name: messages.get(name, "") for name, began in starts(played).items() if began is None}


def test_parts_of_gpus_are_placed_device_by_device() -> None:
    """No two of 600, 600 and 800 thousandths fit on one GPU: the third waits, although the sum of two GPUs has room."""
    jobs = [
        job(name, at, 100, gpus=1, gpu_milli=milli)
        for name, at, milli in (("a", 0, 600), ("b", 1, 600), ("c", 2, 800), ("d", 3, 400))
    ]
    report, played = play(jobs, "1x2gpu")
    found = starts(played)
    assert report.finished == 4
    assert (found["a"], found["b"], found["d"]) == (0, 1, 3)
    assert found["c"] is not None
    assert found["c"] >= 100
    assert max(moment.used for moment in played.meter.moments) == pytest.approx(1.8)
    assert played.meter.used == 0
    assert not played.cluster.server.pods()


def test_whole_and_shared_gpus_stay_apart() -> None:
    """A shared GPU is not given to a job that needs a whole one, and is whole again when nobody shares it."""
    jobs = [job("part", 0, 100, gpus=1, gpu_milli=100), job("whole", 10, 50, gpus=1), job("both", 20, 10, gpus=2)]
    _, played = play(jobs, "1x2gpu")
    found = starts(played)
    assert (found["part"], found["whole"]) == (0, 10)
    assert found["both"] is not None
    assert found["both"] >= 100


def test_models_labels_and_priorities_are_requested() -> None:
    """A job runs on a model that it names; one that names a label of no node never runs, and says why."""
    jobs = [
        job("t4", 0, 10, gpus=8, gpu_models=("T4", "P100")),
        job("again", 0, 10, gpus=8, gpu_models=("T4",), priority=5),
        job("nowhere", 0, 10, node_selector={"zone": "mars"}),
    ]
    _, played = play(jobs, "2x8gpu:A100,1x8gpu:T4")
    found = starts(played)
    assert found["again"] == 0  # of the higher priority
    assert found["t4"] is not None
    assert found["t4"] >= 10
    assert [*never_ran(played)] == ["nowhere"]
    assert "didn't match Pod's node affinity/selector" in never_ran(played)["nowhere"]


def test_job_starts_with_its_minimum_of_workers() -> None:
    """The others join when there is room; what they hold then is used."""
    jobs = [job("first", 0, 50, gpus=8), job("elastic", 10, 200, workers=2, min_workers=1, gpus=8)]
    report, played = play(jobs, "2x8gpu")
    assert starts(played) == {"first": 0, "elastic": 10}
    assert report.finished == 2
    # One GPU of 8 for 40 s, then both nodes until 210 s; the second worker comes when its backoff has passed.
    moments = played.meter.moments
    used = sum(moment.used * (after.time - moment.time) for moment, after in pairwise(moments))
    assert used == pytest.approx(8 * (50 + 200 + 160), abs=8 * 12)


def test_replay_ends_although_jobs_have_no_end() -> None:
    """They count as running, not as finished; those that wait for them are named."""
    jobs = [
        job("server", 0, math.inf, gpus=8),
        job("short", 10, 20, gpus=8),
        job("late", 100, math.inf, gpus=8),
    ]
    report, played = play(jobs, "2x8gpu")
    assert (report.jobs, report.finished) == (3, 1)
    assert never_ran(played) == {}
    _, played = play(jobs, "1x8gpu")
    assert [*never_ran(played)] == ["short", "late"]
