"""Measure how far the GPUs of each team were from its fair share while a trace was replayed."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pyscheduler_lab.simulation.queue_plan import Team
    from pyscheduler_lab.simulation.replay_meter import JobRun

__all__ = ["ShareError", "divide", "share_error"]


class ShareError:
    """The error over time: `values[i]` holds from `times[i]` (seconds) until the next time, or `end`."""

    def __init__(self, times: NDArray[np.float64], values: NDArray[np.float64], end: float) -> None:
        self._times = times
        self._values = values
        self._end = end

    def mean(self, begin: float = 0.0, end: float | None = None) -> float:
        """Return the mean over time, from `begin` to `end`; 0 for an empty time."""
        end = self._end if end is None else end
        if not len(self._times) or end <= begin:
            return 0.0
        edges = np.clip(np.append(self._times, self._end), begin, end)
        return float((np.diff(edges) * self._values).sum() / (end - begin))

    def percentile(self, percent: float) -> float:
        """Return the value that the error does not exceed during so much of the time."""
        if not len(self._times):
            return 0.0
        order = np.argsort(self._values)
        seconds = np.cumsum(np.diff(np.append(self._times, self._end))[order])
        row = int(np.searchsorted(seconds, seconds[-1] * percent / 100))
        return float(self._values[order[min(row, len(order) - 1)]])

    def series(self, parts: int) -> list[float]:
        """Return the means of equal parts of the time."""
        edges = np.linspace(0.0, self._end, parts + 1).tolist()
        return [self.mean(begin, end) for begin, end in pairwise(edges)]


def share_error(runs: Sequence[JobRun], teams: Sequence[Team], capacity: float, end: float) -> ShareError:
    """Return the share error of a replay that lasted `end` seconds, on `capacity` GPUs.

    The error is the number of GPUs that teams lack of their fair shares, as a part of the capacity. The fair share at a
    moment divides the capacity among the teams in proportion to their quotas, up to what the jobs of each request.
    """
    row_of = {team.name: row for row, team in enumerate(teams)}
    events: list[tuple[float, int, float, float]] = []
    for run in runs:
        row, gpus = row_of[run.job.team], float(run.job.gpu_count)
        if run.arrived is None:
            continue
        events.append((run.arrived, row, gpus, 0.0))
        if run.ended is not None:
            events.append((run.ended, row, -gpus, 0.0))
        for began, stopped in run.spans:
            events += [(began, row, 0.0, gpus), (stopped, row, 0.0, -gpus)]
        if run.started is not None and run.ended is None:
            events.append((run.started, row, 0.0, gpus))
    if not events:
        return ShareError(np.empty(0), np.empty(0), end)
    columns = np.array(events)
    times, at = np.unique(columns[:, 0], return_inverse=True)
    requested, used = np.zeros((2, len(times), len(teams)))
    team = columns[:, 1].astype(np.int64)
    np.add.at(requested, (at, team), columns[:, 2])
    np.add.at(used, (at, team), columns[:, 3])
    weights = np.array([float(each.quota) for each in teams])
    fair = divide(np.cumsum(requested, axis=0), weights, capacity)
    lacking = np.maximum(fair - np.cumsum(used, axis=0), 0.0).sum(axis=1)
    return ShareError(times, lacking / capacity, max(end, float(times[-1])))


def divide(requested: NDArray[np.float64], weights: NDArray[np.float64], capacity: float) -> NDArray[np.float64]:
    """Return float64[E, T]: at each moment the share of each team, in GPUs.

    `requested`: float64[E, T] in GPUs, `weights`: float64[T]. No team gets more than it requests; what it leaves is
    divided among the others. A team of weight 0 gets nothing.
    """
    share = np.zeros_like(requested)
    is_open = np.broadcast_to(weights > 0, requested.shape).copy()
    for _ in weights:
        rest = capacity - share.sum(axis=1, keepdims=True)
        heavy = np.maximum((weights * is_open).sum(axis=1, keepdims=True), 1e-12)
        part = rest * weights / heavy
        is_met = is_open & (requested <= part)
        share = np.where(is_met, requested, share)
        is_open &= ~is_met
    rest = capacity - share.sum(axis=1, keepdims=True)
    heavy = np.maximum((weights * is_open).sum(axis=1, keepdims=True), 1e-12)
    found: NDArray[np.float64] = np.where(is_open, rest * weights / heavy, share)
    return found
