"""Comparisons over seeds: what a seed changes, intervals, and choices among equal nodes."""

from __future__ import annotations

import math

import attrs
import numpy as np
import pytest

from pyscheduler_lab.cli.result_text import equal_runs
from pyscheduler_lab.clusters import Cluster
from pyscheduler_lab.results.comparison import distinct_runs, estimate, summary_of
from pyscheduler_lab.results.intervals import student_interval
from pyscheduler_lab.results.runs import Run, Workload, in_order, play
from pyscheduler_lab.results.settings import RunSettings, Ties
from pyscheduler_lab.simulation.policies import policy_named, teams_of
from pyscheduler_lab.traces import Job


def job(name: str, arrival: float = 0.0, *, gpus: int = 1) -> Job:
    """Return a job of one worker."""
    return Job(
        name=name, arrival=arrival, duration=100, workers=1, gpus=gpus, cpu_milli=1000, memory_mib=1024, team="a"
    )


def played(jobs: list[Job], policy: str, *, nodes: int = 12, **settings: object) -> Run:
    """Replay jobs under a policy."""
    cluster = Cluster.uniform(nodes)
    workload = Workload(jobs=jobs, cluster=cluster, teams=teams_of(jobs, cluster))
    return play(workload, policy_named(policy), RunSettings(trace="jobs", nodes="12", policy=policy, **settings))  # type: ignore[arg-type]  # as given


def nodes_of(run: Run) -> list[str]:
    """Return the node of each pod, in the order of the jobs."""
    found: list[str] = run.tables.pods["node"].to_pylist()
    return found


def test_seed_shuffles_jobs_that_arrive_together() -> None:
    """Seed 0 keeps the order of the trace; the order of arrivals at different times is never changed."""
    jobs = [*(job(f"early-{n}") for n in range(20)), *(job(f"late-{n}", 5.0) for n in range(20))]
    assert [*in_order(jobs, 0)] == jobs
    orders = {tuple(each.name for each in in_order(jobs, seed)) for seed in range(1, 6)}
    assert len(orders) == 5
    for order in orders:
        assert all(name.startswith("early") for name in order[:20])
        assert sorted(order) == sorted(each.name for each in jobs)
    assert [*in_order(jobs, 3)] == [*in_order(jobs, 3)]


@pytest.mark.parametrize("policy", ["default", "fifo"])
def test_choice_among_equal_nodes_by_name(policy: str) -> None:
    """The first of twelve empty nodes by name is node-0, the last one node-9; by chance it is any of them."""
    chosen: dict[Ties, set[str]] = {
        ties: {
            nodes_of(played([job("a")], policy, ties=ties, seed=seed))[0]
            for seed in range(4 if ties == "random" else 1)
        }
        for ties in ("first", "last", "random")
    }
    assert chosen["first"] == {"node-0"}
    assert chosen["last"] == {"node-9"}
    assert len(chosen["random"]) > 1


def test_estimate_holds_the_mean_and_its_intervals() -> None:
    """Equal values have an interval of width 0; one value has none."""
    found = estimate([1.0, 2.0, 3.0, 4.0])
    half = 3.182446 * math.sqrt(5 / 3 / 4)
    assert (found.mean, found.low, found.high) == (2.5, pytest.approx(2.5 - half), pytest.approx(2.5 + half))
    assert (found.bootstrap_low, found.bootstrap_high) == (pytest.approx(1.5, abs=0.1), pytest.approx(3.5, abs=0.1))
    assert found.half_width == pytest.approx(half)
    assert not found.may_be_chance
    same = estimate([7.0, 7.0])
    assert (same.mean, same.low, same.high, same.half_width) == (7.0, 7.0, 7.0, 0.0)
    alone = estimate([7.0], [6.0])
    assert (alone.mean, alone.difference, alone.low, alone.difference_low, alone.half_width) == (7, 1, None, None, None)


@pytest.mark.parametrize(("count", "t"), [(2, 12.7062), (3, 4.3027), (4, 3.1824), (10, 2.2622), (31, 2.0423)])
def test_intervals_of_few_values_contain_the_mean_in_95_percent(count: int, t: float) -> None:
    """The factor is that of the tables of Student's t."""
    two_ends = np.append(np.zeros(count - 2), [-1.0, 1.0])
    _, high = student_interval(two_ends)
    assert (high or 0) * math.sqrt(count * (count - 1) / 2) == pytest.approx(t, abs=5e-5)
    draws = np.random.default_rng(7).normal(0.0, 1.0, (4000, count))
    ends = np.array([student_interval(values) for values in draws], dtype=np.float64)
    assert ((ends[:, 0] <= 0) & (ends[:, 1] >= 0)).mean() == pytest.approx(0.95, abs=0.012)


def test_differences_are_paired_by_seed() -> None:
    """A small difference in every seed is no chance, although the values of the seeds lie far apart."""
    first, other = [100.0, 500.0, 900.0], [101.0, 501.0, 901.0]
    found = estimate(other, first)
    assert (found.difference, found.difference_low, found.difference_high) == (1.0, 1.0, 1.0)
    assert not found.may_be_chance
    mixed = estimate([101.0, 499.0, 900.0], first)
    assert mixed.difference == 0
    assert mixed.may_be_chance
    assert not estimate(first, first).may_be_chance


def test_seed_without_a_value_is_left_out() -> None:
    """If no seed has a value, the estimate has none either."""
    found = estimate([None, 2.0, 4.0], [1.0, 1.0, None])
    assert (found.mean, found.difference) == (3.0, 1.0)
    nothing = estimate([None], [1.0])
    assert (nothing.mean, nothing.difference, nothing.half_width) == (None, None, None)


@attrs.frozen
class Outcome:
    """The columns of a run."""

    cells: dict[str, float | None] | None


def test_equal_runs_are_counted_and_noted() -> None:
    """Runs that are equal in all columns are one; those of a failed cell are none."""
    runs = [Outcome({"jobs": 1, "wait": wait}) for wait in (2, 2, None)]
    assert distinct_runs([*runs, Outcome(None)]) == 2
    counts = [("kai", 3, 2), ("fifo", 3, 1), ("default", 3, 3), ("binpack", 3, 1)]
    assert [*equal_runs(counts)] == [
        "only 2 different runs in 3 seeds: kai",
        "the same run in all 3 seeds: fifo; binpack",
    ]
    assert [*equal_runs((name, 3, 1) for name in "abcdef")] == ["the same run in all 3 seeds: a; b; c; d and 2 more"]


def test_fragmentation_tells_packing_from_spreading() -> None:
    """Jobs of one GPU spread over the nodes keep jobs of eight GPUs waiting; packed they do not."""
    small = [attrs.evolve(job(f"small-{n}"), duration=1000, cpu_milli=20_000) for n in range(4)]
    large = [attrs.evolve(job(f"large-{n}", 10.0, gpus=8), duration=10) for n in range(4)]
    spread, packed = (summary_of(played([*small, *large], policy, nodes=4)).cells for policy in ("default", "binpack"))
    assert (spread["free_waiting"] or 0) > 0.8
    # Half of the workers request eight GPUs, and no node has them.
    assert spread["unusable_waiting"] == pytest.approx((spread["free_waiting"] or 0) / 2, abs=1e-5)
    assert (packed["unusable_waiting"] or 0) < (spread["unusable_waiting"] or 0) / 10
    assert (packed["wait_mean_s"] or 0) < (spread["wait_mean_s"] or 0)
