"""`pyscheduler lab reproduce`: run a published experiment again, and print its results beside the published ones."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler_lab.reproduction.fgd import Row

__all__ = ["command"]

#: The exit code if a mean is not within its tolerance, or the order is another.
_DIFFERENT = 4


@click.command("reproduce")
@click.argument("experiment", type=click.Choice(["fgd"]))
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    help="Number of orders of the tasks and nodes.",
)
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True, help="Number of processes.")
@click.option(
    "--list",
    "lists",
    multiple=True,
    default=("default",),
    show_default=True,
    type=click.Choice(["default", "cpu050", "gpushare100", "gpuspec33", "multigpu50"]),
    help="Task list; repeatable.",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    type=click.Choice(["Random", "DotProd", "GpuClustering", "GpuPacking", "BestFit", "FGD"]),
    help="Policy; repeatable.  [default: all]",
)
@click.option("--out", metavar="DIR", help="Write the results of each run and the comparison to a new folder, as CSV.")
def command(
    experiment: str,  # noqa: ARG001 - there is one
    seeds: int,
    workers: int,
    lists: Sequence[str],
    policies: Sequence[str],
    out: str | None,
) -> None:
    """Run a published experiment again, with the scheduler and plugins that ship.

    `fgd` is the packing experiment of the FGD paper (USENIX ATC 2023): the tasks of the openb cluster arrive in random
    order until they request 130 % of its GPUs, under six policies. The table has the mean share of GPUs that tasks got.
    The published means are of ten other orders.

    The exit code is 4 if a mean on the default list differs by more than its tolerance, or the policies have another
    order there.
    """
    from pyscheduler_lab.cli.result_text import status_line
    from pyscheduler_lab.reproduction.fgd import compare, is_in_order, run_all, write
    from pyscheduler_lab.reproduction.packing import POLICIES
    from pyscheduler_lab.results.bundle import new_folder

    folder = new_folder(out) if out is not None else None
    chosen = [policy for policy in POLICIES if policy in policies or not policies]
    with status_line() as show:
        tasks = list(dict.fromkeys(lists))
        runs = run_all(tasks, chosen, seeds, workers=workers, progress=lambda done, of: show(f"{done}/{of} runs"))
    rows = compare(runs)
    _show(rows)
    if folder is not None:
        write(folder, runs, rows)
    default = [row for row in rows if row.tasks == "default"]
    if not (all(row.is_close for row in default) and is_in_order(default)):
        sys.exit(_DIFFERENT)


def _show(rows: Sequence[Row]) -> None:
    from pyscheduler_lab.reproduction.fgd import is_in_order

    click.echo("GPUs that tasks got, in percent; arrived: requested GPUs, in percent; differences in points\n")
    click.echo(
        f"{'tasks':<12} {'arrived':>7}  {'policy':<14} {'published':>9} {'ours':>7} {'difference':>10}  tolerance"
    )
    for row in rows:
        beyond = "" if row.is_close else "  beyond"
        click.echo(
            f"{row.tasks:<12} {row.level:>7}  {row.policy:<14} {row.published:>9.2f} {row.ours:>7.2f} "
            f"{row.difference:>+10.2f}  {row.tolerance:g}{beyond}"
        )
    seeds = max(row.seeds for row in rows)
    order = "the same" if is_in_order(rows) else "another"
    click.echo(f"\nmeans of {seeds} orders; order of the policies: {order}")
