"""Compare the mean results of policies (scheduler profiles) over several seeds, with 95 % confidence intervals.

A seed changes the order of simultaneous jobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import attrs
import msgspec
import numpy as np

from pyscheduler_lab.results.columns import (
    COLUMNS,
    Cells,
    Column,
    Unfinished,
    cells_of,
    classes_of,
    series_of,
    unfinished_of,
)
from pyscheduler_lab.results.intervals import bootstrap_interval, student_interval
from pyscheduler_lab.results.tables import UNFINISHED
from pyscheduler_lab.simulation.replay_report import PluginErrors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyscheduler_lab.results.runs import Run

__all__ = [
    "Estimate",
    "HasCells",
    "PolicyResult",
    "Summary",
    "distinct_runs",
    "estimate",
    "estimates",
    "results_as_json",
    "results_of",
    "summary_as_json",
    "summary_of",
]


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of one run, without its tables."""

    policy: str
    seed: int
    cells: Cells
    team_wait_mean_s: dict[str, float | None]
    #: Share error in equal parts of the time; None without queues.
    share_error_series: list[float] | None
    unfinished: list[Unfinished]
    #: The teams of these jobs.
    unfinished_teams: frozenset[str]
    deadlocks_resolved: int
    attempts: int
    plugin_errors: list[PluginErrors]
    wall_s: float


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """The mean of a column over seeds, and the ends of its 95 % interval; None with too few values."""

    mean: float | None
    #: By Student's t.
    low: float | None
    high: float | None
    bootstrap_low: float | None
    bootstrap_high: float | None
    #: Of the difference to the first policy, seed by seed; None for the first policy.
    difference: float | None = None
    difference_low: float | None = None
    difference_high: float | None = None
    difference_bootstrap_low: float | None = None
    difference_bootstrap_high: float | None = None

    @property
    def half_width(self) -> float | None:
        """Return half of the width of the interval; None without one."""
        return (self.high - self.low) / 2 if self.low is not None and self.high is not None else None

    @property
    def may_be_chance(self) -> bool:
        """Return True if the interval of the difference to the first policy contains 0 and other values."""
        low, high = self.difference_low, self.difference_high
        return low is not None and high is not None and low <= 0.0 <= high and low < high

    @property
    def is_same(self) -> bool:
        """Return True if the values of several seeds are all equal to those of the first policy."""
        return self.difference_low == self.difference_high == 0.0


class HasCells(Protocol):
    """A run with its columns of results, or without them if it failed."""

    @property
    def cells(self) -> Cells | None:
        """Columns of results by name."""


@attrs.frozen(kw_only=True)
class PolicyResult:
    """The runs of one policy, one for each seed."""

    policy: str
    runs: Sequence[Summary]


def summary_of(run: Run) -> Summary:
    """Return the numbers of a run."""
    measures = run.measures
    return Summary(
        policy=run.settings.policy,
        seed=run.settings.seed,
        cells=cells_of(measures),
        team_wait_mean_s={team: cells["wait_mean_s"] for team, cells in classes_of(measures, "team").items()},
        share_error_series=series_of(measures),
        unfinished=unfinished_of(run.tables),
        unfinished_teams=frozenset(
            each["team"] for each in run.tables.jobs.to_pylist() if each["outcome"] in UNFINISHED
        ),
        deadlocks_resolved=run.report.deadlocks_resolved,
        attempts=run.report.attempts,
        plugin_errors=run.report.plugin_errors,
        wall_s=run.report.wall_s,
    )


def results_of(summaries: Iterable[Summary]) -> list[PolicyResult]:
    """Return the result of each policy, in the order of their first runs."""
    by_policy: dict[str, list[Summary]] = {}
    for one in summaries:
        by_policy.setdefault(one.policy, []).append(one)
    return [PolicyResult(policy=policy, runs=runs) for policy, runs in by_policy.items()]


def summary_as_json(summary: Summary) -> bytes:
    """Return the numbers of one run as one JSON object: its columns, its counts, and why jobs did not finish."""
    return msgspec.json.format(msgspec.json.encode(_as_object(summary)), indent=1)


def results_as_json(results: Sequence[PolicyResult], quotas: Mapping[str, int]) -> bytes:
    """Return a comparison as one JSON object: quotas by team, and the results in order.

    With one seed, a result has a number for each column; with several, an estimate and the numbers of all seeds.
    """
    found = {"quotas": quotas, "policies": [_result(each, results[0]) for each in results]}
    return msgspec.json.format(msgspec.json.encode(found), indent=1)


def _result(result: PolicyResult, first: PolicyResult) -> dict[str, Any]:
    if len(result.runs) == 1:
        (run,) = result.runs
        return {"policy": result.policy, **_of_comparison(run)}
    return {
        "policy": result.policy,
        "seeds": [run.seed for run in result.runs],
        **estimates(result.runs, first.runs),
        "runs": [_of_comparison(run) for run in result.runs],
    }


def _of_comparison(run: Summary) -> dict[str, Any]:
    series = {"team_wait_mean_s": run.team_wait_mean_s, "share_error_series": run.share_error_series}
    return _as_object(run) | series


def _as_object(summary: Summary) -> dict[str, Any]:
    cells = {column.name: _number(summary.cells[column.name], column) for column in COLUMNS}
    return {
        **cells,
        "deadlocks_resolved": summary.deadlocks_resolved,
        "attempts": summary.attempts,
        "unfinished": summary.unfinished,
        "plugin_errors": summary.plugin_errors,
        "wall_s": summary.wall_s,
    }


def _number(value: float | None, column: Column) -> float | None:
    """Return a value as JSON has it: a number of things is a whole number."""
    return int(value) if value is not None and column.unit == "number" else value


def distinct_runs(runs: Iterable[HasCells]) -> int:
    """Return how many runs differ in at least one column; runs that failed do not count."""
    return len({tuple(each.cells.values()) for each in runs if each.cells is not None})


def estimates(runs: Sequence[HasCells], first: Sequence[HasCells]) -> Mapping[str, Estimate]:
    """Return the estimate of each column from runs by seed; differences are those to the runs `first`."""

    def values(group: Sequence[HasCells], column: str) -> list[float | None]:
        return [each.cells[column] if each.cells is not None else None for each in group]

    return {
        column.name: estimate(values(runs, column.name), None if runs is first else values(first, column.name))
        for column in COLUMNS
    }


def estimate(values: Sequence[float | None], others: Sequence[float | None] | None = None) -> Estimate:
    """Return the estimate from one value for each seed; seeds without a value are left out."""
    found = _with_intervals([value for value in values if value is not None], "mean", "")
    if others is not None:
        pairs = [(a, b) for a, b in zip(values, others, strict=True) if a is not None and b is not None]
        found |= _with_intervals([a - b for a, b in pairs], "difference", "difference_")
    return Estimate(**found)


def _with_intervals(values: Sequence[float], name: str, prefix: str) -> dict[str, float | None]:
    """Return the fields of an estimate: the mean under `name`, and the ends of both intervals."""
    array = np.array(values)
    low, high = student_interval(array)
    bootstrap_low, bootstrap_high = bootstrap_interval(array)
    return {
        name: float(array.mean()) if values else None,
        f"{prefix}low": low,
        f"{prefix}high": high,
        f"{prefix}bootstrap_low": bootstrap_low,
        f"{prefix}bootstrap_high": bootstrap_high,
    }
