"""`pyscheduler simulate --trace`: replay a trace of jobs, with a line of progress and a table of results."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import attrs
import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyscheduler_lab.simulation.replay import Progress, Replay
    from pyscheduler_lab.simulation.replay_cluster import Fidelity
    from pyscheduler_lab.simulation.replay_report import ReplayReport
    from pyscheduler_lab.traces import Trace
    from pyscheduler_lab.traces.found import Shape

__all__ = ["SimulateOptions", "read_trace", "readable_time", "replay"]

_DAY_SECONDS = 86400.0
#: How many jobs that never ran are named.
_MOST_NAMED = 10


@attrs.frozen(kw_only=True)
class SimulateOptions:
    """The options of `pyscheduler simulate`."""

    files: Sequence[str]
    patterns: Sequence[str]
    wanted: str | None
    trace: str | None
    vc: str | None
    shape: Shape | None
    nodes: str
    config_file: str | None
    feature_gates: str
    max_unschedulable_seconds: float
    output: str
    seed: int
    blocked: Sequence[str]
    batch_cases: str | None = None
    queue_cases: str | None = None
    compare: str | None = None
    quota: str | None = None
    limit: int | None = None
    fidelity: Fidelity = "full"
    merge_vcs: bool = False


def read_trace(options: SimulateOptions, trace: str) -> Trace:
    """Return the trace of `--trace`, and print what the reader left out to standard error."""
    from pyscheduler_lab.traces import Trace

    read = Trace.read(trace, vc=options.vc, merge_vcs=options.merge_vcs, shape=options.shape)
    for note, number in read.notes.items():
        click.echo(f"note: {trace}: {note}: {number}", err=True)
    return read.first(options.limit)


def replay(options: SimulateOptions, trace: str) -> None:
    """Replay a trace and print the results; raise `ConfigError` for a mistake. Exit with 3 if a job never ran."""
    from pyscheduler.cli.error_output import print_line
    from pyscheduler.config.feature_gates import parse
    from pyscheduler.config.load import load
    from pyscheduler.runtime.assembly.discovery import discover
    from pyscheduler.scheduler.assembly import Settings
    from pyscheduler_lab.clusters import Cluster
    from pyscheduler_lab.simulation.replay import Replay
    from pyscheduler_lab.simulation.replay_report import report_as_json

    cluster = Cluster.read(options.nodes)
    read = read_trace(options, trace)
    gates = parse(options.feature_gates)
    played = Replay(
        read.jobs,
        cluster,
        load(options.config_file, gates=gates),
        registry=discover(blocked=options.blocked),
        settings=Settings(feature_gates=gates, max_unschedulable_seconds=options.max_unschedulable_seconds),
        seed=options.seed,
        fidelity=options.fidelity,
    )
    with_progress = _progress_line() if sys.stderr.isatty() else None
    try:
        report = asyncio.run(played.run(with_progress) if with_progress is not None else played.run())
    finally:
        if with_progress is not None:
            click.echo("\r\x1b[K", nl=False, err=True)
    never_ran = played.never_ran()
    if options.output == "json":
        print_line(report_as_json(report, never_ran))
    else:
        _show(report, played)
    if never_ran:
        for name, why in [*never_ran.items()][:_MOST_NAMED]:
            click.echo(f"error: job {name} never ran: {why or 'the pods have no condition'}", err=True)
        if len(never_ran) > _MOST_NAMED:
            click.echo(f"error: {len(never_ran) - _MOST_NAMED} more jobs never ran", err=True)
        sys.exit(3)


def _progress_line() -> Callable[[Progress], object]:
    """Return a function that rewrites one line of the terminal, at most five times a second."""
    from time import monotonic

    last = [0.0]

    def show(progress: Progress) -> None:
        now = monotonic()
        if now - last[0] < 0.2:
            return
        last[0] = now
        text = (
            f"day {progress.time / _DAY_SECONDS:6.1f}   jobs {progress.arrived}/{progress.jobs}"
            f"   waiting {progress.waiting}   finished {progress.finished}"
            f"   GPUs in use {progress.used_gpus}   attempts {progress.attempts}"
        )
        click.echo(f"\r{text}\x1b[K", nl=False, err=True)

    return show


def _show(report: ReplayReport, played: Replay) -> None:
    """Print the table."""
    rows = list(_rows(report, played))
    width = max(len(name) for name, _ in rows)
    for name, text in rows:
        click.echo(f"{name:<{width}}  {text}".rstrip())


def _rows(report: ReplayReport, played: Replay) -> Iterator[tuple[str, str]]:
    yield "jobs", f"{report.finished} of {report.jobs} finished in {readable_time(report.makespan_s)}"
    yield "job completion time", f"mean {readable_time(report.jct_mean_s)}, median {readable_time(report.jct_p50_s)}"
    yield "waiting time", f"mean {readable_time(report.wait_mean_s)}, median {readable_time(report.wait_p50_s)}"
    yield "GPU utilisation", f"{report.gpu_utilisation:.1%}"
    yield "gangs scheduled", f"{report.gangs_scheduled} of {report.gangs}, written in {played.dialect}"
    yield "held by incomplete gangs", f"{report.partial_gpu_seconds / 3600:.2f} GPU-hours"
    yield "deadlocks resolved", str(report.deadlocks_resolved)
    results = ", ".join(f"{number} {result}" for result, number in report.attempts_by_result.items())
    yield "attempts", f"{report.attempts}" + (f" ({results})" if results else "")
    for phase in report.phases:
        text = f"{readable_time(phase.simulated_s)} in {phase.wall_s:.1f} s ({phase.cpu_s:.1f} s of CPU)"
        yield f"phase {phase.name}", f"{text}, {phase.attempts} attempts"
    for kind, number in report.warnings.items():
        yield "warning", f"{number} x {kind}"
    yield "time", f"{report.wall_s:.1f} s"


def readable_time(seconds: float | None) -> str:
    """Return a duration with its largest unit."""
    if seconds is None:
        return "none"
    for unit, size in (("d", _DAY_SECONDS), ("h", 3600.0), ("min", 60.0)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"
