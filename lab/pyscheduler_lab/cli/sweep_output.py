"""Options and output of `pyscheduler lab sweep` and `lab tune`, which run many simulations and compare the results."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyscheduler_lab.results.columns import Column
    from pyscheduler_lab.sweep.cells import Outcome
    from pyscheduler_lab.sweep.engines import Engine
    from pyscheduler_lab.sweep.plan import Cell
    from pyscheduler_lab.sweep.table import Line

__all__ = ["chosen_columns", "engine_options", "report_problems", "run_cells", "show_lines"]

_COLUMNS: Final = "finished,wait_mean_s,wait_p90_s,jct_mean_s,gpu_utilisation,gpu_goodput,fragmentation"
#: How many cells with unfinished jobs, and how many errors of plugins, are named.
_MOST_NAMED: Final = 10


def engine_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--out`, `--workers`, `--on` and `--columns`."""
    for option in (
        click.option(
            "--columns",
            default=_COLUMNS,
            show_default=True,
            metavar="NAMES",
            help="Columns to print, comma-separated, or all; the files of the table have all of them.",
        ),
        click.option(
            "--on",
            metavar="ray[://HOST:PORT]",
            help="Run the cells on Ray: ray starts it on this machine, an address connects to a Ray cluster. All its "
            "machines need the same files under the same paths.",
        ),
        click.option(
            "--workers",
            type=click.IntRange(min=1),
            metavar="N",
            help="Number of processes; the results do not depend on it. [default: one for each CPU]",
        ),
        click.option("--out", required=True, metavar="DIR", help="Folder of the bundles and of the table."),
    ):
        command = option(command)
    return command


def chosen_columns(text: str) -> Sequence[Column]:
    """Return the columns of `--columns`; raise `ConfigError` for an unknown one."""
    from pyscheduler.framework.errors import ConfigError
    from pyscheduler_lab.results.columns import COLUMNS

    known = {column.name: column for column in COLUMNS}
    names = [*known] if text == "all" else [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise ConfigError(f'--columns: no column "{name}"; known are all, {", ".join(known)}')
    return [known[name] for name in names]


def run_cells(engine: Engine, cells: Sequence[Cell], folder: Path, *, title: str = "") -> list[Outcome]:
    """Return the outcomes of the cells in their order; print failed cells when they end, and a line of progress."""
    from pyscheduler_lab.cli.result_text import status_line
    from pyscheduler_lab.sweep.cells import run_cell

    found: dict[str, Outcome] = {}
    failed = 0
    with status_line() as show:
        show(f"{title}0/{len(cells)} cells")
        for outcome in engine(partial(run_cell, folder=folder, command=tuple(sys.argv)), cells):
            found[outcome.cell.name] = outcome
            if outcome.error:
                failed += 1
                show("")
                click.echo(f"error: {outcome.cell.name}: {outcome.error}", err=True)
            show(f"{title}{len(found)}/{len(cells)} cells" + (f", {failed} failed" if failed else ""))
    return [found[cell.name] for cell in cells]


def show_lines(lines: Sequence[Line], columns: Sequence[Column]) -> None:
    """Print a table for each trace and cluster."""
    from pyscheduler_lab.cli.result_text import equal_runs, legend, print_columns
    from pyscheduler_lab.cli.simulate_compare import estimate_texts

    seeds = max(line.seeds for line in lines)
    if seeds > 1:
        click.echo(f"mean of {seeds} seeds ± half of the 95 % interval of the mean")
    for place in dict.fromkeys((line.place.trace, line.place.cluster) for line in lines):
        group = [line for line in lines if (line.place.trace, line.place.cluster) == place]
        shown = [column for column in columns if any(line.estimates[column.name].mean is not None for line in group)]
        click.echo()
        are_open = [line.unfinished > 0 for line in group]
        figures = [
            estimate_texts([line.estimates[one.name] for line in group], one, has_seeds=seeds > 1, are_open=are_open)
            for one in shown
        ]
        rows = [[line.variant, *(texts[at] for texts in figures)] for at, line in enumerate(group)]
        print_columns([[f"{place[0]} on {place[1]}", *(column.name for column in shown)], *rows])
        marked = seeds if len(group) > 1 else 1
        equal = equal_runs((line.variant, line.seeds, line.distinct) for line in group)
        for text in (*legend(seeds=marked, first=group[0].variant, has_unfinished=any(are_open)), *equal):
            click.echo(text)


def report_problems(outcomes: Sequence[Outcome]) -> int:
    """Print how many cells failed, and the cells with unfinished jobs or errors of plugins.

    Return 3 if there are any, otherwise 0.
    """
    failed = sum(bool(each.error) for each in outcomes)
    unfinished = [each for each in outcomes if each.unfinished]
    for each in unfinished[:_MOST_NAMED]:
        text = f"{each.unfinished} jobs did not finish; jobs.csv of the bundle has the reasons"
        click.echo(f"error: {each.cell.name}: {text}", err=True)
    if len(unfinished) > _MOST_NAMED:
        click.echo(f"error: {len(unfinished) - _MOST_NAMED} more cells have unfinished jobs", err=True)
    plugin_errors = [f"{each.cell.name}: {error}" for each in outcomes for error in each.plugin_errors]
    for line in plugin_errors[:_MOST_NAMED]:
        click.echo(f"error: {line}", err=True)
    if len(plugin_errors) > _MOST_NAMED:
        click.echo(f"error: {len(plugin_errors) - _MOST_NAMED} more errors of plugins", err=True)
    if failed:
        click.echo(f"error: {failed} of {len(outcomes)} cells failed; the same command runs them again", err=True)
    return 3 if failed or unfinished or plugin_errors else 0
