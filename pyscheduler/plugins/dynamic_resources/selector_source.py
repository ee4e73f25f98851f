"""The text of a device selector, made ready for a CEL library that knows nothing of devices.

Expressions are written for the CEL of kube-apiserver, where an unknown domain holds no attributes, where every name is
declared, and where `cel.bind` exists. The library knows none of this, so the text is gone through once:

- ``device.attributes[d]`` and ``device.capacity[d]`` become calls that answer with what the domain holds, or nothing;
- ``cel.bind(x, value, expression)`` becomes a `map` over a list of one;
- functions that the library has in another form are called by another name;
- a name or function that is not known refuses the expression: evaluated, it could hide behind ``true ||``.

Differs from kube-scheduler: types are not checked beforehand, so a wrong one is found when it is met; functions that
are not in `FUNCTIONS` and macros with two variables are refused; and the cost is bounded by the turns that nested
loops can take, not by counting.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["FUNCTIONS", "Source", "SourceError", "adapt"]

FUNCTIONS: Final[Mapping[str, str]] = {
    # name as written: name as called
    **{name: name for name in ("contains", "startsWith", "endsWith", "matches", "int", "uint", "double", "bytes")},
    **{name: name for name in ("duration", "timestamp", "dyn", "type")},
    **{name: name for name in ("quantity", "isQuantity", "isGreaterThan", "isLessThan", "compareTo", "sign", "add")},
    **{name: name for name in ("sub", "isInteger", "asInteger", "asApproximateFloat")},
    **{name: name for name in ("semver", "isSemver", "major", "minor", "patch")},
    **{name: name for name in ("charAt", "lowerAscii", "upperAscii", "trim", "split", "join", "replace", "substring")},
    **{name: name for name in ("indexOf", "lastIndexOf")},
    "size": "size_",
    "string": "string_",
    "bool": "bool_",
}
"""The functions that an expression may call, and the names they are registered under."""

_MACROS: Final = frozenset({"all", "exists", "exists_one", "map", "filter"})
_NAMES: Final = frozenset(
    {"true", "false", "null", "in", "int", "uint", "double", "bool", "string", "bytes", "list", "map", "null_type"}
)
#: What kube-scheduler has beside `FUNCTIONS`, or begins such a name.
_ELSEWHERE: Final = frozenset(
    {
        "find",
        "findAll",
        "format",
        "ip",
        "isIP",
        "cidr",
        "isCIDR",
        "url",
        "isURL",
        "isSorted",
        "sum",
        "min",
        "max",
        "sets",
    }
    | {"optional", "reverse", "quote", "strings", "authorizer", "transformList", "transformMap", "math"}
)
_FIELDS: Final = frozenset({"driver", "attributes", "capacity", "allowMultipleAllocations"})
_MAPS: Final = {"attributes": "attributes_", "capacity": "capacity_"}
_OPENING: Final = frozenset("([{")
_CLOSING: Final = frozenset(")]}")
#: How many entries a list or map can have that is not written out: that many attributes fit a device.
_MOST_ENTRIES: Final = 32
#: How many turns nested loops may take together.
_MOST_TURNS: Final = 100_000

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|//[^\n]*)
    |(?P<text>(?:[rR][bB]?|[bB][rR])(?:\"{3}[\s\S]*?\"{3}|'{3}[\s\S]*?'{3}|\"[^\"\n]*\"|'[^'\n]*')
      |[bB]?(?:\"{3}(?:\\[\s\S]|[^\\])*?\"{3}|'{3}(?:\\[\s\S]|[^\\])*?'{3}|\"(?:\\.|[^\\\"\n])*\"|'(?:\\.|[^\\'\n])*'))
    |(?P<number>0[xX][0-9a-fA-F]+[uU]?|[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?[uU]?)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<mark>&&|\|\||[<>=!]=|.)""",
    re.VERBOSE,
)
#: A text without prefix and escapes.
_PLAIN_TEXT: Final = re.compile(r"""(?P<quote>["'])(?P<text>[^"'\\\n]+)(?P=quote)""")


