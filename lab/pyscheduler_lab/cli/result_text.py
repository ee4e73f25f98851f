"""Format the results of simulations for the terminal: values with units, columns, bars and progress."""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyscheduler_lab.results.columns import Unit

__all__ = [
    "CHANCE",
    "SAME",
    "curve",
    "equal_runs",
    "legend",
    "print_columns",
    "row_texts",
    "row_writer",
    "status_line",
    "time_text",
    "value_text",
]

_UNITS: Final = (("d", 86400.0), ("h", 3600.0), ("min", 60.0))
_BARS: Final = " ▁▂▃▄▅▆▇█"
#: How many policies a line names.
_MOST_NAMED: Final = 4
_DIGIT: Final = re.compile("[1-9]")
_LAST_ZERO: Final = re.compile(r"0(?=\D*$)")
SAME: Final = "="
"""Stands behind a value that is that of the first policy in every seed."""
CHANCE: Final = "≈"
"""Stands behind a value whose difference to the first policy may be chance, or does not show in the digits."""


def time_text(seconds: float) -> str:
    """Return a duration in its largest unit."""
    return row_texts([seconds], "seconds")[0]


def row_texts(values: Sequence[float | None], unit: Unit, *, bounds: Sequence[bool] = ()) -> list[str]:
    """Return the values of a row (or of a column of figures) in one unit, which the largest one chooses; `-` for None.

    `bounds`: True for each value that is only a lower bound.
    """
    write = row_writer(unit, values)
    return [value_text(value, write, is_bound=is_bound) for value, is_bound in zip_longest(values, bounds)]


def row_writer(
    unit: Unit, values: Iterable[float | None], half_widths: Iterable[float | None] = ()
) -> Callable[[float], str]:
    """Return the function that writes each value of a row in the same unit of time and with as many decimals.

    The largest value chooses the unit. There are two decimals if a value is less than one of this unit.
    """
    known = [abs(value) for value in values if value is not None]
    if unit == "seconds":
        name, size = next((each for each in _UNITS if max(known, default=0.0) >= each[1]), ("s", 1.0))
        decimals = 2 if size > 1.0 and any(0 < value < size for value in known) else 1
        return lambda value: f"{value / size:.{decimals}f} {name}"
    if unit == "share":
        return lambda value: f"{value:.1%}"
    if unit == "number":
        more = (value for value in half_widths if value is not None)
        decimals = 0 if all(float(value).is_integer() for value in chain(known, more)) else 1
        return lambda value: f"{value:.{decimals}f}"
    return lambda value: f"{value:.{2 if unit == 'ratio' else 1}f}"


def value_text(value: float | None, write: Callable[[float], str], *, is_bound: bool | None = False) -> str:
    """Return a value as `write` does; `<0.1 s` where rounding would make 0 of it, `-` for None.

    With `is_bound`, the value is a lower bound, as in `>5.0 min`.
    """
    if value is None:
        return "-"
    text = write(value)
    if is_bound:
        return f">{text}"
    return f"<{_LAST_ZERO.sub('1', text)}" if value and not _DIGIT.search(text) else text


def legend(*, seeds: int, first: str, has_unfinished: bool) -> Iterator[str]:
    """Yield the lines below a table of estimates: its marks, and limits of its numbers. `first`: the first policy."""
    if seeds > 1:
        yield f"{SAME}: the same as {first} in every seed"
        yield f"{CHANCE}: the difference to {first} may be chance (0 is in its 95 % interval), or is too small to show"
        yield "seeds only shuffle jobs that arrive together, and random choices: no interval is about other workloads"
    if has_unfinished:
        yield ">: a lower bound, because jobs that did not finish count until the last event"
        yield "completion time (jct), slowdown and fairness leave out jobs that did not finish"


def equal_runs(runs: Iterable[tuple[str, int, int]]) -> Iterator[str]:
    """Yield a line for the policies of which as many runs are different, if some of their runs are equal.

    `runs`: each policy with its number of runs, and how many of them are different.
    """
    groups: dict[tuple[int, int], list[str]] = {}
    for policy, number, distinct in runs:
        if distinct < number:
            groups.setdefault((number, distinct), []).append(policy)
    for (number, distinct), policies in groups.items():
        what = f"only {distinct} different runs in" if distinct > 1 else "the same run in all"
        more = f" and {len(policies) - _MOST_NAMED} more" if len(policies) > _MOST_NAMED else ""
        yield f"{what} {number} seeds: {'; '.join(policies[:_MOST_NAMED])}{more}"


def curve(values: Iterable[float]) -> str:
    """Return a bar for each value; the highest bar is 1."""
    return "".join(_BARS[min(round(value * (len(_BARS) - 1) + 0.49), len(_BARS) - 1)] for value in values)


def print_columns(rows: Sequence[Sequence[str]]) -> None:
    """Print columns; all but the first one are aligned right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        first, *others = row
        cells = [f"{text:>{width}}" for text, width in zip(others, widths[1:], strict=True)]
        click.echo("  ".join([f"{first:<{widths[0]}}", *cells]).rstrip())


@contextmanager
def status_line() -> Iterator[Callable[[str], object]]:
    """Yield a function that replaces the text of one line of the terminal, and clear the line at the end.

    The function does nothing if standard error is not a terminal.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    try:
        yield lambda text: click.echo(f"\r{text}\x1b[K", nl=False, err=True)
    finally:
        click.echo("\r\x1b[K", nl=False, err=True)
