"""Format log records as lines: text with key=value fields, or JSON."""

from __future__ import annotations

import logging
import re
import sys
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from kube_objects.times import format_micro_time

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["configure", "on_one_line", "set_verbosity"]

#: The packages of the program; the verbosity concerns those of plugins, too, as in kube-scheduler.
_PACKAGES: Final = ("pyscheduler", "kube_testserver")
#: The logger of changes in the stories of pods, which is named for readers of the lines.
_DECISION: Final = "decision"

#: A placeholder in a message; group `value` matches for the value of a field.
_PLACE: Final = re.compile(r'%%|(?P<value>=)?(?P<open>"?)(?P<form>%[-#0 +]*\d*(?:\.\d+)?[a-z])(?P<close>"?)')
#: Characters because of which a value is quoted.
_NEEDS_QUOTES: Final = re.compile(r'[\s"=\\\x00-\x1f\x7f-\x9f\u2028\u2029]|^$')
#: Characters that start a new line or move the terminal's cursor.
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
#: A word inside a message that looks like a field, without punctuation at its end.
_LIKE_A_FIELD: Final = re.compile(r"(?:(?<=\s)|^)\w+=\S*?(?=[,;:.]*(?:\s|$))")
#: Maximum length of a value, in characters.
_LIMIT: Final = 2000
_NUMBERS: Final = (int, float, bool)
#: The least `-v` at which lines of a level and above are shown; and that of all other lines.
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
            line += f" exception={_quoted(_encodable(self.formatException(record.exc_info)))}"
        return line


class _JSONFormatter(logging.Formatter):
    """One JSON object a line, with the fields of Kubernetes' components: `ts`, `caller`, `msg`, `v`, `err` and its own.

    `ts` is in milliseconds. `v` is the least `-v` at which the line is shown; errors have no `v`. `level` and `logger`
    are additions.

    Source: component-base, logs/json.
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
            entry.setdefault("err", _error_text(record.exc_info[1]))
            entry["exception"] = _encodable(self.formatException(record.exc_info))
        return on_one_line(msgspec.json.encode(entry).decode())


def _error_text(error: BaseException | None) -> str:
    from pyscheduler.framework.errors import text_of  # noqa: PLC0415 - commands that only print import no framework

    return _cut(text_of(error)) if error is not None else ""


def _message(record: logging.LogRecord, numbers: dict[int, object] | None = None) -> str:
    """Return the message with its arguments filled in; values of fields are quoted if necessary.

    `numbers` receives the values that are numbers or booleans, by their position in the message.
    """
    if not isinstance(record.args, tuple) or not record.args:
        return on_one_line(_cut(record.getMessage()))
    try:
        return _filled(_template(str(record.msg)), record.args, numbers)
    except (TypeError, ValueError, StopIteration):
        return on_one_line(_cut(record.getMessage()))


@lru_cache(maxsize=1024)
def _template(message: str) -> tuple[str | re.Match[str], ...]:
    """Split a message into text and placeholders. The program has few messages, so the results are cached."""
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
            filled += on_one_line(part)
            continue
        is_value, opened, form, closed = part.groups()
        value = next(arguments)
        text = _cut(form % (value,))
        if is_value is None:
            # A word that looks like a field gets quotes, so that no program takes it for one.
            text = _LIKE_A_FIELD.sub(lambda word: _quoted(word[0]), text)
            filled += on_one_line(f"{opened}{text}{closed}")
            continue
        if numbers is not None and not opened and type(value) in _NUMBERS:
            numbers[len(filled) + 1] = value if type(value) is bool else _number(text)
        filled += f"={_quoted(text)}" if opened or _NEEDS_QUOTES.search(text) else on_one_line(f"={text}")
    return filled


def _number(text: str) -> object:
    """Return a number with the same digits as in the text; the text if JSON has no such number."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _cut(text: str) -> str:
    """Cut a text to the maximum length and escape characters that cannot be encoded."""
    if len(text) > _LIMIT:
        text = f"{text[:_LIMIT]}... ({len(text)} characters)"
    return _encodable(text)


def _encodable(text: str) -> str:
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def on_one_line(text: str) -> str:
    """Escape line ends and control characters, so that text of users cannot look like a log line."""
    if text.isprintable():
        return text
    return _CONTROL.sub(lambda found: _SHORT.get(found[0]) or f"\\u{ord(found[0]):04x}", text)


def _quoted(text: str) -> str:
    return on_one_line(msgspec.json.encode(text).decode())


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
    """Send the program's logs to standard error; with `split_stream`, lines below error level to standard output.

    `verbosity` is kube-scheduler's: 0 and 1 warnings, 2 decisions, 4 details. `vmodule` sets the verbosity of modules
    that match a pattern: by the last part of the name (`scheduling_cycle`) or, if the pattern has a slash, by its end
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
    """Set the verbosity from now on."""
    for package in _packages():
        logging.getLogger(package).setLevel(_level(verbosity))


def _packages() -> list[str]:
    """Return the packages that the verbosity concerns: the program's, and those of all installed plugins."""
    from pyscheduler.runtime.assembly.discovery import plugin_packages  # noqa: PLC0415 - commands that log are few

    return [*_PACKAGES, _DECISION, *plugin_packages()]


def _level(verbosity: int) -> int:
    return logging.WARNING if verbosity < 2 else logging.INFO if verbosity < 4 else logging.DEBUG


def _set_module_levels(vmodule: Mapping[str, int]) -> None:
    """Set the level of modules that match a pattern, both imported ones and those imported later."""

    class Logger(logging.Logger):
        def __init__(self, name: str, level: int = logging.NOTSET) -> None:
            super().__init__(name, _own_level(name, vmodule) or level)

    logging.setLoggerClass(Logger if vmodule else logging.Logger)
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger) and _is_known(name):
            level = _own_level(name, vmodule)
            # The level of `decision` is that of the program, as `set_verbosity` has set it: no package is above it.
            # `setLevel` has all loggers forget which levels they have found enabled.
            if (level is not None or name != _DECISION) and logger.level != (level or logging.NOTSET):
                logger.setLevel(level or logging.NOTSET)


def _is_known(name: str) -> bool:
    """Return whether a logger is of a module below one of the packages that the verbosity concerns."""
    package, _, module = name.partition(".")
    return name == _DECISION or (bool(module) and package in _packages())


def _own_level(name: str, vmodule: Mapping[str, int]) -> int | None:
    if not _is_known(name):
        return None
    path = name.replace(".", "/")
    for pattern, verbosity in vmodule.items():
        found = fnmatchcase(path, f"*/{pattern}") if "/" in pattern else fnmatchcase(path.rpartition("/")[2], pattern)
        if found:
            return _level(verbosity)
    return None
