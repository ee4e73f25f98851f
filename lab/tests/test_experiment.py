"""`compare` of the Python interface: its tables are those of the command, for jobs that were made in Python."""

from __future__ import annotations

import asyncio
import random
import signal
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

import pyscheduler_lab
from pyscheduler.framework.errors import ConfigError
from pyscheduler_lab import Cluster, Comparison, Trace, compare
from pyscheduler_lab.results.columns import COLUMNS
from pyscheduler_lab.results.comparison import estimate
from pyscheduler_lab.simulation.replay import Replay
from pyscheduler_lab.traces import Job


def crowded_jobs(count: int) -> list[Job]:
    """Return jobs of four teams that ask for more than six nodes of 8 GPUs have."""
    rng = random.Random(3)
    return [
        Job(
            name=f"job-{number}",
            arrival=number * 40.0,
            duration=rng.uniform(60, 900),
            workers=rng.choice([1, 1, 1, 2, 2, 4, 6]),
            gpus=rng.choice([1, 2, 4, 8]),
            cpu_milli=1000,
            memory_mib=1024,
            team=f"team-{rng.randrange(4)}",
        )
        for number in range(count)
    ]


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    """Return a comparison of two policies with two seeds."""
    trace = Trace(jobs=crowded_jobs(12))
    return compare(trace, Cluster.read("6x8gpu"), ["fifo", "binpack"], seeds=2)


def test_names_of_the_interface_are_listed() -> None:
    """They are loaded only when they are used, but a shell completes them before, and nothing else."""
    assert dir(pyscheduler_lab) == sorted(pyscheduler_lab.__all__)


def test_summary_has_a_row_for_each_run(comparison: Comparison) -> None:
    """In order of policies, then of seeds; a column that a family does not have is null."""
    rows = comparison.summary.to_pylist()
    assert [(row["policy"], row["seed"]) for row in rows] == [("fifo", 0), ("fifo", 1), ("binpack", 0), ("binpack", 1)]
    assert [*rows[0]] == ["policy", "seed", *(column.name for column in COLUMNS)]
    assert [row["jobs"] for row in rows] == [12] * 4
    assert rows[0]["finished"] == 12
    assert [row["share_error_mean"] is None for row in rows] == [False, False, True, True]


def test_estimates_are_those_of_the_seeds(comparison: Comparison) -> None:
    """With the difference to the first policy, seed by seed."""
    waits = {
        name: [row["wait_mean_s"] for row in comparison.summary.to_pylist() if row["policy"] == name]
        for name in ("fifo", "binpack")
    }
    rows = {(row["policy"], row["column"]): row for row in comparison.estimates.to_pylist()}
    assert len(rows) == 2 * len(COLUMNS)
    expected = estimate(waits["binpack"], waits["fifo"])
    found = rows["binpack", "wait_mean_s"]
    assert (found["mean"], found["difference"]) == (expected.mean, expected.difference)
    assert rows["fifo", "wait_mean_s"]["difference"] is None


def test_caller_may_have_a_running_loop(comparison: Comparison) -> None:
    """As in a notebook: the results are the same."""
    trace = Trace(jobs=crowded_jobs(12))

    async def in_a_cell(cluster: Cluster) -> Comparison:
        return compare(trace, cluster, ["fifo", "binpack"], seeds=2)

    again = asyncio.run(in_a_cell(Cluster.read("6x8gpu")))
    assert again.table("jobs").equals(comparison.table("jobs"))


