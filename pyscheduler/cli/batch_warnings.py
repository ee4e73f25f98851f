"""The warnings of batch profiles about their configuration, for commands that show them themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler.framework.log_capture import captured

if TYPE_CHECKING:
    import logging
    from contextlib import AbstractContextManager

__all__ = ["batch_warnings"]

_LOGGER: Final = "pyscheduler_batch.plugin"
_PREFIX: Final = "Configuration of Batch: "


def batch_warnings() -> AbstractContextManager[list[str]]:
    """Return a context with a list that gets the warnings about the args of `Batch`, which are not logged."""
    return captured(_LOGGER, _warning_of)


def _warning_of(record: logging.LogRecord) -> str | None:
    text = record.getMessage()
    return text.removeprefix(_PREFIX) if text.startswith(_PREFIX) else None
