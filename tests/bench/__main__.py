"""`make bench`: measure, and print the numbers beside what they should come to. Nothing is asserted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from tests.bench.rows import FIGURES, Row, growth, rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_GROWTH = Row(
    name="growth",
    what="cycles alone: from the smaller cluster to the larger",
    measure=dict,
    targets={"times": "<= 2.5 times"},
)


def _in_its_own_process(row: Row, *, short: bool) -> dict[str, float]:
    """Measure a row where nothing that ran before has left its traces."""
    arguments = [sys.executable, "-m", "tests.bench", "--row", row.name, *(["--short"] if short else [])]
    done = subprocess.run(arguments, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise click.ClickException(f"{row.name} ended with code {done.returncode}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _table(
    chosen: Sequence[Row], found: Mapping[str, Mapping[str, float]], before: Mapping[str, Mapping[str, float]]
) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("MEASUREMENT", "FIGURE", "VALUE", "TARGET", *(["BEFORE", "CHANGE"] if before else [])):
        table.add_column(heading, justify="right" if heading in {"VALUE", "BEFORE", "CHANGE"} else "left")
    for row in chosen:
        title = row.what
        for key, value in found.get(row.name, {}).items():
            label, form = FIGURES[key]
            cells = [title, label, form.format(value), row.targets.get(key, "")]
            if before:
                old = before.get(row.name, {}).get(key)
                cells += [form.format(old), f"{value / old - 1:+.0%}" if old else ""] if old is not None else ["", ""]
            table.add_row(*cells)
            title = ""
    return table


def _earlier(path: Path | None) -> Mapping[str, Mapping[str, float]]:
    """Return the figures that an earlier `-o json` wrote."""
    if path is None:
        return {}
    try:
        figures: Mapping[str, Mapping[str, float]] = json.loads(path.read_text())["rows"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise click.ClickException(f"{path} holds no earlier result of -o json: {error}") from error
    return figures


@click.command("bench", context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--short", is_flag=True, help="Small sizes, under a minute: the numbers mean nothing, but everything runs."
)
@click.option(
    "--only", metavar="NAME", multiple=True, help="Measure only rows whose name begins with this; repeatable."
)
@click.option("--compare", type=click.Path(path_type=Path), help="Show beside it what an earlier `-o json` wrote.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("--row", "single", hidden=True, help="Measure one row in this process.")
def main(*, short: bool, only: tuple[str, ...], compare: Path | None, output: str, single: str | None) -> None:
    """Measure the scheduler, each row in a process of its own, and print the numbers beside their targets.

    \b
    Before and after a change:
      make bench BENCH_ARGS="-o json" > before.json
      make bench BENCH_ARGS="--compare before.json"
    """  # noqa: D301 - click reads the escape
    known = rows(short=short)
    if single is not None:
        print(json.dumps(next(row for row in known if row.name == single).measure()))
        return
    before = _earlier(compare)
    chosen = [row for row in known if not only or row.name.startswith(only)]
    if not chosen:
        raise click.ClickException(f"no such row; there are {', '.join(row.name for row in known)}")
    found: dict[str, Any] = {}
    for row in chosen:
        click.echo(f"measuring {row.what}", err=True)
        found[row.name] = _in_its_own_process(row, short=short)
    times = growth(found)
    if times is not None:
        found[_GROWTH.name] = times
    if output == "json":
        print(json.dumps({"short": short, "python": sys.version.split()[0], "rows": found}, indent=2))
        return
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=160)
    console.print(_table([*chosen, _GROWTH], found, before))


if __name__ == "__main__":
    main(prog_name="python -m tests.bench")
