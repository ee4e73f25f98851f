r"""Parse regular expressions in RE2's syntax into trees.

Source: Go's `regexp/syntax` with the flags of `regexp.Compile`.

Differs from kube-scheduler: Unicode scripts, such as ``\p{Greek}``, are not supported.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable

    from kube_cel.meter import Meter

__all__ = ["Alternation", "Assertion", "Char", "Concat", "Empty", "Group", "Predicate", "RegexError", "Repeat", "parse"]

_MOST_REPEATS: Final = 1000
_DEEPEST: Final = 1000
_SMALL: Final = 200

Predicate: TypeAlias = "Callable[[str], bool]"
"""A function that returns whether a character belongs to a class."""


class RegexError(Exception):
    """Report a text that is no regular expression, in Go's words."""

    def __init__(self, problem: str, where: str) -> None:
        super().__init__(f"error parsing regexp: {problem}: `{where}`")


@attrs.frozen(eq=False)
class Empty:
    """Matches the empty text."""


@attrs.frozen(eq=False)
class Char:
    """Matches one character: the one in `text`, or where that is empty those that belong to a class."""

    text: str
    belongs: Predicate | None = None


@attrs.frozen(eq=False)
class Assertion:
    """Matches the empty text in some places; `kind` is one of ``^``, ``$``, ``A``, ``z``, ``b`` and ``B``."""

    kind: str


@attrs.frozen(eq=False)
class Concat:
    """Matches its parts one behind the other."""

    parts: tuple[Group, ...]


@attrs.frozen(eq=False)
class Alternation:
    """Matches one of its parts, the first rather than the last."""

    parts: tuple[Group, ...]


@attrs.frozen(eq=False)
class Repeat:
    """Matches its part between `least` and `most` times, as often as possible unless it is lazy."""

    part: Group
    least: int
    most: int | None
    lazy: bool


Group: TypeAlias = Empty | Char | Assertion | Concat | Alternation | Repeat

