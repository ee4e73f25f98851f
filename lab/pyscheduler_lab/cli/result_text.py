"""Text of results: values with units, and tables; also a line that shows the progress."""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyscheduler_lab.results.columns import Unit

__all__ = [
    "CHANCE",
    "SAME",
    "bound_text",
    "curve",
    "half_width_text",
    "legend",
    "print_columns",
    "status_line",
    "text_of",
    "time_text",
]

_UNITS: Final = (("d", 86400.0), ("h", 3600.0), ("min", 60.0))
_BARS: Final = " ▁▂▃▄▅▆▇█"
_DIGIT: Final = re.compile("[1-9]")
_LAST_ZERO: Final = re.compile(r"0(?=\D*$)")
SAME: Final = "="
"""Stands behind a value that is that of the first policy in every seed."""
CHANCE: Final = "≈"
"""Stands behind a value whose difference to the first policy may be chance."""


def time_text(seconds: float | None) -> str:
    """Return a duration in its largest unit; `-` for None."""
    if seconds is None:
        return "-"
    for unit, size in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def text_of(value: float | None, unit: Unit) -> str:
    """Return a value with its unit; `-` for None."""
    if value is None:
        return "-"
    if unit == "seconds":
        return time_text(value)
    if unit == "share":
        return f"{value:.1%}"
    if unit == "number":
        return f"{value:.0f}" if value.is_integer() else f"{value:.1f}"
    return f"{value:.2f}" if unit == "ratio" else f"{value:.1f}"


def half_width_text(value: float | None, unit: Unit) -> str:
    """Return half of the width of an interval; `<0.1 s` where rounding would make 0 of it, and `-` for None."""
    text = text_of(value, unit)
    return f"<{_LAST_ZERO.sub('1', text)}" if value and not _DIGIT.search(text) else text


def bound_text(text: str, *, is_bound: bool) -> str:
    """Return a value as text; with `is_bound`, as a lower bound."""
    return f">{text}" if is_bound and text != "-" else text


def legend(*, seeds: int, first: str, has_unfinished: bool) -> Iterator[str]:
    """Yield the lines below a table of estimates: its marks, and limits of its numbers. `first`: the first policy."""
    if seeds > 1:
        yield f"{SAME}: the same as {first} in every seed"
        yield f"{CHANCE}: the difference to {first} has 0 in its 95 % interval, and may be chance"
        yield "seeds only shuffle jobs that arrive together, and random choices: no interval is about other workloads"
    if has_unfinished:
        yield ">: a lower bound, because jobs that did not finish count until the last event"
        yield "completion time (jct), slowdown and fairness leave out jobs that did not finish"


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
