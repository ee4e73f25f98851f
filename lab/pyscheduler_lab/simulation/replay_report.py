"""The report about a simulation: its duration, and the numbers of jobs, scheduling attempts and errors."""

from __future__ import annotations

import msgspec

__all__ = ["Phase", "PluginErrors", "ReplayReport"]


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a replay: the simulated time, and its cost. Times in seconds."""

    name: str
    simulated_s: float
    attempts: int
    wall_s: float
    cpu_s: float


class PluginErrors(msgspec.Struct, frozen=True, kw_only=True):
    """The errors of one plugin at one extension point; `message` is the first one, with the line that raised it."""

    plugin: str
    point: str
    times: int
    message: str

    def __str__(self) -> str:
        """Return one line: plugin, number of errors, extension point, and the first message."""
        whose = f'plugin "{self.plugin}"' if self.plugin else "code of a plugin"
        return f"{whose} failed at {self.point}, {self.times} x, first with {self.message}"


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
    #: By plugin and extension point, in order. If there are any, the results are not those of the policy.
    plugin_errors: list[PluginErrors]
    phases: list[Phase]
    wall_s: float
