"""How a user's mistake is told: one line each, with the file it was found in."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyscheduler.framework.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["found_in", "lines_of"]


@contextmanager
def found_in(source: str | None) -> Iterator[None]:
    """Name `source` in a `ConfigError` that leaves the block without saying where it was found."""
    try:
        yield
    except ConfigError as error:
        if error.source or not source:
            raise
        raise ConfigError(*error.problems, source=source) from error


def lines_of(error: Exception) -> Sequence[str]:
    """Return one line per mistake, each naming its file."""
    if not isinstance(error, ConfigError):
        return [" ".join(str(error).split())]
    where = f"{error.source}: " if error.source else ""
    return [where + " ".join(problem.split()) for problem in error.problems]