def test_interrupt_ends_the_replay_of_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller gets it at once, and no thread goes on."""
    trace = Trace(jobs=crowded_jobs(12))
    ended = threading.Event()

    async def endless(*_: object) -> None:
        main = threading.main_thread().ident
        assert main is not None
        threading.Timer(0.05, signal.pthread_kill, [main, signal.SIGINT]).start()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    monkeypatch.setattr(Replay, "run", endless)

    async def in_a_cell(cluster: Cluster) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # as a kernel does; that of `asyncio.run` only cancels
        with pytest.raises(KeyboardInterrupt):
            compare(trace, cluster, ["fifo"])

    asyncio.run(in_a_cell(Cluster.read("6x8gpu")))
    assert ended.is_set()
    assert not [each for each in threading.enumerate() if each.name.startswith("ThreadPoolExecutor")]


def test_tables_name_their_run(comparison: Comparison) -> None:
    """Each row of a table of the bundles has its policy and its seed."""
    jobs = comparison.table("jobs")
    assert jobs.num_rows == 4 * 12
    assert jobs.column_names[:2] == ["policy", "seed"]
    with pytest.raises(KeyError, match='no table "queues"; there are jobs, pods, timeline, nodes'):
        comparison.table("queues")


def test_mistakes_are_errors() -> None:
    """In one line."""
    trace, cluster = Trace(jobs=crowded_jobs(2)), Cluster.read("6x8gpu")
    with pytest.raises(ConfigError, match="each policy once"):
        compare(trace, cluster, ["fifo", "fifo"])
    with pytest.raises(ConfigError, match='no policy "lottery"'):
        compare(trace, cluster, ["lottery"])
    with pytest.raises(ConfigError, match="the trace has no jobs"):
        compare(trace.first(0), cluster, ["fifo"])
    with pytest.raises(ConfigError, match="the cluster has no nodes"):
        compare(trace, Cluster(nodes=()), ["fifo"])
    with pytest.raises(ConfigError, match=r"cluster must be a Cluster, as Cluster.read\(...\) returns, not '6x8gpu'"):
        compare(trace, "6x8gpu", ["fifo"])  # type: ignore[arg-type]  # the mistake
    with pytest.raises(ConfigError, match=r"trace must be a Trace, as Trace.read\(...\) returns, not 'openb'"):
        compare("openb", cluster, ["fifo"])  # type: ignore[arg-type]  # the mistake


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"policies": "fifo"}, "policies must be a list, such as ['fifo'], not 'fifo'"),
        ({"policies": 3}, "policies must be a list of names and paths, not 3"),
        ({"policies": []}, "policies is empty; name at least one, such as fifo"),
        ({"policies": [3]}, "a policy is a name or a path, not 3"),
        ({"seeds": 0}, "seeds must be a whole number of at least 1, not 0"),
        ({"seeds": "3"}, "seeds must be a whole number of at least 1, not '3'"),
        ({"ties": "rnd"}, "ties must be one of random, first, last, not 'rnd'"),
        ({"fidelity": None}, "fidelity must be one of full, decisions, not None"),
        ({"quotas": ["a"]}, "quotas must map each team to a whole number of GPUs, not ['a']"),
        ({"quotas": {"team-0": 2.5}}, "quotas must map each team to a whole number of GPUs, not {'team-0': 2.5}"),
        ({"quotas": {"team-0": -1}}, "quotas must map each team to a whole number of GPUs, not {'team-0': -1}"),
    ],
)
def test_arguments_of_another_type(arguments: dict[str, Any], complaint: str) -> None:
    """None is taken for another one in silence."""
    given: dict[str, Any] = {"policies": ["fifo"], **arguments}
    with pytest.raises(ConfigError) as raised:
        compare(Trace(jobs=crowded_jobs(2)), Cluster.read("6x8gpu"), **given)
    assert str(raised.value) == complaint


def test_doubtful_results_are_warnings(tmp_path: Path) -> None:
    """There is a warning for an unknown column of the trace, and one for unfinished jobs. A policy may be a path."""
    (tmp_path / "jobs.csv").write_text("arrival,duration,gpu,gpu_mili\n0,60,1,500\n5,60,16,\n")
    profile = tmp_path / "profile.yaml"
    profile.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compare(Trace.read(tmp_path / "jobs.csv"), Cluster.read("1x8gpu"), [profile])
    first, second = [str(each.message) for each in caught]
    assert "did you mean gpu_milli?" in first
    assert second.endswith("seed 0: 1 of 2 jobs did not finish; waits are lower bounds")
