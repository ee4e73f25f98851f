"""`pyscheduler simulate --trace`: replay a trace of jobs, and print the results as a table."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyscheduler_lab.results.runs import Run, Workload
    from pyscheduler_lab.results.settings import RunSettings, Ties
    from pyscheduler_lab.results.tables import Tables
    from pyscheduler_lab.simulation.replay import Progress
    from pyscheduler_lab.simulation.replay_cluster import Fidelity
    from pyscheduler_lab.traces.found import Shape

__all__ = ["DEFAULT_POLICY", "SimulateOptions", "noted_workload", "progress_line", "replay", "run_settings"]

DEFAULT_POLICY: Final = "default"
"""The policy without `--config`."""

_DAY_SECONDS: Final = 86400.0
_HOUR_SECONDS: Final = 3600.0
#: How many jobs that did not finish are named.
_MOST_NAMED: Final = 10
#: Interval between two updates of the line of progress, in seconds of real time.
_UPDATE_SECONDS: Final = 0.2


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
    trace_columns: str | None = None
    seeds: int | None = None
    ties: Ties = "random"
    watts: str = ""
    failures: str | None = None
    out: str | None = None


def run_settings(options: SimulateOptions, trace: str, **settings: Any) -> RunSettings:
    """Return the settings of a run that the options say, with others in `settings`."""
    from pyscheduler_lab.results.settings import RunSettings

    return RunSettings(
        trace=trace,
        nodes=options.nodes,
        watts=options.watts,
        failures=options.failures,
        vc=options.vc,
        merge_vcs=options.merge_vcs,
        trace_columns=_columns(options.trace_columns),
        shape=options.shape,
        jobs=options.limit,
        ties=options.ties,
        fidelity=options.fidelity,
        feature_gates=options.feature_gates,
        max_unschedulable_seconds=options.max_unschedulable_seconds,
        blocked=tuple(options.blocked),
        **settings,
    )


def _columns(text: str | None) -> dict[str, str]:
    """Read ``arrival=submitted,vc=team``; there are none in None."""
    from pyscheduler.framework.errors import ConfigError

    columns: dict[str, str] = {}
    for part in text.split(",") if text is not None else ():
        name, _, column = (each.strip() for each in part.partition("="))
        if not name or not column or name in columns:
            raise ConfigError(f'--trace-columns: "{part.strip()}" must be like vc=team, and each column is named once')
        columns[name] = column
    return columns


def noted_workload(settings: RunSettings) -> Workload:
    """Return the workload of the settings, and print what the reader of the trace left out to standard error."""
    from pyscheduler_lab.results.runs import read_workload

    workload = read_workload(settings)
    for note, number in workload.notes.items():
        click.echo(f"note: {settings.trace}: {note}: {number}", err=True)
    return workload


def replay(options: SimulateOptions, trace: str) -> None:
    """Replay a trace and print the results; raise `ConfigError` for a mistake.

    Exit with 3 if a job did not finish or a plugin failed.
    """
    from pyscheduler.cli.error_output import print_line
    from pyscheduler.config.feature_gates import parse
    from pyscheduler_lab.results.bundle import new_folder, write_bundle
    from pyscheduler_lab.results.comparison import summary_as_json, summary_of
    from pyscheduler_lab.results.runs import play
    from pyscheduler_lab.simulation.policies import policy_named

    settings = run_settings(options, trace, policy=options.config_file or DEFAULT_POLICY, seed=options.seed)
    policy = policy_named(settings.policy, gates=parse(settings.feature_gates))
    workload = noted_workload(settings)
    folder = new_folder(options.out) if options.out is not None else None
    with progress_line() as progress:
        done = play(workload, policy, settings, progress=progress)
    if folder is not None:
        write_bundle(folder, done, sys.argv)
    summary = summary_of(done)
    if options.output == "json":
        print_line(summary_as_json(summary))
    else:
        _show(summary.cells, done, is_open=bool(summary.unfinished))
    errors = [*_unfinished_lines(done.tables), *map(str, summary.plugin_errors)]
    for line in errors:
        click.echo(f"error: {line}", err=True)
    if errors:
        sys.exit(3)


@contextmanager
def progress_line() -> Iterator[Callable[..., object]]:
    """Yield a function that shows the `Progress` of a run, and optionally its `name`, in the `status_line`."""
    from time import monotonic

    from pyscheduler_lab.cli.result_text import status_line

    last = 0.0

    def show(progress: Progress, *, name: str = "") -> None:
        nonlocal last
        now = monotonic()
        if now - last < _UPDATE_SECONDS:
            return
        last = now
        write(
            f"{name}{': ' if name else ''}day {progress.time / _DAY_SECONDS:6.1f}"
            f"   jobs {progress.arrived}/{progress.jobs}"
            f"   waiting {progress.waiting}   finished {progress.finished}"
            f"   GPUs in use {progress.used_gpus}   attempts {progress.attempts}"
        )

    with status_line() as write:
        yield show


def _unfinished_lines(tables: Tables) -> Iterator[str]:
    """Yield a line for each of the first jobs that did not finish, and how many more there are."""
    from pyscheduler_lab.results.tables import NO_REASON, UNFINISHED, UNSCHEDULABLE

    jobs = tables.jobs.select(["job", "outcome", "reason", "message"]).to_pylist()
    rows = [row for row in jobs if row["outcome"] in UNFINISHED]
    for row in rows[:_MOST_NAMED]:
        what = "never ran" if row["outcome"] == "never_ran" else "did not finish"
        code = "" if row["reason"] == UNSCHEDULABLE else f"{row['reason']}: "
        why = "the pods have no condition" if row["reason"] == NO_REASON else code + row["message"]
        yield f"job {row['job']} {what}: {why}"
    if len(rows) > _MOST_NAMED:
        yield f"{len(rows) - _MOST_NAMED} more jobs did not finish"


def _show(cells: Mapping[str, float | None], done: Run, *, is_open: bool) -> None:
    """Print the table; `is_open`: jobs did not finish."""
    from pyscheduler_lab.cli.result_text import legend

    rows = [*_rows(cells, done, is_open=is_open)]
    width = max(len(name) for name, _ in rows)
    for name, text in rows:
        click.echo(f"{name:<{width}}  {text}".rstrip())
    for line in legend(seeds=1, first="", has_unfinished=is_open):
        click.echo(line)


def _rows(cells: Mapping[str, float | None], done: Run, *, is_open: bool) -> Iterator[tuple[str, str]]:
    from pyscheduler_lab.cli.result_text import row_texts, time_text
    from pyscheduler_lab.results.columns import COLUMNS

    columns = {column.name: column for column in COLUMNS}

    def texts(*names: str) -> list[str]:
        values = [cells[name] for name in names]
        column = columns[names[0]]
        return row_texts(values, column.unit, bounds=[is_open and column.until_end] * len(values))

    def text(name: str) -> str:
        return texts(name)[0]

    def statistics(name: str, suffix: str = "") -> str:
        parts = ("mean", "p50", "p90", "p99")
        return ", ".join(map(" ".join, zip(parts, texts(*(f"{name}_{part}{suffix}" for part in parts)), strict=True)))

    report = done.report
    yield "jobs", f"{text('finished')} of {text('jobs')} finished in {text('makespan_s')}"
    yield "waiting time", statistics("wait", "_s")
    yield "job completion time", statistics("jct", "_s")
    yield "slowdown", statistics("slowdown")
    if cells["fairness"] is not None:
        yield "fairness of teams", text("fairness")
    yield "GPU utilisation", text("gpu_utilisation")
    if cells["cpu_utilisation"] is not None:
        yield "CPU utilisation", text("cpu_utilisation")
    yield "free while jobs waited", f"{text('free_waiting')}; {text('unusable_waiting')} unusable for a typical worker"
    yield "fragmentation", text("fragmentation")
    if cells["share_error_mean"] is not None:
        yield "share error", f"mean {text('share_error_mean')}, p95 {text('share_error_p95')}"
    if cells["evicted_jobs"]:
        lost = f"{text('lost_gpu_hours')} GPU-hours lost, GPU goodput {text('gpu_goodput')}"
        yield "evicted", f"{text('evicted_jobs')} jobs, {lost}"
    if cells["energy_kwh"] is not None:
        yield "energy", f"{text('energy_kwh')} kWh"
    yield "gangs scheduled", f"{text('gangs_scheduled')} of {text('gangs')}"
    yield "held by incomplete gangs", f"{(cells['partial_gpu_seconds'] or 0.0) / _HOUR_SECONDS:.2f} GPU-hours"
    yield "deadlocks resolved", str(report.deadlocks_resolved)
    results = ", ".join(f"{number} {result}" for result, number in report.attempts_by_result.items())
    yield "attempts", f"{report.attempts}" + (f" ({results})" if results else "")
    for phase in report.phases:
        spent = f"{time_text(phase.simulated_s)} in {phase.wall_s:.1f} s ({phase.cpu_s:.1f} s of CPU)"
        yield f"phase {phase.name}", f"{spent}, {phase.attempts} attempts"
    for kind, number in report.warnings.items():
        yield "warning", f"{number} x {kind}"
    for each in report.plugin_errors:
        yield "plugin errors", f"{each.times} x {each.plugin or '-'} at {each.point}"
    yield "time", f"{report.wall_s:.1f} s"
