"""Fair shares at each moment of a replay, and what teams lack of them."""

from __future__ import annotations

import numpy as np
import pytest

from pyscheduler_lab.results.share_error import Spans, divide, share_error


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
    """The part of its share that a team does not request is divided among the others."""
    found = divide(np.array([requested], dtype=float), np.array(weights, dtype=float), 8.0)
    assert found.tolist() == [pytest.approx(shares)]


def spans(*rows: tuple[float, float, int, float]) -> Spans:
    """Return spans from begin, end, team and GPUs of each."""
    begin, end, row, gpus = np.array(rows, dtype=float).reshape(-1, 4).T
    return Spans(begin=begin, end=end, row=row.astype(np.int64), gpus=gpus)


def test_error_is_what_teams_lack_over_time() -> None:
    """First team b lacks its half, then team a; at the end nobody lacks anything."""
    requested = spans((0, 20, 0, 8), (0, 16, 1, 4))
    used = spans((0, 10, 0, 8), (16, 20, 0, 8), (10, 16, 1, 4))
    error = share_error(requested, used, np.array([4.0, 4.0]), 8.0, (0.0, 20.0))
    assert error.mean() == pytest.approx(0.4)
    assert error.percentile(95) == pytest.approx(0.5)
    assert error.percentile(10) == 0
    assert error.series(2) == pytest.approx([0.5, 0.3])


def test_only_the_window_counts() -> None:
    """Requests and GPUs in use outside of the window do not change the error within it."""
    requested = spans((0, 20, 0, 8), (0, 16, 1, 4))
    used = spans((0, 10, 0, 8), (16, 20, 0, 8), (10, 16, 1, 4))
    error = share_error(requested, used, np.array([4.0, 4.0]), 8.0, (12.0, 18.0))
    assert error.series(3) == pytest.approx([0.5, 0.5, 0.0])


@pytest.mark.parametrize("window", [(0.0, 0.0), (0.0, 5.0)])
def test_replay_without_jobs_has_no_error(window: tuple[float, float]) -> None:
    """Nothing is divided by nothing."""
    error = share_error(spans(), spans(), np.array([1.0]), 8.0, window)
    assert (error.mean(), error.percentile(95), error.series(2)) == (0.0, 0.0, [0.0, 0.0])
