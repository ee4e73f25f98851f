"""Read YAML with the rules of Go's YAML library for unquoted text.

For example, `on` is a boolean, `1e3` is a number, and `1:30` is text.
Differs from kube-scheduler: a second document in the file is rejected rather than ignored.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

import attrs
import yaml

from pyscheduler.config.problems import Path, Problem
from pyscheduler.framework.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Document", "Scalar", "read", "resolve"]

Scalar = str | int | float | bool | None

#: libyaml is seven times as fast; a PyYAML built without it gives the same result.
_Loader: Final[type] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_TAG: Final = "tag:yaml.org,2002:"
_WORDS: Final[dict[str, Scalar]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
#: A float with underscores between the digits of its fraction.
_SPLIT_FRACTION: Final = re.compile(r"\.[0-9]+(_[0-9]+)+([eE][-+]?[0-9]+)?")
_BASES: Final = (
    (re.compile(r"[-+]?0[xX][0-9a-fA-F]+"), 16),
    (re.compile(r"[-+]?0[oO]?[0-7]+"), 8),
    (re.compile(r"[-+]?0[bB][01]+"), 2),
    # Python refuses to convert thousands of digits; twenty are enough for 64 bits.
    (re.compile(r"[-+]?(0|[1-9][0-9]{0,19})"), 10),
)
_HALF: Final = 2**63
#: Deeper than any configuration, and shallow enough for recursive code that reads the result.
_DEEPEST: Final = 100
#: Maximum number of values in a document; values repeated by aliases count each time.
_MOST_VALUES: Final = 1_000_000


@attrs.frozen
class Document:
    """The content of a text, and its duplicate keys, which are mistakes that do not prevent reading."""

    root: object
    problems: tuple[Problem, ...]


def read(text: str) -> Document:
    """Return the content of `text`; raise `ConfigError` with one line for invalid YAML."""
    reader = _Reader()
    try:
        for event in _events(text):
            reader.take(event)
    except yaml.MarkedYAMLError as error:
        context = f" ({error.context})" if error.context else ""
        _fail(error.problem_mark, f"{error.problem or 'not YAML'}{context}")
    except yaml.reader.ReaderError as error:
        # libyaml's column counts bytes.
        before = text.encode()[: error.position].decode(errors="ignore")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        raise ConfigError(f"line {line}, column {column}: {error.reason}") from error
    return Document(reader.root, tuple(reader.problems))


def resolve(text: str) -> Scalar:
    """Return the value of a plain scalar in Go's YAML 1.1 library."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    plain = text if text[0] == "." and not _SPLIT_FRACTION.fullmatch(text) else text.replace("_", "")
    for pattern, base in _BASES:
        if pattern.fullmatch(plain):
            number = int(plain.lower().replace("o", ""), base)
            if -_HALF <= number < 2 * _HALF:
                return number
            # Beyond 64 bits Go reads the digits as a float, or as text.
            break
    if _FLOAT.fullmatch(plain) and math.isfinite(amount := float(plain)):
        return amount
    return text


def _events(text: str) -> Iterator[yaml.Event]:
    loader = _Loader(text)
    try:
        while loader.check_event():
            yield loader.get_event()
    finally:
        loader.dispose()


class _Mark(Protocol):
    @property
    def line(self) -> int: ...
    @property
    def column(self) -> int: ...


def _fail(mark: _Mark | None, message: str) -> NoReturn:
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
    raise ConfigError(f"{where}{message}")


@attrs.define
class _List:
    value: list[object] = attrs.Factory(list)
    anchor: str | None = None
    #: Number of values in this value, including itself.
    size: int = 1

    @property
    def step(self) -> str | int:
        return len(self.value)

    def add(self, value: object) -> None:
        self.value.append(value)


@attrs.define
class _Map:
    value: dict[str, object] = attrs.Factory(dict)
    anchor: str | None = None
    size: int = 1
    #: The key whose value comes next, and its line; None if a key comes next.
    key: str | None = None
    line: int = 0
    merging: bool = False
    #: Repeated keys with the line of the repetition.
    repeated: list[tuple[str, int]] = attrs.Factory(list)

    @property
    def step(self) -> str | int:
        return self.key or ""

    def add(self, value: object) -> None:
        key, self.key = self.key, None
        assert key is not None
        self.put(key, value)

    def put(self, key: str, value: object) -> None:
        if key in self.value:
            self.repeated.append((key, self.line))
        else:
            self.value[key] = value


