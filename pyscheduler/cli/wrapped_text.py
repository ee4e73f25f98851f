"""Print long texts, wrapped at 80 characters."""

from __future__ import annotations

import textwrap
from typing import Final

import click

__all__ = ["WIDTH", "echo_wrapped"]

#: Line width.
WIDTH: Final = 80


def echo_wrapped(text: str, *, indent: int, hanging: int = 4) -> None:
    """Print a text in lines of at most `WIDTH` characters; later lines begin after `hanging` spaces."""
    wrapper = textwrap.TextWrapper(
        width=WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * hanging,
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    )
    click.echo(wrapper.fill(text))
