"""Escape control characters in the texts of API objects, before the texts are printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pyscheduler.telemetry.logs import on_one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["echo", "print_json", "printable", "printable_cells"]


def printable(text: str) -> str:
    r"""Return a text without control characters: ESC becomes `^[`, as in kubectl, a line end `\n`."""
    return on_one_line(text.replace("\x1b", "^["))


def printable_cells(rows: Iterable[Sequence[str]]) -> list[tuple[str, ...]]:
    """Return the rows of a table with printable cells. Call it before the widths of the columns are computed."""
    return [tuple(printable(cell) for cell in row) for row in rows]


def echo(line: str, *, err: bool = False) -> None:
    """Print one line to standard output, or with `err` to standard error; escape control characters.

    A line of JSON keeps its meaning: in its strings, only characters occur that JSON may escape in this way.
    """
    click.echo(printable(line), err=err)


def print_json(data: object, *, indent: int = 2) -> None:
    """Print data as JSON, one field a line; escape control characters."""
    import msgspec

    for line in msgspec.json.format(msgspec.json.encode(data), indent=indent).decode().split("\n"):
        echo(line)