class _Reader:
    """Builds the values of one document from its events."""

    def __init__(self) -> None:
        self.root: object = None
        self.problems: list[Problem] = []
        self._stack: list[_List | _Map] = []
        self._anchors: dict[str, tuple[object, int]] = {}
        self._open: set[str] = set()
        self._documents = 0
        #: Where the last event begins.
        self._begun: _Mark | None = None

    def take(self, event: yaml.Event) -> None:
        if self._documents > 1 and isinstance(event, yaml.NodeEvent):
            self._beyond(event)
            return
        match event:
            case yaml.ScalarEvent():
                self._scalar(event)
            case yaml.MappingStartEvent():
                self._begin(event, _Map(anchor=event.anchor))
            case yaml.SequenceStartEvent():
                self._begin(event, _List(anchor=event.anchor))
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._end(event)
            case yaml.AliasEvent():
                self._alias(event)
            case yaml.DocumentStartEvent():
                self._documents += 1
                self._begun = event.start_mark

    def _beyond(self, event: yaml.NodeEvent) -> None:
        """Skip an empty document after the first, as a last line of `---` creates; reject any other."""
        if not (isinstance(event, yaml.ScalarEvent) and event.value == "" and event.implicit[0]):
            _fail(self._begun, "a second document begins; a configuration file holds one")

    def _path(self) -> Path:
        return tuple(frame.step for frame in self._stack)

    def _begin(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent, frame: _List | _Map) -> None:
        self._expect_value(event)
        if len(self._stack) >= _DEEPEST:
            _fail(event.start_mark, f"nested deeper than {_DEEPEST} levels")
        if frame.anchor is not None:
            self._open.add(frame.anchor)
        self._stack.append(frame)

    def _end(self, event: yaml.Event) -> None:
        frame = self._stack.pop()
        if isinstance(frame, _Map):
            path = self._path()
            for key, line in frame.repeated:
                self.problems.append(Problem((*path, key), f'line {line}: key "{key}" already set'))
        if frame.anchor is not None:
            self._open.discard(frame.anchor)
        self._done(event, frame.value, frame.size, frame.anchor)

    def _alias(self, event: yaml.AliasEvent) -> None:
        self._expect_value(event)
        if event.anchor in self._open:
            _fail(event.start_mark, f"anchor '{event.anchor}' value contains itself")
        if event.anchor not in self._anchors:
            _fail(event.start_mark, f"unknown anchor '{event.anchor}' referenced")
        value, size = self._anchors[event.anchor]
        self._done(event, value, size, None)

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        top = self._stack[-1] if self._stack else None
        if isinstance(top, _Map) and top.key is None:
            top.line = event.start_mark.line + 1 if event.start_mark else 0
            top.merging = event.value == "<<" and (event.implicit[0] or event.tag == f"{_TAG}merge")
            top.key = "<<" if top.merging else self._key(event)
            return
        value = _value_of(event)
        if isinstance(value, float) and not math.isfinite(value):
            self.problems.append(Problem(self._path(), f"unsupported value: {event.value}"))
            value = None
        self._done(event, value, 1, event.anchor)

    def _key(self, event: yaml.ScalarEvent) -> str:
        """Return a key as text, as in JSON."""
        match _value_of(event):
            case bool(value):
                return "true" if value else "false"
            case int(value):
                return str(value)
            case None:
                _fail(event.start_mark, "a key is missing here (null is none)")
            case _:
                return event.value

    def _expect_value(self, event: yaml.Event) -> None:
        top = self._stack[-1] if self._stack else None
        if isinstance(top, _Map) and top.key is None:
            _fail(event.start_mark, "a key must be text")

    def _done(self, event: yaml.Event, value: object, size: int, anchor: str | None) -> None:
        if anchor is not None:
            self._anchors[anchor] = (value, size)
        if not self._stack:
            self.root = value
            return
        top = self._stack[-1]
        top.size += size
        if top.size > _MOST_VALUES:
            _fail(event.start_mark, "document contains excessive aliasing")
        if isinstance(top, _Map) and top.merging:
            _merge(event, top, value)
        else:
            top.add(value)


def _merge(event: yaml.Event, target: _Map, value: object) -> None:
    """Copy the value of `<<`: a mapping, or a list of mappings."""
    target.key, target.merging = None, False
    sources = value if isinstance(value, list) else [value]
    for source in sources:
        if not isinstance(source, dict):
            _fail(event.start_mark, "map merge requires map or sequence of maps as the value")
        for key, item in source.items():
            target.put(key, item)


def _value_of(event: yaml.ScalarEvent) -> Scalar:
    """Return a scalar's value: by its tag, else by its form unless it is quoted."""
    tag = event.tag
    if tag is None or not tag.startswith(_TAG):
        return resolve(event.value) if tag is None and event.implicit[0] else event.value
    kind = tag.removeprefix(_TAG)
    if kind in {"bool", "int", "float", "null"}:
        value = resolve(event.value)
        found = "null" if value is None else type(value).__name__
        if kind == found:
            return value
        if kind == "float" and found == "int":
            return float(event.value)
        _fail(event.start_mark, f"cannot decode !!{found} `{event.value}` as a !!{kind}")
    if kind == "binary":
        _fail(event.start_mark, "!!binary is not supported; write the text as it is")
    return event.value
