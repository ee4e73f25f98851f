"""Collect log records of one logger for the caller, instead of logging them.

`pyscheduler config` collects the warnings of plugins about their args, and prints them beside the configuration.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

__all__ = ["CONFIGURATION_LOGGER", "captured", "configuration_warnings"]

CONFIGURATION_LOGGER: Final = "pyscheduler.configuration"
_PREFIX: Final = "Configuration of "


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


def configuration_warnings() -> AbstractContextManager[list[str]]:
    """Return a context with a list that gets the warnings of plugins about their args, which are not logged."""
    return captured(CONFIGURATION_LOGGER, _warning_of)


def _warning_of(record: logging.LogRecord) -> str | None:
    text = record.getMessage()
    return text.partition(": ")[2] if text.startswith(_PREFIX) else None
