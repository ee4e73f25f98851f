"""Hide log lines about malformed pods and groups while `kubectl queue` simulates a scheduling round."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyscheduler.framework.log_capture import captured

if TYPE_CHECKING:
    import logging
    from collections.abc import Iterator

__all__ = ["without_repeated_logs"]


@contextmanager
def without_repeated_logs() -> Iterator[None]:
    """Keep back the log lines about malformed pods and about fields of groups; `explain` has both for its job."""
    with (
        captured("pyscheduler.scheduler.event_handlers", _malformed_pod),
        captured("pyscheduler.podgroup.groups", lambda record: record.getMessage()),
    ):
        yield


def _malformed_pod(record: logging.LogRecord) -> str | None:
    text = record.getMessage()
    return text if text.startswith("Ignoring malformed pod ") else None
