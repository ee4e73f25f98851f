"""Text of results: values with their units, tables of aligned columns, and a line that shows the progress."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyscheduler_lab.results.columns import Unit

__all__ = ["curve", "print_columns", "status_line", "text_of", "time_text"]

_UNITS: Final = (("d", 86400.0), ("h", 3600.0), ("min", 60.0))
_BARS: Final = " ▁▂▃▄▅▆▇█"


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
