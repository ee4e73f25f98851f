"""The report of a replayed trace: waiting times, completion times and totals."""

from __future__ import annotations

from statistics import fmean, median
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyscheduler_lab.simulation.replay_meter import JobRun

__all__ = ["Phase", "ReplayReport", "completion_times", "mean_and_median", "report_as_json", "waiting_times"]


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a replay: the simulated time, and its cost. Times in seconds."""

    name: str
    simulated_s: float
    attempts: int
    wall_s: float
    cpu_s: float


class ReplayReport(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of a replay. Times in seconds; `_s` of virtual time, except for `wall_s`.

    Completion times (from arrival to end) are over finished jobs, waiting times (from arrival until all workers were
    bound) over started jobs; null without such jobs.
    """

    jobs: int
    finished: int
    #: Completion times.
    jct_mean_s: float | None
    jct_p50_s: float | None
    wait_mean_s: float | None
    wait_p50_s: float | None
    #: Share of all GPUs on which complete jobs ran, from the first arrival to the last end.
    gpu_utilisation: float
    #: GPU time held by workers, bound or reserved, of jobs that did not run yet.
    partial_gpu_seconds: float
    #: Number of jobs with more than one worker, and how many of them ran.
    gangs: int
    gangs_scheduled: int
    deadlocks_resolved: int
    #: Scheduling cycles, in total and by result.
    attempts: int
    attempts_by_result: dict[str, int]
    #: Time from the first arrival to the last end, or until nothing changed any more.
    makespan_s: float
    #: Warnings by kind, as in pyscheduler_warnings_total.
    warnings: dict[str, int]
    phases: list[Phase]
    wall_s: float


def mean_and_median(seconds: Sequence[float]) -> tuple[float | None, float | None]:
    """Return mean and median, to the millisecond; None without values."""
    return (round(fmean(seconds), 3), round(median(seconds), 3)) if seconds else (None, None)


#: The keys of the JSON report. With the same seed, all values but `wall_s` are the same.
_IN_JSON: Final = (
    "jobs",
    "finished",
    "jct_mean_s",
    "jct_p50_s",
    "wait_mean_s",
    "gpu_utilisation",
    "partial_gpu_seconds",
    "deadlocks_resolved",
    "attempts",
    "wall_s",
)


def report_as_json(report: ReplayReport, never_ran: Mapping[str, str]) -> bytes:
    """Return the report as one JSON object; with the jobs that never ran and why they wait, if there are some."""
    told = {name: getattr(report, name) for name in _IN_JSON}
    if never_ran:
        told["never_ran"] = never_ran
    return msgspec.json.format(msgspec.json.encode(told), indent=1)


def completion_times(runs: Sequence[JobRun]) -> list[float]:
    """Return the time of each finished job from arrival to end."""
    return [run.ended - run.arrived for run in runs if run.ended is not None and run.arrived is not None]


def waiting_times(runs: Sequence[JobRun]) -> list[float]:
    """Return the time of each started job from arrival until all workers were bound."""
    return [run.started - run.arrived for run in runs if run.started is not None and run.arrived is not None]
