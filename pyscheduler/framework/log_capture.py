"""Records of a logger that are kept for the caller instead of being logged."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["captured"]


@contextmanager
def captured(logger_name: str, text_of: Callable[[logging.LogRecord], str | None]) -> Iterator[list[str]]:
    """Yield a list that gets the text of each record of one logger; a record without a text (None) is logged."""
    found: list[str] = []

    def is_other(record: logging.LogRecord) -> bool:
        text = text_of(record)
        if text is None:
            return True
        found.append(text)
        return False

    logger = logging.getLogger(logger_name)
    logger.addFilter(is_other)
    try:
        yield found
    finally:
        logger.removeFilter(is_other)
