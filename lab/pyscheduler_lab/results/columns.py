"""The numbers that describe a simulation's results, such as the mean wait, each with unit, meaning and computation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import attrs
import msgspec
import numpy as np

from pyscheduler_lab.results.measures import SHORTEST_SECONDS, Measures
from pyscheduler_lab.results.tables import UNFINISHED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler_lab.results.share_error import ShareError
    from pyscheduler_lab.results.tables import Tables

__all__ = [
    "COLUMNS",
    "PARTS",
    "UNITS",
    "Cells",
    "Column",
    "Unfinished",
    "Unit",
    "cells_of",
    "classes_of",
    "series_of",
    "unfinished_of",
]

Unit: TypeAlias = Literal["number", "seconds", "share", "ratio", "GPU-seconds", "GPU-hours", "kWh"]
Cells: TypeAlias = "dict[str, float | None]"

PARTS: Final = 48
"""Number of parts of the time for which the share error is reported."""

_HOUR: Final = 3600.0
#: Digits after the point, as in the tables.
_DIGITS: Final = 6


@attrs.frozen(kw_only=True)
class Column:
    """A column. `compute` returns None where a run has no such number.

    A column `of_jobs` can also be computed for a part of the jobs. If a job did not finish, a column `until_end` has a
    lower bound: that job counts until the last event, and would have waited longer.
    """

    name: str
    unit: Unit
    meaning: str
    compute: Callable[[Measures], float | None]
    of_jobs: bool = True
    until_end: bool = False


def _mean(values: NDArray[np.float64]) -> float | None:
    return float(values.mean()) if len(values) else None


def _percentile(values: NDArray[np.float64], percent: int) -> float | None:
    return float(np.percentile(values, percent)) if len(values) else None


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _statistics(
    name: str, unit: Unit, what: str, values: Callable[[Measures], NDArray[np.float64]], *, until_end: bool = False
) -> list[Column]:
    """Return the mean and the percentiles of a quantity of jobs."""
    suffix = "_s" if unit == "seconds" else ""
    mean = Column(
        name=f"{name}_mean{suffix}",
        unit=unit,
        meaning=f"mean {what}",
        compute=lambda found: _mean(values(found)),
        until_end=until_end,
    )
    percentiles = [
        Column(
            name=f"{name}_p{percent}{suffix}",
            unit=unit,
            meaning=f"{percent}th percentile of the same, interpolated between jobs",
            compute=lambda found, percent=percent: _percentile(values(found), percent),  # type: ignore[misc]  # a default
            until_end=until_end,
        )
        for percent in (50, 90, 99)
    ]
    return [mean, *percentiles]


def _fairness(found: Measures) -> float | None:
    """Return Jain's index of the mean slowdowns of the teams."""
    teams, which = np.unique(found.finished_teams, return_inverse=True)
    if len(teams) < 2:
        return None
    means = np.bincount(which, weights=found.slowdowns) / np.bincount(which)
    return float(means.sum() ** 2 / (len(means) * (means**2).sum()))


def _of_share_error(name: str, meaning: str, compute: Callable[[ShareError], float]) -> Column:
    def computed(found: Measures) -> float | None:
        return compute(found.share_error) if found.share_error is not None else None

    return Column(name=name, unit="share", meaning=meaning, compute=computed, of_jobs=False)


