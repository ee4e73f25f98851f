"""How the program logs: one line an event, key=value or JSON, on standard error.

Messages carry their fields as `key=value` already. A value with spaces or quotes in it is quoted here, as JSON quotes
it, so that a line can always be taken apart again; the JSON form does just that, and so both say the same.
"""

from __future__ import annotations

import logging
import re
import sys
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from pyscheduler.api.times import format_micro_time

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["configure", "set_verbosity"]

_PACKAGE: Final = "pyscheduler"

#: A place for an argument in a message; `value` where it is the value of a field.
_PLACE: Final = re.compile(r'%%|(?P<value>=)?(?P<open>"?)(?P<form>%[-#0 +]*\d*(?:\.\d+)?[a-z])(?P<close>"?)')
#: What cannot stand for itself after `key=`.
_NEEDS_QUOTES: Final = re.compile(r'[\s"=\\\x00-\x1f\x7f-\x9f\u2028\u2029]|^$')
#: What moves to another line, or the terminal's cursor.
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
#: Text in the middle of a message that would be taken for a field of it.
_LIKE_A_FIELD: Final = re.compile(r"(^|\s)(\w+)=")
_NO_FIELD: Final = r"\1\2\\u003d"
#: The longest value in a line, in characters.
_LIMIT: Final = 2000
_NUMBERS: Final = (int, float, bool)
#: The least `-v` at which lines of a level, and of those above it, are shown; and that of all others.
_VERBOSITIES: Final = ((logging.WARNING, 0), (logging.INFO, 2))
_DETAIL: Final = 4
#: `key=value` or `key="value with spaces"`.
_FIELD: Final = re.compile(r'(?:^|\s)(\w+)=("(?:[^"\\]|\\.)*"|[^\s"]+)(?=\s|$)')


class _KeyValueFormatter(logging.Formatter):
    """`time level logger message key=value ...`."""

    def format(self, record: logging.LogRecord) -> str:
        stamp = format_micro_time(record.created)
        line = f"{stamp} {record.levelname.lower()} {record.name} {_message(record)}"
        if record.exc_info and record.levelno >= logging.ERROR:
            # Lines that go on begin with a tab: the text of an error could look like a line of its own.
            line += "".join(f"\n\t{_on_one_line(each)}" for each in self.formatException(record.exc_info).splitlines())
        return line


