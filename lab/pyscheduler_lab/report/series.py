"""What the charts of a report show of one run: arrays of at most a few hundred numbers, from the measures of the run.

All charts over time divide the window of the run, from the first arrival to the last end, into equal parts. The mean of
the parts, weighted by the GPU time in them, is the number in the table.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import attrs
import msgspec
import numpy as np

from pyscheduler_lab.results.columns import Cells, Unfinished, cells_of, classes_of, unfinished_of
from pyscheduler_lab.results.measures import Measures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pyscheduler_lab.results.bundle import Bundle

__all__ = ["PARTS", "RunSeries", "TeamSeries", "names_of", "series_of_run"]

PARTS: Final = 72
"""Number of parts of the time."""

#: Number of steps between the points of the distribution of waits.
_STEPS: Final = 200
#: At most so many teams are shown, those with the most jobs.
_MOST_TEAMS: Final = 24
_DIGITS: Final = 6


class TeamSeries(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of one team."""

    team: str
    jobs: float | None
    wait_mean_s: float | None
    slowdown_mean: float | None


class RunSeries(msgspec.Struct, frozen=True, kw_only=True):
    """One run. Lists over time have `PARTS` values; None where nothing is known."""

    name: str
    #: The length of the window in seconds.
    seconds: float
    #: The wait below which a share of the jobs waited, for the shares 0, 1/200, ..., 1; empty without jobs.
    waits: list[float]
    #: GPU time of runs, over the GPU time of all nodes.
    utilisation: list[float | None]
    #: Mean number of jobs that wait.
    waiting: list[float | None]
    #: Share of the free GPU time on nodes where a typical worker does not fit.
    fragmentation: list[float | None]
    teams: list[TeamSeries]
    cells: Cells
    unfinished: list[Unfinished]


def names_of(bundles: Sequence[Bundle]) -> list[str]:
    """Return a name for each run: its policy, and each setting in which runs of that policy differ."""
    settings: list[dict[str, Any]] = [msgspec.to_builtins(bundle.run.settings) for bundle in bundles]
    for one in settings:
        one["policy"] = str(one["policy"]).rpartition("/")[2]
    differing = [
        name
        for name in (settings[0] if settings else {})
        if name != "policy" and len({msgspec.json.encode(one[name]) for one in settings}) > 1
    ]
    names = [", ".join([one["policy"], *(f"{name} {one[name]}" for name in differing)]) for one in settings]
    twice = {name for name, number in Counter(names).items() if number > 1}
    return [f"{name} ({bundle.folder})" if name in twice else name for name, bundle in zip(names, bundles, strict=True)]


def series_of_run(bundle: Bundle, name: str) -> RunSeries:
    """Return the numbers of the run in a bundle."""
    measures = Measures.of(bundle.tables)
    edges = np.linspace(measures.begin, measures.end, PARTS + 1)
    parts = [attrs.evolve(measures, begin=begin, end=end) for begin, end in pairwise(edges.tolist())]
    capacity = np.array([part.capacity_gpu_seconds() for part in parts])
    free = [part.node_time() for part in parts]
    waits = measures.waits
    teams = [
        TeamSeries(
            team=team or "-",
            jobs=cells["jobs"],
            wait_mean_s=cells["wait_mean_s"],
            slowdown_mean=cells["slowdown_mean"],
        )
        for team, cells in classes_of(measures, "team").items()
    ]
    teams.sort(key=lambda one: (-(one.jobs or 0.0), one.team))
    return RunSeries(
        name=name,
        seconds=round(measures.end - measures.begin, _DIGITS),
        waits=_rounded(np.quantile(waits, np.linspace(0.0, 1.0, _STEPS + 1))) if len(waits) else [],
        utilisation=_ratios(np.diff(_used_until(measures, edges)), capacity),
        waiting=_ratios(np.diff(_waited_until(measures, edges)), np.diff(edges)),
        fragmentation=_ratios(np.array([one.unusable for one in free]), np.array([one.free for one in free])),
        teams=teams[:_MOST_TEAMS],
        cells=cells_of(measures),
        unfinished=unfinished_of(bundle.tables),
    )


def _used_until(measures: Measures, times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the GPU seconds of runs until each of the times."""
    use = measures.use
    length = use.end - use.begin
    return np.array([float((np.clip(time - use.begin, 0.0, length) * use.gpus).sum()) for time in times])


def _waited_until(measures: Measures, times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of the waits of all jobs until each of the times, from the timeline."""
    timeline = measures.tables.timeline
    moments = timeline["time_s"].to_numpy(zero_copy_only=False).astype(np.float64)
    numbers = timeline["waiting_jobs"].to_numpy(zero_copy_only=False).astype(np.float64)
    if not len(moments):
        return np.zeros(len(times))
    moments = np.append(moments, max(measures.horizon, float(moments[-1])))
    area = np.append(0.0, np.cumsum(np.diff(moments) * numbers))
    found: NDArray[np.float64] = np.interp(times, moments, area)
    return found


def _ratios(parts: NDArray[np.float64], wholes: NDArray[np.float64]) -> list[float | None]:
    """Return the ratios; None where the whole is 0."""
    return [
        round(part / whole, _DIGITS) if whole > 0 else None
        for part, whole in zip(parts.tolist(), wholes.tolist(), strict=True)
    ]


def _rounded(values: NDArray[np.float64]) -> list[float]:
    return [round(value, _DIGITS) for value in values.tolist()]
