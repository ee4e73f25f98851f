"""Fair shares at each moment of a replay, and what teams lack of them."""

from __future__ import annotations

import numpy as np
import pytest

from pyscheduler_lab.simulation.queue_plan import Team
from pyscheduler_lab.simulation.replay_meter import JobRun
from pyscheduler_lab.simulation.share_error import divide, share_error
from pyscheduler_lab.traces import Job


@pytest.mark.parametrize(
    ("requested", "weights", "shares"),
    [
        ([10, 10], [1, 1], [4, 4]),
        ([10, 10], [3, 1], [6, 2]),
        ([1, 10], [1, 1], [1, 7]),
        ([1, 2, 10], [1, 1, 2], [1, 2, 5]),
        ([2, 3], [1, 1], [2, 3]),
        ([10, 10], [1, 0], [8, 0]),
        ([0, 0], [1, 1], [0, 0]),
    ],
)
def test_capacity_is_divided_by_weight_up_to_the_requests(
    requested: list[float], weights: list[float], shares: list[float]
) -> None:
    """What a team does not request is divided among the others."""
    found = divide(np.array([requested], dtype=float), np.array(weights, dtype=float), 8.0)
    assert found.tolist() == [pytest.approx(shares)]


def run(team: str, gpus: int, arrived: float, *spans: tuple[float, float]) -> JobRun:
    """Return a job that ran in these spans and has ended with the last one."""
    job = Job(name=team, arrival=arrived, duration=1, workers=1, gpus=gpus, cpu_milli=0, memory_mib=0, team=team)
    return JobRun(job, arrived=arrived, ended=spans[-1][1], spans=[*spans])


def test_error_is_what_teams_lack_over_time() -> None:
    """First team b lacks its half, then team a; at the end nobody lacks anything."""
    teams = [Team(name="a", quota=4), Team(name="b", quota=4)]
    runs = [run("a", 8, 0, (0, 10), (16, 20)), run("b", 4, 0, (10, 16))]
    error = share_error(runs, teams, 8.0, 20.0)
    assert error.mean(0, 10) == pytest.approx(0.5)
    assert error.mean(10, 16) == pytest.approx(0.5)  # team a waits although its share is a half
    assert error.mean(16, 20) == 0
    assert error.mean() == pytest.approx(0.4)
    assert error.percentile(95) == pytest.approx(0.5)
    assert error.percentile(10) == 0
    assert error.series(2) == pytest.approx([0.5, 0.3])


def test_replay_without_jobs_has_no_error() -> None:
    """Nothing is divided by nothing."""
    error = share_error([], [], 8.0, 0.0)
    assert (error.mean(), error.percentile(95), error.series(2)) == (0.0, 0.0, [0.0, 0.0])