_DIGIT: Final = frozenset("0123456789")
_SPACE: Final = frozenset("\t\n\f\r ")
_WORD: Final = frozenset("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_PERL: Final = {"d": _DIGIT, "s": _SPACE, "w": _WORD}
_LOWER: Final = frozenset("abcdefghijklmnopqrstuvwxyz")
_UPPER: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_PUNCT: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_POSIX: Final = {
    "alnum": _LOWER | _UPPER | _DIGIT,
    "alpha": _LOWER | _UPPER,
    "ascii": frozenset(map(chr, range(128))),
    "blank": frozenset("\t "),
    "cntrl": frozenset(map(chr, (*range(32), 127))),
    "digit": _DIGIT,
    "graph": _LOWER | _UPPER | _DIGIT | _PUNCT,
    "lower": _LOWER,
    "print": _LOWER | _UPPER | _DIGIT | _PUNCT | {" "},
    "punct": _PUNCT,
    "space": _SPACE | {"\v"},
    "upper": _UPPER,
    "word": _WORD,
    "xdigit": _DIGIT | frozenset("abcdefABCDEF"),
}
_CATEGORIES: Final = frozenset(
    group + kind
    for group, kinds in {
        "L": "ultmo",
        "M": "ecn",
        "N": "dlo",
        "P": "cdseifo",
        "S": "mcko",
        "Z": "slp",
        "C": "cfso",
    }.items()
    for kind in ("", *kinds)
)
_ESCAPES: Final = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
#: Letters beyond ASCII that differ from an ASCII letter in case only.
_ORBITS: Final = {"k": "\u212a", "s": "\u017f"}


def variants(character: str) -> frozenset[str]:
    """Return the characters that differ from one in case only, itself included."""
    found = {character}
    for other in (character.lower(), character.upper(), character.casefold()):
        if len(other) == 1:
            found.add(other)
    found |= {_ORBITS[each] for each in found if each in _ORBITS}
    return frozenset(found | {each.upper() for each in found if len(each.upper()) == 1})


def parse(pattern: str, meter: Meter) -> Group:
    """Return the tree of a regular expression; raise `RegexError`."""
    return _Parser(pattern, meter).parse()


@attrs.define
class _Flags:
    fold: bool = False
    multi_line: bool = False
    dot_all: bool = False
    swap: bool = False


@attrs.define(eq=False)
class _Class:
    """The members of a class as they are read."""

    characters: set[str] = attrs.Factory(set)
    ranges: list[tuple[str, str]] = attrs.Factory(list)
    predicates: list[Predicate] = attrs.Factory(list)

    def belongs(self, character: str) -> bool:
        if character in self.characters or any(low <= character <= high for low, high in self.ranges):
            return True
        return any(predicate(character) for predicate in self.predicates)


class _Parser:
    def __init__(self, pattern: str, meter: Meter) -> None:
        self._text = pattern
        self._meter = meter
        self._at = 0
        self._flags = _Flags()

    def parse(self) -> Group:
        """Read all of it; groups are kept on a stack, so that their depth does not matter."""
        stack: list[tuple[list[Group], list[Group], _Flags, int]] = []
        branches: list[Group] = []
        parts: list[Group] = []
        opened = 0
        while self._at < len(self._text):
            self._meter.tick()
            mark = self._text[self._at]
            if mark == "|":
                self._at += 1
                branches.append(_concat(parts))
                parts = []
            elif mark == "(":
                before = attrs.evolve(self._flags)
                opened = self._at
                if self._group():
                    if len(stack) >= _DEEPEST:
                        raise RegexError("expression nests too deeply", self._text)
                    stack.append((branches, parts, before, opened))
                    branches, parts = [], []
            elif mark == ")":
                if not stack:
                    raise RegexError("unexpected )", self._text)
                self._at += 1
                made = _alternation([*branches, _concat(parts)])
                branches, parts, self._flags, _ = stack.pop()
                parts.append(made)
            elif mark in "*+?" or (mark == "{" and self._counts() is not None):
                self._repeat(parts)
            else:
                self._atom(parts)
        if stack:
            raise RegexError("missing closing )", self._text)
        return _alternation([*branches, _concat(parts)])

    def _group(self) -> bool:
        """Read what opens a group; return False where it only sets flags."""
        text = self._text
        if not text.startswith("(?", self._at):
            self._at += 1
            return True
        for opening in ("(?P<", "(?<"):
            if text.startswith(opening, self._at):
                self._name(opening)
                return True
        return self._read_flags()

    def _name(self, opening: str) -> None:
        text, start = self._text, self._at
        end = text.find(">", start)
        if end < 0:
            raise RegexError("invalid named capture", text[start:])
        name = text[start + len(opening) : end]
        if not name or not set(name) <= _WORD:
            raise RegexError("invalid named capture", text[start : end + 1])
        self._at = end + 1

    def _read_flags(self) -> bool:
        start = self._at
        flags = attrs.evolve(self._flags)
        value, seen = True, False
        self._at += 2
        fields = {"i": "fold", "m": "multi_line", "s": "dot_all", "U": "swap"}
        while self._at < len(self._text):
            mark = self._text[self._at]
            self._at += 1
            if mark in fields:
                setattr(flags, fields[mark], value)
                seen = True
            elif mark == "-" and value:
                value, seen = False, False
            elif mark in ":)" and (value or seen):
                self._flags = flags
                return mark == ":"
            else:
                raise RegexError("invalid or unsupported Perl syntax", self._text[start : self._at])
        raise RegexError("missing closing )", self._text)

    # Repetition

    def _counts(self) -> tuple[int, int | None, int] | None:
        """Return least and most of ``{...}`` at hand, and where it ends; None where it is plain text."""
        end = self._text.find("}", self._at, self._at + 24)
        if end < 0:
            return None
        low, comma, high = self._text[self._at + 1 : end].partition(",")
        if not (low.isascii() and low.isdigit()) or (high and not (high.isascii() and high.isdigit())):
            return None
        if (len(low) > 1 and low[0] == "0") or (len(high) > 1 and high[0] == "0"):
            return None
        least = int(low)
        most = (int(high) if high else None) if comma else least
        return least, most, end + 1

    def _repeat(self, parts: list[Group]) -> None:
        start = self._at
        mark = self._text[start]
        if mark == "{":
            counts = self._counts()
            assert counts is not None, "it was looked at"
            least, most, self._at = counts
        else:
            least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[mark]
            self._at += 1
        lazy = self._text.startswith("?", self._at)
        self._at += lazy
        shown = self._text[start : self._at]
        if not parts:
            raise RegexError("missing argument to repetition operator", shown)
        if start and self._text[start - 1] in "*+?}" and isinstance(parts[-1], Repeat) and self._is_repeated(start):
            raise RegexError("invalid nested repetition operator", self._operators(start))
        if max(least, most or 0) > _MOST_REPEATS or (most is not None and least > most):
            raise RegexError("invalid repeat count", shown)
        made = Repeat(parts[-1], least, most, lazy != self._flags.swap)
        if _largest(made) > _MOST_REPEATS:
            raise RegexError("invalid repeat count", shown)
        parts[-1] = made
        self._last_repeat = self._at

    _last_repeat = -1

    def _is_repeated(self, start: int) -> bool:
        """Return whether a repetition ended right before."""
        return self._last_repeat == start

    def _operators(self, start: int) -> str:
        first = start
        while first and self._text[first - 1] in "*+?}":
            first -= 1
        if self._text[first:start].endswith("}"):
            first = self._text.rfind("{", 0, start)
        return self._text[first : self._at]

    # Single characters

    def _atom(self, parts: list[Group]) -> None:
        mark = self._text[self._at]
        self._at += 1
        match mark:
            case "^":
                parts.append(Assertion("^" if self._flags.multi_line else "A"))
            case "$":
                parts.append(Assertion("$" if self._flags.multi_line else "z"))
            case ".":
                dot_all = self._flags.dot_all
                parts.append(Char("", _any if dot_all else _not_newline))
            case "[":
                parts.append(self._class())
            case "\\":
                self._escape(parts)
            case _:
                parts.append(self._literal(mark))

    def _literal(self, character: str) -> Char:
        if self._flags.fold:
            found = variants(character)
            if len(found) > 1:
                return Char("", found.__contains__)
        return Char(character)

    def _escape(self, parts: list[Group]) -> None:
        text = self._text
        if self._at >= len(text):
            raise RegexError("trailing backslash at end of expression", "")
        mark = text[self._at]
        if mark in "AbBz":
            self._at += 1
            parts.append(Assertion(mark))
        elif mark == "Q":
            end = text.find("\\E", self._at)
            quoted = text[self._at + 1 : end if end >= 0 else len(text)]
            parts.extend(map(self._literal, quoted))
            self._at = end + 2 if end >= 0 else len(text)
        elif mark == "E":
            self._at += 1
        elif (found := self._named_class()) is not None:
            parts.append(Char("", self._folded(found)))
        else:
            parts.append(self._literal(self._escaped()))

    def _named_class(self) -> Predicate | None:
        """Read ``d`` or ``p{...}`` behind a backslash; None where there is something else."""
        mark = self._text[self._at]
        if mark.lower() in _PERL:
            self._at += 1
            members = _PERL[mark.lower()]
            return members.__contains__ if mark.islower() else (lambda one: one not in members)
        if mark not in "pP":
            return None
        start = self._at - 1
        name = self._text[self._at + 1 : self._at + 2]
        self._at += 2
        if name == "{":
            end = self._text.find("}", self._at)
            if end < 0:
                raise RegexError("invalid character class range", self._text[start:])
            name = self._text[self._at : end]
            self._at = end + 1
        negated = (mark == "P") != name.startswith("^")
        name = name.removeprefix("^")
        if name == "Any":
            return (lambda _: False) if negated else _any
        if name not in _CATEGORIES:
            raise RegexError("invalid character class range", self._text[start : self._at])
        return lambda one: unicodedata.category(one).startswith(name) != negated

    def _folded(self, belongs: Predicate) -> Predicate:
        if not self._flags.fold:
            return belongs
        return lambda one: any(map(belongs, variants(one)))

    def _escaped(self) -> str:
        """Return the character that stands behind a backslash."""
        text, start = self._text, self._at
        mark = text[start]
        self._at += 1
        if mark in "01234567" and (mark == "0" or text[self._at : self._at + 1] in tuple("01234567")):
            end = self._at
            while end < start + 3 and text[end : end + 1] in tuple("01234567"):
                end += 1
            self._at = end
            return chr(int(text[start:end], 8))
        if mark == "x":
            digits = text[self._at : self._at + 2]
            end = self._at + 2
            if digits.startswith("{"):
                close = text.find("}", self._at)
                digits = text[self._at + 1 : close] if close >= 0 else "?"
                end = close + 1
            if digits and len(digits) <= 8 and all(each in "0123456789abcdefABCDEF" for each in digits):
                code = int(digits, 16)
                if (end - self._at != 2 or len(digits) == 2) and code <= 0x10FFFF:
                    self._at = end
                    return chr(code)
            raise RegexError("invalid escape sequence", text[start - 1 : max(end, start + 1)])
        if mark in _ESCAPES:
            return _ESCAPES[mark]
        if mark.isascii() and not mark.isalnum():
            return mark
        raise RegexError("invalid escape sequence", text[start - 1 : self._at])

    # Classes

    def _class(self) -> Char:
        start = self._at - 1
        found = _Class()
        negated = self._text.startswith("^", self._at)
        self._at += negated
        first = True
        while first or not self._text.startswith("]", self._at):
            self._meter.tick()
            if self._at >= len(self._text):
                raise RegexError("missing closing ]", self._text[start:])
            first = False
            self._member(found, start)
        self._at += 1
        if not found.ranges and not found.predicates and len(found.characters) <= _SMALL:
            members = found.characters
            if self._flags.fold:
                members = {other for each in members for other in variants(each)}
            frozen = frozenset(members)
            return Char("", (lambda one: one not in frozen) if negated else frozen.__contains__)
        belongs = self._folded(found.belongs)
        return Char("", (lambda one: not belongs(one)) if negated else belongs)

    def _member(self, found: _Class, start: int) -> None:
        text = self._text
        if text.startswith("[:", self._at):
            end = text.find(":]", self._at)
            if end >= 0:
                name = text[self._at + 2 : end]
                members = _POSIX.get(name.removeprefix("^"))
                if members is None:
                    raise RegexError("invalid character class range", text[self._at : end + 2])
                self._at = end + 2
                if name.startswith("^"):
                    found.predicates.append(lambda one: one not in members)
                else:
                    found.characters |= members
                return
        begin = self._at
        if text[self._at] == "\\" and self._at + 1 < len(text):
            self._at += 1
            named = self._named_class()
            if named is not None:
                found.predicates.append(named)
                return
            self._at -= 1
        low = self._class_character(start)
        high = low
        if text.startswith("-", self._at) and text[self._at + 1 : self._at + 2] not in ("]", ""):
            self._at += 1
            high = self._class_character(start)
            if high < low:
                raise RegexError("invalid character class range", text[begin : self._at])
        if ord(high) - ord(low) < _SMALL:
            found.characters.update(map(chr, range(ord(low), ord(high) + 1)))
        else:
            found.ranges.append((low, high))

    def _class_character(self, start: int) -> str:
        if self._at >= len(self._text):
            raise RegexError("missing closing ]", self._text[start:])
        mark = self._text[self._at]
        self._at += 1
        if mark != "\\":
            return mark
        if self._at >= len(self._text):
            raise RegexError("trailing backslash at end of expression", "")
        return self._escaped()


def _any(_: str) -> bool:
    return True


def _not_newline(character: str) -> bool:
    return character != "\n"


def _concat(parts: list[Group]) -> Group:
    if len(parts) == 1:
        return parts[0]
    return Concat(tuple(parts)) if parts else Empty()


def _alternation(parts: list[Group]) -> Group:
    return parts[0] if len(parts) == 1 else Alternation(tuple(parts))


def _largest(group: Group) -> int:
    """Return how often repetitions within repetitions multiply to at most."""
    largest = 1
    stack: list[tuple[Group, int]] = [(group, 1)]
    while stack:
        each, times = stack.pop()
        if isinstance(each, Repeat):
            times *= max(each.least, each.most or 0, 1)
            largest = max(largest, times)
            if largest > _MOST_REPEATS:
                return largest
            stack.append((each.part, times))
        elif isinstance(each, Concat | Alternation):
            stack.extend((part, times) for part in each.parts)
    return largest