class SourceError(ValueError):
    """Refuse an expression; the text says why."""


class Source(NamedTuple):
    """An expression as the library is to be given it, and whether it asks about the device at all."""

    text: str
    uses_device: bool
    #: The attributes and capacities that are asked for, as field, domain and name; None where that shows only later.
    references: tuple[tuple[str, str, str], ...] | None


class _Token(NamedTuple):
    kind: str
    text: str


def adapt(expression: str) -> Source:
    """Return an expression, whose syntax is right, for the library; raise `SourceError` where it cannot be done."""
    reader = _Reader(_tokens(expression))
    text = reader.read(0, len(reader.tokens), frozenset(), 1)
    references = None if reader.asks_for_more else tuple(sorted(reader.references))
    return Source(text, reader.uses_device, references)


def _tokens(expression: str) -> list[_Token]:
    found = (_Token(match.lastgroup or "", match[0]) for match in _TOKEN.finditer(expression))
    return [token for token in found if token.kind != "space"]


class _Reader:
    """Goes through the tokens of one expression."""

    def __init__(self, tokens: Sequence[_Token]) -> None:
        self.tokens = tokens
        self.uses_device = False
        self.references: set[tuple[str, str, str]] = set()
        #: Some part of the device is asked for as a whole, or by a name that is worked out.
        self.asks_for_more = False

    def read(self, start: int, end: int, bound: frozenset[str], turns: int) -> str:
        """Return the tokens from `start` to `end` rewritten; `bound` are variables, `turns` how often they run."""
        parts: list[str] = []
        at = start
        while at < end:
            token = self.tokens[at]
            if token.kind == "name":
                text, at = self._name(at, bound, turns)
                parts.append(text)
            else:
                parts.append(token.text)
                at += 1
        return " ".join(parts)

    def _name(self, at: int, bound: frozenset[str], turns: int) -> tuple[str, int]:
        name, after = self.tokens[at].text, self._mark(at + 1)
        member = self._mark(at - 1) == "."
        if member and not self._is_operand(at - 2):
            raise SourceError(_unknown(f".{name}"))
        if after == "(":
            if member and name in _MACROS:
                return self._macro(at, bound, turns)
            if name == "has" and not member:
                return name, at + 1
            if name not in FUNCTIONS:
                raise SourceError(_unknown(name))
            return FUNCTIONS[name], at + 1
        if member or name in bound:
            return name, at + 1
        if name == "device":
            return self._device(at, bound, turns)
        if name == "cel" and after == "." and self._text(at + 2) == "bind" and self._mark(at + 3) == "(":
            return self._bind(at + 3, bound, turns)
        if name not in _NAMES:
            raise SourceError(_unknown(name))
        return name, at + 1

    def _device(self, at: int, bound: frozenset[str], turns: int) -> tuple[str, int]:
        """Rewrite what is asked about the device: one of its fields, or what a domain holds."""
        self.uses_device = True
        if self._mark(at + 1) != ".":
            raise SourceError("device can be asked for its fields only, as in device.driver")
        field = self._text(at + 2)
        if field not in _FIELDS:
            raise SourceError(f"undefined field '{field}'")
        at += 3
        if field not in _MAPS:
            return f"device.{field}", at
        if self._mark(at) == "[":
            end = self._closing(at)
            self._refer(field, at, end)
            return f"{_MAPS[field]}({self.read(at + 1, end, bound, turns)})", end + 1
        self.asks_for_more = True
        if self._mark(at) == "." and self._mark(at + 2) != "(":
            return f'{_MAPS[field]}("{self._text(at + 1)}")', at + 2
        return f"device.{field}", at

    def _refer(self, field: str, opening: int, closing: int) -> None:
        """Note which attribute is asked for, in a domain that stands between two brackets."""
        domain = self._plain_text(opening + 1) if closing == opening + 2 else ""
        name = ""
        if self._mark(closing + 1) == "." and self._mark(closing + 3) != "(":
            name = self._text(closing + 2)
        elif self._mark(closing + 1) == "[" and self._mark(closing + 3) == "]":
            name = self._plain_text(closing + 2)
        if domain and name:
            self.references.add((field, domain, name))
        else:
            self.asks_for_more = True

    def _plain_text(self, at: int) -> str:
        """Return what a text between quotes says, where it says it as it stands; else nothing."""
        found = _PLAIN_TEXT.fullmatch(self._text(at))
        return found["text"] if found is not None else ""

    def _macro(self, at: int, bound: frozenset[str], turns: int) -> tuple[str, int]:
        """Rewrite a loop, whose variable is known within it."""
        name, end = self.tokens[at].text, self._closing(at + 1)
        arguments = list(self._arguments(at + 1, end))
        most = 3 if name == "map" else 2
        if not 2 <= len(arguments) <= most:
            raise SourceError(f"{name} with {len(arguments)} arguments is not supported")
        inner = turns * self._entries(at - 2)
        if inner > _MOST_TURNS:
            raise SourceError("actual cost limit exceeded")
        variable = self._variable(*arguments[0])
        rest = (self.read(*span, bound | {variable}, inner) for span in arguments[1:])
        return f"{name}({variable}, {', '.join(rest)})", end + 1

    def _bind(self, at: int, bound: frozenset[str], turns: int) -> tuple[str, int]:
        end = self._closing(at)
        arguments = list(self._arguments(at, end))
        if len(arguments) != 3:
            raise SourceError("cel.bind() takes a variable, its value and an expression")
        variable = self._variable(*arguments[0])
        value = self.read(*arguments[1], bound, turns)
        body = self.read(*arguments[2], bound | {variable}, turns)
        return f"[{value}].map({variable}, {body})[0]", end + 1

    def _variable(self, start: int, end: int) -> str:
        token = self.tokens[start]
        if end - start != 1 or token.kind != "name" or token.text in _NAMES:
            raise SourceError("argument must be a simple name")
        return token.text

    def _entries(self, at: int) -> int:
        """Return how many entries the list or map has that ends at a token."""
        if self._mark(at) != "]":
            return self._unwritten()
        depth = 0
        for start in range(at, -1, -1):
            mark = self._mark(start)
            depth += (mark in _CLOSING) - (mark in _OPENING)
            if depth == 0:
                indexed = self._is_operand(start - 1)
                return self._unwritten() if indexed else len(list(self._arguments(start, at)))
        return self._unwritten()

    def _is_operand(self, at: int) -> bool:
        """Tell whether something ends at a token that can be asked for a part of it."""
        if at < 0:
            return False
        token = self.tokens[at]
        return token.text != "in" if token.kind != "mark" else token.text in _CLOSING

    def _unwritten(self) -> int:
        """Return how many entries a list may have that some other expression made: as many as could be written."""
        commas = sum(token.text == "," for token in self.tokens)
        return max(_MOST_ENTRIES, commas + 1)

    def _arguments(self, opening: int, closing: int) -> Iterator[tuple[int, int]]:
        """Yield where each part between two brackets, set off by commas, begins and ends."""
        begin = at = opening + 1
        while at < closing:
            mark = self._mark(at)
            if mark in _OPENING:
                at = self._closing(at)
            elif mark == ",":
                yield begin, at
                begin = at + 1
            at += 1
        if begin < closing:
            yield begin, closing

    def _closing(self, opening: int) -> int:
        depth = 0
        for at in range(opening, len(self.tokens)):
            mark = self._mark(at)
            depth += (mark in _OPENING) - (mark in _CLOSING)
            if depth == 0:
                return at
        raise SourceError("Syntax error: missing closing bracket")

    def _mark(self, at: int) -> str:
        """Return the mark at a place; empty where there is something else, or nothing."""
        if not 0 <= at < len(self.tokens):
            return ""
        token = self.tokens[at]
        return token.text if token.kind == "mark" else ""

    def _text(self, at: int) -> str:
        return self.tokens[at].text if at < len(self.tokens) else ""


def _unknown(name: str) -> str:
    if name in _ELSEWHERE:
        return f"{name} is not supported by pyscheduler"
    return f"undeclared reference to '{name}' (in container '')"
