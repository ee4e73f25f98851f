"""How the program logs: one line an event, key=value or JSON, on standard error.

Messages carry their fields as `key=value` already. A value with spaces or quotes in it is quoted here, as JSON quotes
it, so that a line can always be taken apart again; the JSON form does just that, and so both say the same.
"""

from __future__ import annotations

import logging
import re
import sys
from datetime import UTC, datetime
from typing import Final

import msgspec

__all__ = ["configure"]

#: A place for an argument in a message; `value` where it is the value of a field.
_PLACE: Final = re.compile(r'%%|(?P<value>=)?(?P<open>"?)(?P<form>%[-#0 +]*\d*(?:\.\d+)?[a-z])(?P<close>"?)')
#: What cannot stand for itself after `key=`.
_NEEDS_QUOTES: Final = re.compile(r'[\s"=\\]|^$')
#: `key=value` or `key="value with spaces"`.
_FIELD: Final = re.compile(r'(?:^|\s)(\w+)=("(?:[^"\\]|\\.)*"|[^\s"]+)(?=\s|$)')


class _KeyValueFormatter(logging.Formatter):
    """`time level logger message key=value ...`."""

    def format(self, record: logging.LogRecord) -> str:
        stamp = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        line = f"{stamp} {record.levelname.lower()} {record.name} {_message(record)}"
        if record.exc_info and record.levelno >= logging.ERROR:
            line += "\n" + self.formatException(record.exc_info)
        return line


class _JSONFormatter(logging.Formatter):
    """One JSON object a line: `ts`, `level`, `logger`, `msg`, and the message's fields."""

    def format(self, record: logging.LogRecord) -> str:
        message = _message(record)
        entry: dict[str, object] = {
            "ts": record.created,
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": _FIELD.sub("", message),
        }
        if record.exc_info and record.levelno >= logging.ERROR:
            entry["exception"] = self.formatException(record.exc_info)
        for name, value in _FIELD.findall(message):
            entry.setdefault(name, _unquoted(value))
        return msgspec.json.encode(entry).decode()


def _message(record: logging.LogRecord) -> str:
    """Return the message with its arguments in place, those of fields quoted where they must be."""
    if not isinstance(record.args, tuple) or not record.args:
        return record.getMessage()
    arguments = iter(record.args)

    def fill(place: re.Match[str]) -> str:
        if place["form"] is None:
            return "%"
        text = place["form"] % (next(arguments),)
        if place["value"] is None:
            return f"{place['open']}{text}{place['close']}"
        return f"={_quoted(text)}" if place["open"] or _NEEDS_QUOTES.search(text) else f"={text}"

    try:
        return _PLACE.sub(fill, str(record.msg))
    except (TypeError, ValueError, StopIteration):
        return record.getMessage()


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _unquoted(value: str) -> str:
    if not value.startswith('"'):
        return value
    try:
        return msgspec.json.decode(value, type=str)
    except msgspec.DecodeError:
        return value[1:-1]


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
