"""What came of the replay of a trace, as numbers."""

from __future__ import annotations

from statistics import fmean, median
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.simulation.replay_meter import JobRun

__all__ = ["Phase", "ReplayReport", "completion_times", "mean_and_median", "report_as_json", "waiting_times"]


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a replay: how much was simulated in it, and what that cost. Times in seconds."""

    name: str
    simulated_s: float
    attempts: int
    wall_s: float
    cpu_s: float


class ReplayReport(msgspec.Struct, frozen=True, kw_only=True):
    """The sums of a replay. Times in seconds; `_s` of virtual time, but for `wall_s`.

    Those of completion (from arrival to end) are over jobs that have finished, those of waiting (from arrival until all
    workers were bound) over jobs that have started; null where there is none.
    """

    jobs: int
    finished: int
    #: Completion times.
    jct_mean_s: float | None
    jct_p50_s: float | None
    wait_mean_s: float | None
    wait_p50_s: float | None
    #: Of all GPUs, from the first arrival until the last job left, the share on which whole jobs ran.
    gpu_utilisation: float
    #: GPUs held by workers, bound or with a place reserved, of jobs that did not run yet, integrated over time.
    partial_gpu_seconds: float
    #: Jobs of more than one worker, and how many of them ran.
    gangs: int
    gangs_scheduled: int
    deadlocks_resolved: int
    #: Scheduling cycles, and by what came of them.
    attempts: int
    attempts_by_result: dict[str, int]
    #: From the first arrival until the last job left, or nothing moved any more.
    makespan_s: float
    #: What went wrong on the way and was passed over, as in pyscheduler_warnings_total.
    warnings: dict[str, int]
    phases: list[Phase]
    wall_s: float


def mean_and_median(seconds: Sequence[float]) -> tuple[float | None, float | None]:
    """Return both, to the millisecond; None of nothing."""
    return (round(fmean(seconds), 3), round(median(seconds), 3)) if seconds else (None, None)


#: What is told to programs. Of the same seed, all but the last of it is the same, to the byte.
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


def report_as_json(report: ReplayReport) -> bytes:
    """Return what programs are told of it, as one JSON object."""
    return msgspec.json.format(msgspec.json.encode({name: getattr(report, name) for name in _IN_JSON}), indent=1)


def completion_times(runs: Sequence[JobRun]) -> list[float]:
    """Return how long each finished job took, from arrival to end."""
    return [run.ended - run.arrived for run in runs if run.ended is not None and run.arrived is not None]


def waiting_times(runs: Sequence[JobRun]) -> list[float]:
    """Return how long each job that ran had to wait, from arrival until all its workers were bound."""
    return [run.started - run.arrived for run in runs if run.started is not None and run.arrived is not None]