class _JSONFormatter(logging.Formatter):
    """One JSON object a line, with the fields of Kubernetes' components: `ts`, `caller`, `msg`, `v`, `err` and its own.

    `ts` is in milliseconds. `v` is the least `-v` at which the line is shown; errors have none. `level` and `logger`
    are additions. Source: component-base, logs/json.
    """

    def format(self, record: logging.LogRecord) -> str:
        numbers: dict[int, object] = {}
        message = _message(record, numbers)
        entry: dict[str, object] = {
            "ts": round(record.created * 1000, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "caller": f"{'/'.join(record.pathname.rsplit('/', 2)[-2:])}:{record.lineno}",
            "msg": _FIELD.sub("", message),
        }
        if record.levelno < logging.ERROR:
            entry["v"] = next((v for level, v in _VERBOSITIES if record.levelno >= level), _DETAIL)
        for field in _FIELD.finditer(message):
            name, value = field.groups()
            entry.setdefault(name, numbers.get(field.start(2), _unquoted(value)))
        if record.exc_info and record.levelno >= logging.ERROR:
            entry.setdefault("err", str(record.exc_info[1]))
            entry["exception"] = self.formatException(record.exc_info)
        return _on_one_line(msgspec.json.encode(entry).decode())


def _message(record: logging.LogRecord, numbers: dict[int, object] | None = None) -> str:
    """Return the message with its arguments in place, those of fields quoted where they must be.

    `numbers` gets the values that are numbers or truths, by their place in the message.
    """
    if not isinstance(record.args, tuple) or not record.args:
        return _on_one_line(_cut(record.getMessage()))
    try:
        return _filled(_template(str(record.msg)), record.args, numbers)
    except (TypeError, ValueError, StopIteration):
        return _on_one_line(_cut(record.getMessage()))


@lru_cache(maxsize=1024)
def _template(message: str) -> tuple[str | re.Match[str], ...]:
    """Take a message apart into text and places; the program has few, and says some of them thousands of times."""
    parts: list[str | re.Match[str]] = []
    end = 0
    for place in _PLACE.finditer(message):
        parts += [message[end : place.start()], place if place["form"] is not None else "%"]
        end = place.end()
    return (*parts, message[end:])


def _filled(parts: tuple[str | re.Match[str], ...], args: tuple[object, ...], numbers: dict[int, object] | None) -> str:
    arguments = iter(args)
    filled = ""
    for part in parts:
        if isinstance(part, str):
            filled += _on_one_line(part)
            continue
        is_value, opened, form, closed = part.groups()
        value = next(arguments)
        text = _cut(form % (value,))
        if is_value is None:
            filled += _on_one_line(f"{opened}{_LIKE_A_FIELD.sub(_NO_FIELD, text)}{closed}")
            continue
        if numbers is not None and not opened and type(value) in _NUMBERS:
            numbers[len(filled) + 1] = value if type(value) is bool else _number(text)
        filled += f"={_quoted(text)}" if opened or _NEEDS_QUOTES.search(text) else _on_one_line(f"={text}")
    return filled


def _number(text: str) -> object:
    """Return a number as it was written, with as many places; the text where JSON has no such number."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _cut(text: str) -> str:
    """Return as much of a text as a line can bear, in characters that can be written: users write what they like."""
    if len(text) > _LIMIT:
        text = f"{text[:_LIMIT]}... ({len(text)} characters)"
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def _on_one_line(text: str) -> str:
    """Return a text that ends no line and moves no cursor: what users write must not look like a line of ours."""
    if text.isprintable():
        return text
    return _CONTROL.sub(lambda found: _SHORT.get(found[0]) or f"\\u{ord(found[0]):04x}", text)


def _quoted(text: str) -> str:
    return _on_one_line(msgspec.json.encode(text).decode())


def _unquoted(value: str) -> str:
    if not value.startswith('"'):
        return value
    try:
        return msgspec.json.decode(value, type=str)
    except msgspec.DecodeError:
        return value[1:-1]


def configure(
    *, verbosity: int, json: bool, vmodule: Mapping[str, int] | None = None, split_stream: bool = False
) -> None:
    """Send the program's logs to standard error; with `split_stream`, to standard output what is no error.

    `verbosity` as in kube-scheduler: 0 and 1 warnings, 2 decisions, 4 detail. `vmodule` has other levels for modules
    whose name matches a pattern: its last part (`scheduling_cycle`), or, with a slash in the pattern, its end
    (`queue/*`).
    """
    formatter = _JSONFormatter() if json else _KeyValueFormatter()
    errors = logging.StreamHandler(sys.stderr)
    handlers = [errors]
    if split_stream:
        errors.setLevel(logging.ERROR)
        rest = logging.StreamHandler(sys.stdout)
        rest.addFilter(lambda record: record.levelno < logging.ERROR)
        handlers.append(rest)
    for handler in handlers:
        handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = handlers
    root.setLevel(logging.WARNING)
    set_verbosity(verbosity)
    _set_module_levels(vmodule or {})


def set_verbosity(verbosity: int) -> None:
    """Log so much from now on."""
    logging.getLogger(_PACKAGE).setLevel(_level(verbosity))


def _level(verbosity: int) -> int:
    return logging.WARNING if verbosity < 2 else logging.INFO if verbosity < 4 else logging.DEBUG


def _set_module_levels(vmodule: Mapping[str, int]) -> None:
    """Give modules that match a pattern their own level: those that are there, and those that will be imported."""

    class Logger(logging.Logger):
        def __init__(self, name: str, level: int = logging.NOTSET) -> None:
            super().__init__(name, _own_level(name, vmodule) or level)

    logging.setLoggerClass(Logger if vmodule else logging.Logger)
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger) and name.startswith(f"{_PACKAGE}."):
            logger.setLevel(_own_level(name, vmodule) or logging.NOTSET)


def _own_level(name: str, vmodule: Mapping[str, int]) -> int | None:
    if not name.startswith(f"{_PACKAGE}."):
        return None
    path = name.replace(".", "/")
    for pattern, verbosity in vmodule.items():
        found = fnmatchcase(path, f"*/{pattern}") if "/" in pattern else fnmatchcase(path.rpartition("/")[2], pattern)
        if found:
            return _level(verbosity)
    return None
