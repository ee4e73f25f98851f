"""`pyscheduler lab verify`: repeat stored simulations, and compare the new results with the stored ones."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pyscheduler.cli.shared_options import logging_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyscheduler_lab.results.bundle import Bundle

__all__ = ["command"]


@click.command("verify")
@click.argument("folder", metavar="DIR")
@logging_options(default=0)
def command(folder: str) -> None:
    """Run the bundle in DIR again, and compare the new tables with those of the bundle.

    If DIR is the folder of a comparison, all bundles in it are run again. The command also reports files that
    were changed after the run, and traces or policies whose content has changed. A note names each distribution with
    another version or other Python files than in the run, also if the tables are equal.

    The exit code is 0 if everything is equal, 1 if something differs, and 2 if a bundle cannot be read.
    """
    from pyscheduler.cli.error_output import exits_after_mistakes
    from pyscheduler_lab.results.bundle import bundles_in
    from pyscheduler_lab.results.verification import other_code

    with exits_after_mistakes(2):
        bundles = bundles_in(Path(folder))
        differs = False
        notes: dict[str, None] = {}
        for bundle in bundles:
            lines = [*_problems(bundle)]
            differs = differs or bool(lines)
            for line in lines:
                click.echo(f"{bundle.folder}: {line}")
            if not lines:
                click.echo(f"{bundle.folder}: {bundle.tables.jobs.num_rows} jobs, equal")
            notes |= dict.fromkeys(other_code(bundle))
        for line in notes:
            click.echo(f"note: {line}", err=True)
    if differs:
        sys.exit(1)


def _problems(bundle: Bundle) -> Iterator[str]:
    from pyscheduler_lab.cli.simulate_trace import progress_line
    from pyscheduler_lab.results.verification import altered_files, changed_inputs, differences

    yield from altered_files(bundle)
    yield from changed_inputs(bundle)
    with progress_line() as progress:
        found = [*differences(bundle, progress=progress)]
    yield from found
