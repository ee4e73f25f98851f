"""`pyscheduler lab tune`: search for better weights of a profile's Score plugins."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from pyscheduler.cli.shared_options import logging_options
from pyscheduler_lab.cli.sweep_output import chosen_columns, engine_options, report_problems, run_cells, show_lines

if TYPE_CHECKING:
    from pyscheduler_lab.results.comparison import Estimate
    from pyscheduler_lab.sweep.cells import Outcome
    from pyscheduler_lab.sweep.tuning import Search

__all__ = ["command"]


@click.command("tune")
@click.argument("file", metavar="FILE")
@engine_options
@logging_options(default=0)
def command(file: str, out: str, workers: int | None, on: str | None, columns: str) -> None:
    """Search for weights of a profile's Score plugins that minimise or maximise a column of results.

    FILE is that of a sweep with one trace, cluster and profile, ranges of weights, and an objective. Optuna proposes
    the weights of each trial. The best ones are compared with the untuned profile on seeds that the search did not
    use, and printed as a part of a profile. Each run writes a bundle into DIR, so a search that was stopped goes on
    where it was. docs/how-to/sweep-and-tune.md describes FILE.

    The exit code is 0, 2 for a mistake in FILE, and 3 if a cell failed, or if a job did not finish or a plugin failed
    under the best weights.

    \b
      pyscheduler lab tune tune.yaml --out results
    """
    from pyscheduler.cli.error_output import exits_after_mistakes
    from pyscheduler_lab.sweep.cells import open_folder
    from pyscheduler_lab.sweep.engines import open_engine
    from pyscheduler_lab.sweep.table import lines_of, write_table
    from pyscheduler_lab.sweep.tuning import read_search, snippet, trials_of

    best, value = None, 0.0
    failed: list[Outcome] = []
    with exits_after_mistakes(2):
        shown = chosen_columns(columns)
        search = read_search(file)
        with open_engine(on, workers) as engine:
            folder = open_folder(out, search.plan)
            for trial in trials_of(
                search,
                lambda cells, number: run_cells(
                    engine, cells, folder, title=f"trial {number + 1}/{search.goal.trials}: "
                ),
            ):
                failed += [each for each in trial.outcomes if each.error]
                if trial.value is not None and (best is None or search.is_better(trial.value, value)):
                    best, value = trial, trial.value
            if best is None:
                click.echo(f"error: no trial has a value of {search.column}", err=True)
                sys.exit(3)
            seeds = search.other_seeds
            cells = [*search.cells({}, seeds), *search.cells(best.weights, seeds)]
            outcomes = run_cells(engine, cells, folder, title="comparison: ")
    lines = lines_of(outcomes)
    write_table(lines, folder)
    click.echo(f"best of {search.goal.trials} trials: number {best.number + 1}\n\n{snippet(best.weights)}\n")
    click.echo(
        f"compared with the untuned profile on {len(seeds)} seeds that the search did not use, from {seeds[0]} on:"
    )
    show_lines(lines, shown)
    click.echo(f"\n{_verdict(search, lines[1].estimates[search.column])}")
    sys.exit(report_problems([*failed, *outcomes]))


def _verdict(search: Search, found: Estimate) -> str:
    """Return whether the weights are better than those of the profile, as far as the seeds tell."""
    from pyscheduler_lab.cli.result_text import row_writer
    from pyscheduler_lab.results.columns import UNITS

    difference, low, high = found.difference, found.difference_low, found.difference_high
    if difference is None:
        return f"{search.column}: no value to compare"

    write = row_writer(UNITS[search.column], (difference, low, high))

    def signed(value: float) -> str:
        if UNITS[search.column] == "share":
            return f"{100 * value:+.1f} points"
        return ("-" if value < 0 else "+") + write(abs(value))

    if difference == 0.0 and low == high:
        return f"{search.column}: no difference to the untuned profile"
    text = f"{search.column}: {signed(difference)} against the untuned profile"
    if low is None or high is None:
        return f"{text}; one seed says nothing about chance, so give more seeds"
    text = f"{text}, 95 % interval {signed(low)} to {signed(high)}"
    if low <= 0 <= high:
        return f"{text}: the difference may be chance; keep the weights of the profile"
    return f"{text}: the tuned weights are {'better' if search.is_better(difference, 0.0) else 'worse'}"
