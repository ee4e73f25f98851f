"""`make bench`: run each benchmark in a new process, and print the figures beside their targets."""

from __future__ import annotations

import asyncio
import json
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console
from rich.table import Table

from benchmarks import cases, foreign, page, report, results
from benchmarks.rows import (
    MODES,
    SPECS,
    Row,
    case_row,
    named_rows,
    program_rows,
    setting_of,
    standard_names,
)
from benchmarks.targets import derive

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.report import Sheet

#: The longest rows take a few minutes. One that takes so long has lost its end.
_LIMIT_SECONDS: Final = 1800


def _in_its_own_process(row: Row, options: Sequence[str]) -> dict[str, Any] | None:
    """Measure a row where nothing that ran before has left its traces; None if that failed or did not end in time."""
    arguments = [sys.executable, "-m", "benchmarks", "--row", row.name, *options]
    done = subprocess.run(arguments, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        return None
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def measure_within(row: Row, seconds: int) -> dict[str, Any]:
    """Measure a row in this process, at most for so many seconds.

    The alarm acts like an interrupt, so that the row stops its servers. Raises `ClickException`.
    """
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(seconds)
    try:
        return row.measure()
    except KeyboardInterrupt:
        raise click.ClickException(f"{row.name} was interrupted, or did not end within {seconds} s") from None
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _cpu_of_rows() -> float:
    """Return the CPU seconds of all processes that measured so far, with those of their servers."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _show(console: Console, title: str, sheet: Sheet) -> None:
    if not sheet.rows:
        return
    table = Table(box=None, pad_edge=False, header_style="bold", title=title, title_justify="left")
    for place, heading in enumerate(sheet.headings):
        table.add_column(heading.upper(), justify="left" if place < sheet.left else "right")
    for cells in sheet.rows:
        table.add_row(*cells)
    console.print(table)
    console.print()


def _print(chosen: Sequence[Row], found: dict[str, dict[str, Any]], before: dict[str, dict[str, Any]]) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=220)
    _show(console, "Cases", report.case_sheet(found, before))
    for name, figures in found.items():
        if figures.get("phases"):
            _show(console, f"CPU seconds per 1,000 pods: {name}", report.phase_sheet({name: figures}))
    _show(console, "Targets", report.target_sheet(found))
    _show(console, "Missed", report.unmet_sheet(found))
    programs = [row for row in chosen if not report.is_case(row.name)]
    _show(console, "Besides", report.program_sheet(programs, found, before))


def _chooser(wanted: Sequence[str]) -> Callable[[str], bool]:
    """Return what tells whether a case or row was asked for; all are where nothing was said."""
    return lambda name: not wanted or any(name.startswith((one, f"Scheduling{one}")) for one in wanted)


def _rows(names: Sequence[str], *, short: bool, chosen: Callable[[str], bool], **keywords: Any) -> list[Row]:
    made = [_row(name, short=short, **keywords) for name in names]
    return [*made, *(row for row in program_rows(short=short) if chosen(row.name))]


def _row(name: str, *, short: bool, **keywords: Any) -> Row:
    setting = setting_of(name, **keywords)
    if setting is not None:
        return case_row(name, setting, short=short)
    return next(row for row in program_rows(short=short) if row.name == name)


def _is_a_row(name: str, *, kubeconfig: Path | None) -> bool:
    setting = setting_of(name)
    return setting is not None and (setting.mode == "cluster") == (kubeconfig is not None)


#: What does not go together: options that say, each in its way, what is measured, and where.
_CONTRADICTIONS: Final = {
    "--write": ("--short", "--targets", "--scale", "--case", "--compare", "--save", "--kubeconfig", "--list"),
    "--targets": ("--nodes", "--mode", "--specs", "--pods", "--kubeconfig"),
    "--scale": ("--nodes", "--mode", "--specs", "--pods", "--kubeconfig"),
    "--kubeconfig": ("--mode",),
}


def _refuse_contradictions(given: Mapping[str, object]) -> None:
    """Refuse what would be passed over without a word."""
    for option, others in _CONTRADICTIONS.items():
        for other in others:
            if given[option] and given[other]:
                raise click.UsageError(f"{option} and {other} do not go together")
    if given["--among-other-nodes"] and not given["--kubeconfig"]:
        raise click.UsageError("--among-other-nodes is about the cluster of a --kubeconfig")


@click.command("bench", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--short", is_flag=True, help="Small sizes, under two minutes: the numbers mean nothing, but all runs.")
@click.option(
    "--case", "wanted", metavar="NAME", multiple=True, help="Only cases and rows whose name begins so; repeatable."
)
@click.option("--nodes", type=click.IntRange(1), multiple=True, help="Size of the cluster; repeatable.")
@click.option("--mode", "modes", type=click.Choice(MODES[:3]), multiple=True, help="Without HTTP, or over it.")
@click.option("--specs", type=click.Choice(SPECS), multiple=True, help="Pods of one spec, or of 500.")
@click.option("--pods", type=click.IntRange(1), help="Measured pods in a round, instead of as many as the case has.")
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="Measure on that cluster, with nodes made for it.")
@click.option("--among-other-nodes", is_flag=True, help="The cluster may have nodes of its own.")
@click.option("--compare", type=click.Path(path_type=Path), help="Show beside it what an earlier run found.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("--save", type=click.Path(path_type=Path), help="Put the results into that file, beside those of others.")
@click.option("--targets", is_flag=True, help="The rows with targets, the most important first: twenty minutes.")
@click.option("--scale", is_flag=True, help="The rows of the curves and of the table in README: twenty minutes more.")
@click.option("--write", is_flag=True, help="Measure nothing: write docs/performance.md and README's table anew.")
@click.option("--list", "listing", is_flag=True, help="Measure nothing: print the names of the rows.")
@click.option("--row", "single", hidden=True, help="Measure one row in this process.")
def main(  # noqa: PLR0913 - as many as there are options
    *,
    short: bool,
    wanted: tuple[str, ...],
    nodes: tuple[int, ...],
    modes: tuple[str, ...],
    specs: tuple[str, ...],
    pods: int | None,
    kubeconfig: Path | None,
    among_other_nodes: bool,
    compare: Path | None,
    output: str,
    save: Path | None,
    targets: bool,
    scale: bool,
    write: bool,
    listing: bool,
    single: str | None,
) -> None:
    """Measure the scheduler, each row in a process of its own, and print the numbers beside their targets.

    All of it takes hours; `--list` shows what there is, and the other options choose.

    \b
    One case, before and after a change:
      make bench BENCH_ARGS="--case SchedulingBasic --nodes 5000 --mode cycle -o json" > before.json
      make bench BENCH_ARGS="--case SchedulingBasic --nodes 5000 --mode cycle --compare before.json"
    The numbers of docs/performance.md; a run that is broken off keeps what it had:
      make bench BENCH_ARGS="--targets --scale --save benchmarks/measured.json"
      make bench BENCH_ARGS=--write
    --write marks rows that are older than 300 commits, and refuses to write if
    a row could not be measured the last time.
    """  # noqa: D301 - click reads the escape
    place: dict[str, Any] = {"kubeconfig": str(kubeconfig) if kubeconfig else None, "shared": among_other_nodes}
    asked = {
        "--short": short,
        "--targets": targets,
        "--scale": scale,
        "--case": wanted,
        "--nodes": nodes,
        "--mode": modes,
        "--specs": specs,
        "--pods": pods,
        "--kubeconfig": kubeconfig,
        "--among-other-nodes": among_other_nodes,
    }
    _refuse_contradictions({**asked, "--compare": compare, "--save": save, "--write": write, "--list": listing})
    if write:
        page.write(results.mark_stale(results.CARRIED))
        return
    if single is not None:
        print(json.dumps(measure_within(_row(single, short=short, **place), _LIMIT_SECONDS)))
        return
    chosen = _chooser(wanted)
    asked_modes = ("cluster",) if kubeconfig is not None else modes
    if targets or scale:
        wanted_names = named_rows(targets=targets, scale=scale, short=short)
        rows = [_row(name, short=short, **place) for name in wanted_names if chosen(name)]
    else:
        names = standard_names(short=short, chosen=chosen, nodes=nodes, modes=asked_modes, specs=specs, pods=pods)
        # A row by its whole name, as the page has it, is measured as that says, usual or not.
        names = [*names, *(one for one in wanted if _is_a_row(one, kubeconfig=kubeconfig) and one not in names)]
        # Sizes, modes and specs are what cases have; asked for one, whoever wants the others names them.
        sizes = nodes or asked_modes or specs or pods
        besides = chosen if kubeconfig is None and (wanted or not sizes) else lambda _: False
        rows = _rows(names, short=short, chosen=besides, **place)
    if not rows:
        known = [*cases.all_cases(), *(row.name for row in program_rows(short=short) if kubeconfig is None)]
        raise click.ClickException(f"no such case; there are {', '.join(known)}")
    if listing:
        print("\n".join(row.name for row in rows))
        return
    before = results.rows(compare)
    if kubeconfig is not None:
        asyncio.run(foreign.check(place["kubeconfig"], shared=among_other_nodes))
    command = _command(asked)
    _run(rows, short=short, place=place, before=before, output=output, save=save, command=command)


def _run(
    chosen: Sequence[Row],
    *,
    short: bool,
    place: Mapping[str, Any],
    before: dict[str, dict[str, Any]],
    output: str,
    save: Path | None,
    command: str,
) -> None:
    options = ["--short"] if short else []
    options += ["--kubeconfig", place["kubeconfig"]] if place["kubeconfig"] else []
    options += ["--among-other-nodes"] if place["shared"] else []
    found: dict[str, dict[str, Any]] = {}
    failed: list[str] = []
    for row in chosen:
        click.echo(f"measuring {row.what}", err=True)
        begun, cpu = time.perf_counter(), _cpu_of_rows()
        figures = _in_its_own_process(row, options)
        click.echo(f"  {time.perf_counter() - begun:.0f} s, {_cpu_of_rows() - cpu:.0f} s of CPU", err=True)
        if figures is None:
            failed.append(row.name)
            if save is not None:
                results.save_failure(save, row.name, command=command)
            continue
        found[row.name] = figures
        derive(found)
        if save is not None:
            # At once: what was measured is kept, whatever becomes of the rest.
            results.save(save, {row.name: found[row.name]}, command=command)
    if output == "json":
        print(json.dumps(results.made(found, short=short, command=command), indent=2))
    else:
        _print(chosen, found, before)
    if failed:
        raise click.ClickException(f"could not be measured: {', '.join(failed)}")


def _command(wanted: Mapping[str, Any]) -> str:
    """Return the command that measures this again, as `make` takes it, without what is done with the results."""
    arguments = []
    for option, value in wanted.items():
        for one in value if isinstance(value, tuple) else (value,):
            if one is True:
                arguments.append(option)
            elif one:
                arguments += [option, "FILE" if option == "--kubeconfig" else str(one)]
    return f'make bench BENCH_ARGS="{" ".join(arguments)}"' if arguments else "make bench"


if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
