"""Print errors on the terminal, one line each, and end the program if its output cannot be written."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["exits_after_mistakes", "lines_of", "print_line", "print_mistakes", "unusable_input", "unwritable_output"]

#: The most mistakes that are shown.
_MOST_LINES: Final = 50
#: What a write to a file or a terminal raises, but not a request or the reading of a file.
_WRITE_ERRORS: Final = {errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}


@contextmanager
def unwritable_output() -> Iterator[None]:
    """Exit with code 1 if the output cannot be written, and say why unless the reader of a pipe has closed it."""
    try:
        yield
    except OSError as error:
        if error.errno not in _WRITE_ERRORS:
            raise
        if sys.stdout is not None:
            # The interpreter must not write the rest.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno != errno.EPIPE:
            click.echo(f"error: the output cannot be written: {os.strerror(error.errno).lower()}", err=True)
        sys.exit(1)


@contextmanager
def exits_after_mistakes(code: int) -> Iterator[None]:
    """Print a `PySchedulerError` as lines on standard error, and exit with the code."""
    from kube_objects.errors import PySchedulerError

    try:
        yield
    except PySchedulerError as error:
        print_mistakes(error)
        sys.exit(code)


@contextmanager
def unusable_input() -> Iterator[None]:
    """Exit with code 1 and say why if a file, a name or a nested text from outside cannot be used.

    Where such input is read, clearer messages are possible; this one is for the places that have none.
    """
    try:
        yield
    except (OSError, RecursionError, UnicodeError) as error:
        from pyscheduler.cli.terminal import printable
        from pyscheduler.framework.errors import os_error_text

        why = str(error)
        if isinstance(error, OSError):
            if error.filename is None:
                raise
            why = f"{os.fsdecode(error.filename)}: {os_error_text(error)}"
        elif isinstance(error, RecursionError):
            why = "the input is nested too deeply"
        click.echo(f"error: {printable(why).encode(errors='backslashreplace').decode()}", err=True)
        sys.exit(1)


def print_mistakes(error: Exception) -> None:
    """Print one line per mistake on standard error."""
    for line in lines_of(error):
        click.echo(f"error: {line}", err=True)


def print_line(line: bytes) -> None:
    """Write a line to standard output; raise `OSError` if it is closed."""
    if sys.stdout is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    click.echo(line)


def lines_of(error: Exception) -> Sequence[str]:
    """Return one printable line per mistake, and how many are left out; each begins with the file, if there is one."""
    from pyscheduler.cli.terminal import printable
    from pyscheduler.framework.errors import ConfigError

    if not isinstance(error, ConfigError):
        return [printable(" ".join(str(error).split()))]
    where = f"{error.source}: " if error.source else ""
    lines = [printable(where + " ".join(problem.split())) for problem in error.problems[:_MOST_LINES]]
    left = len(error.problems) - len(lines)
    return [*lines, f"{where}{left} more mistakes"] if left else lines
