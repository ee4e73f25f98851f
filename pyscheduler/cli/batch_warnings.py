"""The warnings of batch profiles about their configuration, for commands that show them themselves."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["batch_warnings"]

_LOGGER: Final = "pyscheduler_batch.plugin"
_PREFIX: Final = "Configuration of Batch: "


@contextmanager
def batch_warnings() -> Iterator[list[str]]:
    """Yield a list that gets the warnings about the args of `Batch`, which are not logged."""
    found: list[str] = []

    def is_other(record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if not text.startswith(_PREFIX):
            return True
        found.append(text.removeprefix(_PREFIX))
        return False

    logger = logging.getLogger(_LOGGER)
    logger.addFilter(is_other)
    try:
        yield found
    finally:
        logger.removeFilter(is_other)
