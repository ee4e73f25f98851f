"""Errors as lines for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler.framework.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["lines_of"]


def lines_of(error: Exception) -> Sequence[str]:
    """Return one line per mistake; each begins with the file, where the error names one."""
    if not isinstance(error, ConfigError):
        return [" ".join(str(error).split())]
    where = f"{error.source}: " if error.source else ""
    return [where + " ".join(problem.split()) for problem in error.problems]
