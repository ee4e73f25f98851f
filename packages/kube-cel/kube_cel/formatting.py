"""The CEL function ``format``, which writes values into a text: ``'%d pods'.format([3])``.

Source: cel-go 0.26, `ext/formatting.go`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import attrs

from kube_cel.errors import CelError
from kube_cel.operators import COMPARABLE, CONVERSIONS
from kube_cel.times import show_duration, show_timestamp
from kube_cel.values import (
    LIST_CLASSES,
    DefaultMap,
    Duration,
    Map,
    Timestamp,
    TypeValue,
    UInt,
    find_key,
    items_of,
    show_double,
    type_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kube_cel.meter import Meter

__all__ = [
    "CLAUSES",
    "NOT_PRINTABLE",
    "QUOTED",
    "Clause",
    "FormatError",
    "format_text",
    "quote_go",
    "read_format",
]

CLAUSES: Final = {
    "d": (("int", "uint"), "decimal clause can only be used on integers"),
    "f": (("double", "string"), "fixed-point clause can only be used on doubles"),
    "e": (("double", "string"), "scientific clause can only be used on doubles"),
    "b": (("int", "uint", "bool"), "only integers and bools can be formatted as binary"),
    **dict.fromkeys(
        ("x", "X"),
        (("int", "uint", "string", "bytes"), "only integers, byte buffers, and strings can be formatted as hex"),
    ),
    "o": (("int", "uint"), "octal clause can only be used on integers"),
}
"""By letter of a clause: the types that it takes, and how it says so."""
NOT_PRINTABLE: Final = (
    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and "
    "timestamps"
)

_PRECISION: Final = 6
_NOT_READ: Final = "could not parse formatting clause: "
_NO_PRECISION: Final = f"{_NOT_READ}error while parsing precision: "
_SPECIAL: Final = ("NaN", "Infinity", "-Infinity")


class FormatError(Exception):
    """Report a format that cannot be applied."""


@attrs.frozen
class Clause:
    """A clause of a format: its letter, and how many digits come after the point; or what is wrong with it."""

    letter: str
    precision: int | None = None
    problem: str = ""


def read_format(text: str) -> Iterator[str | Clause]:
    """Yield the pieces of a format: plain text, and clauses; raise `FormatError` for one that is not finished."""
    at = 0
    while at < len(text):
        percent = text.find("%", at)
        if percent < 0:
            yield text[at:]
            return
        if percent > at:
            yield text[at:percent]
        if text.startswith("%%", percent):
            yield "%"
            at = percent + 2
            continue
        clause, at = _clause(text, percent + 1)
        yield clause


def _clause(text: str, at: int) -> tuple[Clause, int]:
    if at >= len(text):
        return Clause("", problem="unexpected end of string"), at
    precision: int | None = None
    if text[at] == ".":
        end = at + 1
        while end < len(text) and "0" <= text[end] <= "9":
            end += 1
        digits = text[at + 1 : end]
        if end >= len(text):
            return Clause("", problem=f"{_NO_PRECISION}could not find end of precision specifier"), end
        if not digits:
            why = 'error while converting precision to integer: strconv.Atoi: parsing "": invalid syntax'
            return Clause("", problem=_NO_PRECISION + why), end
        precision = int(digits) if len(digits) < 10 else 10**9
        at = end
    letter = text[at]
    if letter not in "sdfebxXo":
        return Clause("", problem=f'{_NOT_READ}unrecognized formatting clause "{letter}"'), at + 1
    return Clause(letter, precision), at + 1


def format_text(text: str, args: Sequence[Any], meter: Meter) -> str:
    """Return a text with the values of its clauses put in; raise `CelError`."""
    made: list[str] = []
    index = 0
    for piece in read_format(text):
        if isinstance(piece, Clause):
            if index >= len(args):
                raise CelError(f"index {index} out of range")
            if piece.problem:
                raise CelError(piece.problem)
            try:
                piece = _apply(piece, args[index], meter)
            except FormatError as error:
                raise CelError(f"error during formatting: {error}") from None
            index += 1
        meter.made_text(len(piece))
        made.append(piece)
    return "".join(made)


def _apply(clause: Clause, value: Any, meter: Meter) -> str:
    letter = clause.letter
    if letter == "s":
        return _text_of(value, meter)
    name = type_name(value)
    wanted, message = CLAUSES[letter]
    if name not in wanted or (letter in "fe" and name == "string" and value not in _SPECIAL):
        raise FormatError(f"{message}, was given {name}")
    if letter in "fe":
        return _number(clause, float(value), meter)
    if name in ("string", "bytes"):
        meter.made_text(2 * len(value))
        digits = str((value.encode() if name == "string" else value).hex())
        return digits.upper() if letter == "X" else digits
    return format(int(value), letter)


def _number(clause: Clause, value: float, meter: Meter) -> str:
    precision = _PRECISION if clause.precision is None else clause.precision
    meter.made_text(precision + 310)
    if math.isnan(value) or math.isinf(value):
        text = "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
        return text.rjust(precision) if clause.letter == "e" else text
    if clause.letter == "f":
        whole, point, fraction = f"{value:.{precision}f}".partition(".")
        sign, digits = ("-", whole[1:]) if whole.startswith("-") else ("", whole)
        return f"{sign}{int(digits):,}{point}{fraction}"
    mantissa, _, exponent = f"{value:.{_PRECISION}e}".partition("e")
    # What stands behind the point of this clause is how wide the text is at least.
    return f"{mantissa}\u00d710{_raised(exponent)}".rjust(precision)


def _raised(exponent: str) -> str:
    sign = "⁻" if exponent.startswith("-") else ""
    return sign + "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in f"{abs(int(exponent)):02d}")


def _text_of(value: Any, meter: Meter) -> str:
    """Return a value as ``%s`` shows it; raise `FormatError` for what cannot be shown."""
    meter.tick()
    kind = value.__class__
    if kind in LIST_CLASSES:
        return _list(value, meter)
    if kind is Map or kind is DefaultMap:
        return _map(value, meter)
    if value is None:
        return "null"
    if kind is TypeValue:
        return str(value)
    if kind not in COMPARABLE:
        raise FormatError(f"{NOT_PRINTABLE}, was given {type_name(value)}")
    try:
        return str(CONVERSIONS["string"](value, meter))
    except CelError as error:
        raise FormatError(f'could not convert argument "{error}" to string') from None


def _member(value: Any, meter: Meter) -> str:
    """Return a value as it is shown within a list or a map."""
    kind = value.__class__
    if kind is float:
        return f"{value:.{_PRECISION}f}" if math.isfinite(value) else f'"{show_double(value)}"'
    if kind is Timestamp:
        return f'timestamp("{show_timestamp(value)}")'
    if kind is Duration:
        return f'duration("{show_duration(value)}")'
    if kind is str:
        return quote_go(value)
    if kind is bytes:
        return f"b{quote_go(_text_of(value, meter))}"
    if kind in LIST_CLASSES or kind in (Map, DefaultMap, bool, int, UInt, TypeValue) or value is None:
        return _text_of(value, meter)
    raise FormatError(f"no formatting function for {type_name(value)}")


def _list(value: Any, meter: Meter) -> str:
    made: list[str] = []
    for item in items_of(value, meter):
        text = _member(item, meter)
        meter.made_text(len(text))
        made.append(text)
    return f"[{', '.join(made)}]"


def _map(value: Map, meter: Meter) -> str:
    pairs: list[tuple[str, str]] = []
    for key in items_of(value, meter):
        if key.__class__ not in (str, bool, int, UInt):
            raise FormatError(f"no formatting function for map key of type {type_name(key)}")
        name = _member(key, meter)
        text = _member(value[find_key(value, key)], meter)
        meter.made_text(len(name) + len(text))
        pairs.append((name, text))
    pairs.sort(key=lambda pair: pair[0])
    return f"{{{', '.join(f'{name}:{text}' for name, text in pairs)}}}"


QUOTED: Final = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\", '"': '\\"'
}  # fmt: skip
"""Characters that Go's quotes escape by letters."""


def quote_go(text: str) -> str:
    """Return a text between quotes as Go's ``%q`` writes it."""
    made = []
    for character in text:
        if character in QUOTED:
            made.append(QUOTED[character])
        elif character == " " or character.isprintable():
            made.append(character)
        elif ord(character) < 0x80:
            made.append(f"\\x{ord(character):02x}")
        elif ord(character) < 0x10000:
            made.append(f"\\u{ord(character):04x}")
        else:
            made.append(f"\\U{ord(character):08x}")
    return f'"{"".join(made)}"'
