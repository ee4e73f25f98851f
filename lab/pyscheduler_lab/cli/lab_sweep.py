"""`pyscheduler lab sweep`: run all combinations of the traces, clusters, profiles, weights and seeds in a file."""

from __future__ import annotations

import sys

import click

from pyscheduler.cli.shared_options import logging_options
from pyscheduler_lab.cli.sweep_output import chosen_columns, engine_options, report_problems, run_cells, show_lines

__all__ = ["command"]


@click.command("sweep")
@click.argument("file", metavar="FILE")
@engine_options
@logging_options(default=0)
def command(file: str, out: str, workers: int | None, on: str | None, columns: str) -> None:
    """Run every combination of the traces, clusters, profiles, weights and seeds in FILE, and print one table.

    Each combination, a cell, writes a bundle into DIR. A cell whose bundle is there is not run again, so a sweep that
    was stopped goes on where it was. DIR/table.csv and DIR/table.parquet have the table with all columns.
    docs/how-to/sweep-and-tune.md describes FILE.

    The exit code is 0, 2 for a mistake in FILE, and 3 if a cell failed, a job did not finish or a plugin failed.

    \b
      pyscheduler lab sweep sweep.yaml --out results
      pyscheduler lab sweep sweep.yaml --out results --on ray://head:10001
    """
    from pyscheduler.cli.error_output import exits_after_mistakes
    from pyscheduler_lab.sweep.cells import open_folder
    from pyscheduler_lab.sweep.engines import open_engine
    from pyscheduler_lab.sweep.plan import read_plan
    from pyscheduler_lab.sweep.table import lines_of, write_table

    with exits_after_mistakes(2):
        shown = chosen_columns(columns)
        plan = read_plan(file)
        with open_engine(on, workers) as engine:
            folder = open_folder(out, plan)
            for note in plan.notes:
                click.echo(f"note: {note}", err=True)
            outcomes = run_cells(engine, plan.cells(), folder)
    lines = lines_of(outcomes)
    write_table(lines, folder)
    old = sum(each.is_old for each in outcomes)
    click.echo(f"{len(outcomes)} cells" + (f", {old} of them with a bundle from before" if old else ""))
    show_lines(lines, shown)
    sys.exit(report_problems(outcomes))
