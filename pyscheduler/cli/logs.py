"""How the program logs: one line an event, key=value or JSON, on standard error.

Messages already carry their fields as `key=value`; the JSON form takes them apart, so that both say the same.
"""

from __future__ import annotations

import logging
import re
import sys
from datetime import UTC, datetime
from typing import Final

import msgspec

__all__ = ["configure"]

#: `key=value` or `key="value with spaces"` at the end of a message.
_FIELD: Final = re.compile(r'\s(\w+)=("(?:[^"\\]|\\.)*"|\S*)')


class _KeyValueFormatter(logging.Formatter):
    """`time level logger message key=value ...`."""

    def format(self, record: logging.LogRecord) -> str:
        stamp = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        line = f"{stamp} {record.levelname.lower()} {record.name} {record.getMessage()}"
        if record.exc_info and record.levelno >= logging.ERROR:
            line += "\n" + self.formatException(record.exc_info)
        return line


class _JSONFormatter(logging.Formatter):
    """One JSON object a line: `ts`, `level`, `logger`, `msg`, and the message's fields."""

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        fields = {name: value.strip('"') for name, value in _FIELD.findall(message)}
        entry: dict[str, object] = {
            "ts": record.created,
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": _FIELD.sub("", message),
            **fields,
        }
        if record.exc_info and record.levelno >= logging.ERROR:
            entry["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(entry).decode()


def configure(*, verbosity: int, json: bool) -> None:
    """Send the program's logs to standard error.

    `verbosity` as in kube-scheduler: 0 and 1 warnings, 2 decisions, 4 detail.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JSONFormatter() if json else _KeyValueFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    level = logging.WARNING if verbosity < 2 else logging.INFO if verbosity < 4 else logging.DEBUG
    logging.getLogger("pyscheduler").setLevel(level)
