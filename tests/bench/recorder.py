"""What the benchmark notes of a run."""

from __future__ import annotations

from pyscheduler.framework.recorder import NullRecorder

__all__ = ["BenchRecorder"]


class BenchRecorder(NullRecorder):
    """Keeps the length of scheduling algorithm runs (`attempts`) and counts warnings."""

    def __init__(self) -> None:
        self.attempts: list[float] = []
        self.warnings: dict[str, int] = {}

    def algorithm(self, seconds: float) -> None:
        """Note one run, in seconds."""
        self.attempts.append(seconds)

    def warning(self, kind: str) -> None:
        """Count a warning."""
        self.warnings[kind] = self.warnings.get(kind, 0) + 1