COLUMNS: Final[Sequence[Column]] = (
    Column(
        name="jobs",
        unit="number",
        meaning="jobs that arrived",
        compute=lambda found: float(found.counted.sum()),
    ),
    Column(
        name="finished",
        unit="number",
        meaning="jobs that ended",
        compute=lambda found: float(len(found.completions)),
    ),
    *_statistics(
        "wait",
        "seconds",
        "time of a job from its arrival to its end in which it did not run. Waits after evictions count. For a job "
        "that did not finish, the time until the last event of the replay counts, so the value is a lower bound: "
        "tables show it as `>5.0 min`",
        lambda found: found.waits,
        until_end=True,
    ),
    *_statistics(
        "jct", "seconds", "time of a finished job from its arrival to its end", lambda found: found.completions
    ),
    *_statistics(
        "slowdown",
        "ratio",
        f"completion time of a finished job over its duration, which counts as at least {SHORTEST_SECONDS:g} s",
        lambda found: found.slowdowns,
    ),
    Column(
        name="fairness",
        unit="ratio",
        meaning="Jain's index of the mean slowdowns of the teams' finished jobs: (sum of x)² / (teams · sum of x²). It "
        "is 1 if all teams have the same slowdown; teams without a finished job are left out",
        compute=_fairness,
    ),
    Column(
        name="gpu_utilisation",
        unit="share",
        meaning="GPU time of all runs, over the GPU time of all nodes; runs that an eviction ended count",
        compute=lambda found: _ratio(found.used_gpu_seconds(), found.capacity_gpu_seconds()),
    ),
    Column(
        name="gpu_goodput",
        unit="share",
        meaning="GPU time of the runs that no eviction ended, over the GPU time of all nodes: `gpu_utilisation` "
        "without lost work",
        compute=lambda found: _ratio(found.kept_gpu_seconds(), found.capacity_gpu_seconds()),
    ),
    Column(
        name="cpu_utilisation",
        unit="share",
        meaning="CPU time that the workers of all runs request, over the CPU time of all nodes. Only if no job of the "
        "trace requests GPUs",
        compute=lambda found: found.cpu_utilisation(),
    ),
    Column(
        name="free_waiting",
        unit="share",
        meaning="GPU time that was free while a job that requests GPUs waited, over the GPU time of all nodes",
        compute=lambda found: _ratio(found.node_time.free_waiting, found.node_time.capacity),
        of_jobs=False,
    ),
    Column(
        name="fragmentation",
        unit="share",
        meaning="share of the free GPU time on nodes where a typical worker does not fit. A typical worker is drawn at "
        "random from all workers of the trace that request GPUs. It fits if the node has enough GPUs, CPU and memory "
        "left; labels and the division into devices do not count",
        compute=lambda found: _ratio(found.node_time.unusable, found.node_time.free),
        of_jobs=False,
    ),
    Column(
        name="unusable_waiting",
        unit="share",
        meaning="the part of `free_waiting` on nodes where a typical worker does not fit, over the GPU time of all "
        "nodes. If it is most of `free_waiting`, placement keeps jobs waiting; if it is little, the order of jobs, "
        "quotas or groups do",
        compute=lambda found: _ratio(found.node_time.unusable_waiting, found.node_time.capacity),
        of_jobs=False,
    ),
    _of_share_error(
        "share_error_mean",
        "missing GPUs (fair share - GPUs in use), summed over teams, over all GPUs; mean over time. Only with queues "
        "and GPUs",
        lambda error: error.mean(),
    ),
    _of_share_error("share_error_p95", "95th percentile of the same over time", lambda error: error.percentile(95)),
    Column(
        name="evicted_jobs",
        unit="number",
        meaning="runs of jobs that an eviction ended",
        compute=lambda found: float((found.run_lost & found.counted[found.run_job]).sum()),
    ),
    Column(
        name="lost_gpu_hours",
        unit="GPU-hours",
        meaning="GPU time of the runs that an eviction ended",
        compute=lambda found: found.lost_gpu_seconds() / _HOUR,
    ),
    Column(
        name="partial_gpu_seconds",
        unit="GPU-seconds",
        meaning="GPU time that bound or reserved pods held before their job ran (`held_gpus` of the timeline)",
        compute=lambda found: found.held_gpu_seconds(),
        of_jobs=False,
    ),
    Column(
        name="gangs",
        unit="number",
        meaning="jobs with several workers",
        compute=lambda found: float(found.is_gang.sum()),
    ),
    Column(
        name="gangs_scheduled",
        unit="number",
        meaning="jobs with several workers that ran",
        compute=lambda found: float((found.is_gang & found.has_run).sum()),
    ),
    Column(
        name="energy_kwh",
        unit="kWh",
        meaning="energy of the nodes: `idle_watts` of each node, and `gpu_watts` for each GPU of its pods. Nodes "
        "without watts count as nothing",
        compute=lambda found: found.energy_kwh(),
        of_jobs=False,
    ),
    Column(
        name="makespan_s",
        unit="seconds",
        meaning="time from the first arrival to the last end of a job",
        compute=lambda found: found.end - found.begin,
        of_jobs=False,
    ),
)
"""All columns in the order of the table."""

UNITS: Final[Mapping[str, Unit]] = {column.name: column.unit for column in COLUMNS}
"""Unit of each column."""


class Unfinished(msgspec.Struct, frozen=True, kw_only=True):
    """The number of jobs that did not finish for one reason; the message is that of the first job."""

    outcome: str
    reason: str
    jobs: int
    message: str


def cells_of(measures: Measures, *, of_jobs: bool = False) -> Cells:
    """Return the value of each column; with `of_jobs`, of those that exist for a part of the jobs."""
    return {column.name: _rounded(column.compute(measures)) for column in COLUMNS if column.of_jobs or not of_jobs}


def classes_of(measures: Measures, column: str) -> dict[str, Cells]:
    """Return the cells of the jobs with each value of `column` (`class` or `team`), in the order of the values."""
    values = np.array(measures.tables.jobs[column].to_pylist(), dtype=np.str_)
    return {str(value): cells_of(measures.only(values == value), of_jobs=True) for value in np.unique(values)}


def series_of(measures: Measures) -> list[float] | None:
    """Return the share error in `PARTS` equal parts of the window; None without queues."""
    error = measures.share_error
    return [round(value, _DIGITS) for value in error.series(PARTS)] if error is not None else None


def unfinished_of(tables: Tables) -> list[Unfinished]:
    """Return why jobs did not finish, the most frequent reason first; jobs that run without an end are not listed."""
    jobs = tables.jobs
    columns = (jobs[name].to_pylist() for name in ("outcome", "reason", "message"))
    messages: dict[tuple[str, str], list[str]] = {}
    for outcome, reason, message in zip(*columns, strict=True):
        if outcome in UNFINISHED:
            messages.setdefault((outcome, reason or ""), []).append(message or "")
    return [
        Unfinished(outcome=outcome, reason=reason, jobs=len(found), message=found[0])
        for (outcome, reason), found in sorted(messages.items(), key=lambda item: -len(item[1]))
    ]


def _rounded(value: float | None) -> float | None:
    return round(value, _DIGITS) if value is not None else None
