"""Show the progress of a demo on the terminal, and a table at the end."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click
import numpy as np
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pyscheduler.cli.demo.audit import GPU_PARTS
from pyscheduler.cli.demo.device_audit import GPU
from pyscheduler.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rich.console import RenderableType

    from pyscheduler.cli.demo.audit import Report

__all__ = ["DemoMetrics", "Display", "View", "end_with"]

_PLAIN_EVERY_SECONDS = 2.0


class DemoMetrics(Metrics):
    """Keeps the durations for the summary, in seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.attempts: list[float] = []
        #: Number of attempts that ended with a binding.
        self.bound = 0
        self.waits: list[float] = []
        self.warnings: dict[str, int] = {}
        #: End of the last attempt, by `time.perf_counter`.
        self.last_at = 0.0

    def observe(self, family: str, value: float, *labels: str) -> None:
        """Keep the durations of attempts, and of waits in the queue before them."""
        super().observe(family, value, *labels)
        if family == "scheduler_scheduling_attempt_duration_seconds":
            self.attempts.append(value)
            self.bound += labels[0] == "scheduled"
            self.last_at = time.perf_counter()
        elif family == "pyscheduler_queue_wait_duration_seconds":
            self.waits.append(value)

    def warning(self, kind: str) -> None:
        """Count a warning."""
        super().warning(kind)
        self.warnings[kind] = self.warnings.get(kind, 0) + 1


class Display:
    """The terminal, or plain lines if there is no terminal."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        if not self._console.is_terminal:
            # Lines in a file or a pipe are not wrapped.
            self._console = Console(highlight=False, width=160)
        self._live: Live | None = None
        self._printed = 0.0

    def note(self, text: str) -> None:
        """Print one line."""
        self._console.print(text)

    def show(self, line: str, picture: Callable[[Text], RenderableType] = lambda text: text) -> None:
        """Show progress: on a terminal the full display with the line, otherwise the line every two seconds."""
        if self._console.is_terminal:
            if self._live is None:
                self._live = Live(console=self._console, auto_refresh=False, transient=True)
                self._live.start()
            self._live.update(picture(Text(line)), refresh=True)
        elif time.monotonic() - self._printed >= _PLAIN_EVERY_SECONDS:
            self._printed = time.monotonic()
            self._console.print(line)

    def tabulate(self, rows: Iterable[tuple[str, str]]) -> None:
        """Print a table of names and values."""
        table = Table(show_header=False, box=None, pad_edge=False)
        table.add_column()
        table.add_column()
        for row in rows:
            table.add_row(*row)
        self._console.print(table)

    def close(self) -> None:
        """Restore the terminal."""
        if self._live is not None:
            self._live.stop()
            self._live = None


def end_with(problems: Sequence[str]) -> None:
    """If a check found problems, print the first ones and exit with code 1."""
    if not problems:
        return
    for problem in problems[:20]:
        click.echo(f"error: {problem}", err=True)
    click.echo(f"error: the check found {len(problems)} problems", err=True)
    sys.exit(1)


class View(Display):
    """The display of `pyscheduler demo`."""

    def progress(self, *, bound: int, pending: int, seconds: float) -> None:
        """Show progress."""
        rate = bound / seconds if seconds > 0 else 0.0
        self.show(f"bound {bound:>6}   pending {pending:>6}   {rate:>6.0f} pods/s   {seconds:5.1f} s")

    def summary(self, report: Report, metrics: DemoMetrics, *, seconds: float, peak_kib: int) -> None:
        """Print the summary."""
        rows = [
            ("nodes", f"{report.nodes}"),
            ("pods bound", f"{report.bound}"),
            ("pods unschedulable", f"{report.pending}"),
        ]
        for reason, number in sorted(_grouped(report.reasons).items(), key=lambda item: -item[1]):
            rows.append(("", f"{number} x {reason}"))
        rows += [
            ("throughput", f"{report.bound / max(seconds, 1e-9):.0f} pods/s bound in {seconds:.1f} s"),
            ("time in queue", _quantiles(metrics.waits)),
            ("time of an attempt", _quantiles(metrics.attempts)),
        ]
        for label, name in (
            ("GPU allocated", "openb.io/gpu-milli"),
            ("GPU allocated", GPU_PARTS),
            ("GPUs in use", GPU),
            ("CPU allocated", "cpu"),
            ("memory allocated", "memory"),
        ):
            if report.capacity[name]:
                rows.append((label, f"{float(report.used[name] / report.capacity[name]):.1%}"))
        rows.append(("peak memory of the scheduler", f"{peak_kib / 1024:.0f} MiB"))
        rows += [("warnings", f"{number} x {kind}") for kind, number in sorted(metrics.warnings.items())]
        self.tabulate(rows)


def _grouped(reasons: Mapping[str, int]) -> dict[str, int]:
    """Add up messages that differ only in the order of their reasons; messages list reasons by the number of nodes."""
    found: dict[str, int] = {}
    for reason, number in reasons.items():
        key = ", ".join(sorted(reason.split(", ")))
        found[key] = found.get(key, 0) + number
    return found


def _quantiles(seconds: Sequence[float]) -> str:
    if not seconds:
        return "none"
    p50, p99 = np.percentile(np.asarray(seconds), [50, 99])
    return f"p50 {_readable(p50)}, p99 {_readable(p99)}"


def _readable(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"
