"""Counts and cost of a replay."""

from __future__ import annotations

import msgspec

__all__ = ["Phase", "ReplayReport"]


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a replay: the simulated time, and its cost. Times in seconds."""

    name: str
    simulated_s: float
    attempts: int
    wall_s: float
    cpu_s: float


class ReplayReport(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of a replay. With the same seed, all but `phases` and `wall_s` (seconds of real time) are the same."""

    jobs: int
    finished: int
    #: The dialect in which groups were written.
    dialect: str
    deadlocks_resolved: int
    #: Scheduling cycles, in total and by result.
    attempts: int
    attempts_by_result: dict[str, int]
    #: Warnings by kind, as in pyscheduler_warnings_total.
    warnings: dict[str, int]
    phases: list[Phase]
    wall_s: float
