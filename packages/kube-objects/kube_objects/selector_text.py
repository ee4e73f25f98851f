"""Parse the parameters ``labelSelector`` and ``fieldSelector`` of a list request, as the API server does."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from kube_objects.errors import SelectorError
from kube_objects.names import label_key_errors
from kube_objects.requirements import (
    DOES_NOT_EXIST,
    EXISTS,
    GT,
    IN,
    LT,
    NOT_IN,
    CompiledSelector,
    Requirement,
    join_errors,
    requirement_errors,
)

_TOKEN: Final = re.compile(r"==|!=|[=!(),<>]|[^=!(),<> \t\r\n]+")
_END: Final = ""
_SYMBOLS: Final = frozenset({"==", "!=", "=", "!", "(", ")", ",", "<", ">"})
_OPERATORS: Final = {
    "in": IN,
    "notin": NOT_IN,
    "=": IN,
    "==": IN,
    "!=": NOT_IN,
    ">": GT,
    "<": LT,
}
_OPERATOR_NAMES: Final = "in, notin, =, ==, !=, gt, lt"
_SPECIAL: Final = re.compile(r"[\\,=]")
_FIELD_OPERATOR: Final = re.compile(r"!=|==|=")


@lru_cache(maxsize=1 << 10)
def parse_label_selector(text: str) -> CompiledSelector:
    """Compile a text such as ``a=b,c!=d,e in (x,y),!f,g``; the empty text selects everything.

    Raise `SelectorError` with the API server's message.
    """
    parser = _Parser(text)
    requirements: list[Requirement] = []
    while parser.peek() != _END:
        if parser.peek() in _SYMBOLS and parser.peek() != "!":
            raise SelectorError(f"found '{parser.peek()}', expected: !, identifier, or 'end of string'")
        requirements.append(parser.requirement())
        following = parser.take()
        if following == _END:
            break
        if following != ",":
            raise SelectorError(f"found '{following}', expected: ',' or 'end of string'")
        if parser.peek() == _END or (parser.peek() in _SYMBOLS and parser.peek() != "!"):
            raise SelectorError(f"found '{parser.peek()}', expected: identifier after ','")
    return CompiledSelector.of(requirements)


class FieldRequirement(NamedTuple):
    """One condition on one field of an object."""

    field: str
    value: str
    negated: bool = False

    def __str__(self) -> str:
        operator = "!=" if self.negated else "="
        return self.field + operator + _SPECIAL.sub(r"\\\g<0>", self.value)


class FieldSelector(NamedTuple):
    """Conditions on fields, all of which must hold."""

    requirements: tuple[FieldRequirement, ...] = ()

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Return whether `fields` (values by path, such as ``spec.nodeName``) meet all; a missing one is empty."""
        for field, value, negated in self.requirements:  # noqa: SIM110 - asked of every change for every watch
            if (fields.get(field, "") == value) == negated:
                return False
        return True

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


@lru_cache(maxsize=1 << 10)
def parse_field_selector(text: str) -> FieldSelector:
    """Compile a text such as ``metadata.name=x,spec.nodeName!=``; the empty text selects everything.

    Which fields exist is the business of who answers the request. Raise `SelectorError`.
    """
    requirements = []
    for term in _split_field_terms(text):
        operator = _FIELD_OPERATOR.search(term)
        if operator is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{term}'")
        value = _unescape(term[operator.end() :])
        requirements.append(FieldRequirement(term[: operator.start()], value, operator[0] == "!="))
    return FieldSelector(tuple(requirements))


class _Parser:
    """A cursor over the tokens of a label selector."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = [*_TOKEN.findall(text), _END]
        self._position = 0

    def peek(self) -> str:
        return self._tokens[self._position]

    def take(self) -> str:
        word = self._tokens[self._position]
        if word != _END:
            self._position += 1
        return word

    def requirement(self) -> Requirement:
        negated = self.peek() == "!"
        if negated:
            self.take()
        key = self.take()
        if key == _END or key in _SYMBOLS:
            raise _unparsable(f"found '{key}', expected: identifier")
        if wrong := label_key_errors(key):
            raise _unparsable(f"<nil>: Invalid value: {json.dumps(key)}: {'; '.join(wrong)}")
        if negated or self.peek() in {_END, ","}:
            return Requirement(key, DOES_NOT_EXIST if negated else EXISTS)
        symbol = self.take()
        operator = _OPERATORS.get(symbol)
        if operator is None:
            raise _unparsable(f"found '{symbol}', expected: {_OPERATOR_NAMES}")
        values = self._value_list() if symbol in {"in", "notin"} else (self._value(),)
        if errors := requirement_errors(key, operator, values):
            raise _unparsable(join_errors(errors))
        return Requirement(key, operator, values)

    def _value(self) -> str:
        if self.peek() in {_END, ","}:
            return ""
        word = self.take()
        if word in _SYMBOLS:
            raise _unparsable(f"found '{word}', expected: identifier")
        return word

    def _value_list(self) -> tuple[str, ...]:
        opening = self.take()
        if opening != "(":
            raise _unparsable(f"found '{opening}' expected: '('")
        if self.peek() == _END or (self.peek() in _SYMBOLS and self.peek() not in {",", ")"}):
            raise _unparsable(f"found '{self.peek()}', expected: ',', ')' or identifier")
        values = set()
        value = ""
        while True:
            word = self.take()
            if word in {",", ")"}:
                values.add(value)
                value = ""
                if word == ")":
                    return tuple(sorted(values))
            elif value:
                raise _unparsable(f"found '{word}', expected: ',' or ')'")
            elif word == _END or word in _SYMBOLS:
                raise _unparsable(f"found '{word}', expected: ',', or identifier")
            else:
                value = word


def _unparsable(detail: str) -> SelectorError:
    return SelectorError(f"unable to parse requirement: {detail}")


def _split_field_terms(text: str) -> list[str]:
    terms, start, escaped = [], 0, False
    for index, character in enumerate(text):
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == ",":
            terms.append(text[start:index])
            start = index + 1
    terms.append(text[start:])
    return [term for term in terms if term]


def _unescape(value: str) -> str:
    result = []
    escaped = False
    for character in value:
        if escaped:
            if character not in "\\,=":
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{character}")
            result.append(character)
            escaped = False
        elif character == "\\":
            escaped = True
        elif character in ",=":
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(character)}")
        else:
            result.append(character)
    if escaped:
        raise SelectorError("invalid field selector: invalid escape sequence: \\")
    return "".join(result)
