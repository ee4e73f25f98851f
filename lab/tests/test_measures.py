"""Columns of results for energy, elastic jobs, jobs without an end, and classes of jobs."""

from __future__ import annotations

import math

import attrs
import pyarrow as pa
import pytest

from pyscheduler_lab.clusters import Cluster
from pyscheduler_lab.results.columns import cells_of, classes_of, series_of, unfinished_of
from pyscheduler_lab.results.measures import Measures
from pyscheduler_lab.results.runs import Run, Workload, play
from pyscheduler_lab.results.settings import RunSettings
from pyscheduler_lab.simulation.policies import policy_named, teams_of
from pyscheduler_lab.traces import Job


def played(cluster: Cluster, *jobs: Job) -> Run:
    """Replay jobs under the default policy, on typed objects."""
    settings = RunSettings(trace="jobs", nodes="nodes", policy="default", fidelity="decisions")
    return play(Workload(jobs=jobs, cluster=cluster, teams=()), policy_named("default"), settings)


def test_energy_is_that_of_idle_nodes_and_busy_gpus() -> None:
    """Without watts there is none."""
    cluster = Cluster.read("2x8gpu", watts="*=200+50")
    done = played(cluster, Job(name="a", arrival=0, duration=3600, gpus=8))
    assert cells_of(done.measures)["energy_kwh"] == pytest.approx(2 * 0.2 + 8 * 0.05)
    bare = played(Cluster.read("1x8gpu"), Job(name="a", arrival=0, duration=60, gpus=8))
    assert cells_of(bare.measures)["energy_kwh"] is None


def test_energy_of_nodes_that_are_away_or_have_no_watts() -> None:
    """A node that is away for a while uses nothing then; nodes without watts do not count."""
    cluster = Cluster.read("3x8gpu:A100,1x4gpu:T4", watts="A100=400+350")
    tables = played(
        cluster,
        Job(name="a", arrival=0, duration=3600, gpus=2, gpu_models=("A100",)),
        Job(name="b", arrival=1800, duration=1800, gpus=6, gpu_models=("A100",)),
        Job(name="t", arrival=0, duration=3600, gpus=4, gpu_models=("T4",)),
    ).tables
    used = {*tables.pods["node"].to_pylist()}
    nodes = tables.nodes.to_pylist()
    idle = next(row for row in nodes if row["node"] not in used)
    nodes.remove(idle)
    nodes += [idle | {"removed_s": 900.0}, idle | {"added_s": 1800.0}]
    away = attrs.evolve(tables, nodes=pa.Table.from_pylist(nodes, schema=tables.nodes.schema))
    assert cells_of(Measures.of(tables))["energy_kwh"] == pytest.approx(3 * 0.4 + 0.35 * (2 + 3))
    assert cells_of(Measures.of(away))["energy_kwh"] == pytest.approx(2.75 * 0.4 + 0.35 * (2 + 3))


def test_cpu_utilisation_is_that_of_traces_without_gpus() -> None:
    """And such a trace on nodes without GPUs has no utilisation of GPUs and no share error, also with queues."""
    jobs = [
        Job(name=name, arrival=0, duration=100, cpu_milli=cpu, team=name) for name, cpu in (("a", 4000), ("b", 2000))
    ]
    cluster = Cluster.read("2x0gpu,8cpu")
    done = played(cluster, *jobs)
    found = cells_of(done.measures)
    assert (found["cpu_utilisation"], found["gpu_utilisation"]) == (6 / 16, None)
    assert [cells["cpu_utilisation"] for cells in classes_of(done.measures, "team").values()] == [4 / 16, 2 / 16]
    settings = RunSettings(trace="jobs", nodes="nodes", policy="fifo", fidelity="decisions")
    workload = Workload(jobs=jobs, cluster=cluster, teams=teams_of(jobs, cluster))
    queued = play(workload, policy_named("fifo"), settings).measures
    assert (cells_of(queued)["share_error_mean"], series_of(queued)) == (None, None)
    with_gpus = played(Cluster.read("1x8gpu"), Job(name="c", arrival=0, duration=100, cpu_milli=1000, gpus=1))
    assert cells_of(with_gpus.measures)["cpu_utilisation"] is None


def test_elastic_job_runs_with_its_minimum() -> None:
    """A job of three workers runs as soon as two are bound; the GPUs of the third count from its binding."""
    first = Job(name="first", arrival=0, duration=100, gpus=8)
    elastic = Job(name="elastic", arrival=10, duration=1000, workers=3, min_workers=2, gpus=8)
    done = played(Cluster.read("3x8gpu"), first, elastic)
    rows = {row["pod"]: row for row in done.tables.pods.to_pylist()}
    late = max(row["bound_s"] for row in rows.values())
    assert late >= 100
    assert {row["run_started_s"] for row in rows.values() if row["job"] == "elastic"} == {10}
    used = 8 * 100 + 2 * 8 * 1000 + 8 * (1010 - late)
    assert cells_of(done.measures)["gpu_utilisation"] == pytest.approx(used / (3 * 8 * 1010), abs=1e-6)
    assert cells_of(done.measures)["wait_mean_s"] == 0


def test_job_without_an_end_is_not_unfinished() -> None:
    """It runs until the replay ends, counts as used until the end of the window, and has no completion time."""
    endless = Job(name="endless", arrival=0, duration=math.inf, gpus=4)
    done = played(Cluster.read("1x8gpu"), endless, Job(name="short", arrival=0, duration=100, gpus=4))
    cells = cells_of(done.measures)
    assert (cells["jobs"], cells["finished"], cells["gpu_utilisation"], cells["jct_mean_s"]) == (2, 1, 1.0, 100)
    assert unfinished_of(done.tables) == []


def test_classes_have_their_own_columns() -> None:
    """A class has the columns of its jobs, and its share of all GPU time; columns of a whole run are left out."""
    jobs = [
        Job(name="a", arrival=0, duration=100, gpus=8, job_class="large"),
        Job(name="b", arrival=0, duration=100, gpus=4, job_class="small"),
    ]
    classes = classes_of(played(Cluster.read("2x8gpu"), *jobs).measures, "class")
    assert list(classes) == ["large", "small"]
    assert [cells["gpu_utilisation"] for cells in classes.values()] == [0.5, 0.25]
    assert [cells["jobs"] for cells in classes.values()] == [1, 1]
    assert "fragmentation" not in classes["large"]
