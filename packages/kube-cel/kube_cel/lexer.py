"""Splits the text of an expression into tokens."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from kube_cel.meter import Meter

__all__ = ["RESERVED", "Token", "UnescapeError", "tokenize", "unescape"]

RESERVED: Final = frozenset(
    {"as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop"}
    | {"package", "namespace", "return", "var", "void", "while"}
)
"""Names that no variable may have. ``in``, ``true``, ``false`` and ``null`` are tokens of their own."""

_ESCAPE: Final = r"""\\(?:[abfnrtv"'\\?`]|[0-3][0-7]{2}|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"""
_STRING: Final = rf"""
    [rR](?:\"\"\"(?:.|\n|\r)*?\"\"\"|'''(?:.|\n|\r)*?'''|"[^"\n\r]*"|'[^'\n\r]*')
    |\"\"\"(?:{_ESCAPE}|[^\\])*?\"\"\"
    |'''(?:{_ESCAPE}|[^\\])*?'''
    |"(?:{_ESCAPE}|[^\\"\n\r])*"
    |'(?:{_ESCAPE}|[^\\'\n\r])*'
"""
_TOKEN: Final = re.compile(
    rf"""
    (?P<space>(?:[\t\ \r\n\f]|//[^\n]*)+)
    |(?P<bytes>[bB](?:{_STRING}))
    |(?P<string>{_STRING})
    |(?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    |(?P<uint>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])
    |(?P<int>0x[0-9a-fA-F]+|[0-9]+)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<quoted>`[A-Za-z0-9_.\-/\ ]+`)
    |(?P<mark>==|!=|<=|>=|&&|\|\||[<>\[\]{{}}().,\-!?:+*/%])
    """,
    re.VERBOSE,
)
_WORDS: Final = frozenset({"in", "true", "false", "null"})
_SIMPLE: Final = dict(zip("abfnrtv\\'\"`?", "\a\b\f\n\r\t\v\\'\"`?", strict=True))


class Token(NamedTuple):
    """A token; `kind` is that of a literal, ``name``, ``quoted``, ``mark``, ``end`` or ``bad``."""

    kind: str
    text: str
    offset: int


class UnescapeError(Exception):
    """Report a literal that cannot be read."""


def tokenize(source: str, meter: Meter) -> list[Token]:
    """Return the tokens of a source, the end included; a character that begins none becomes a bad one."""
    tokens: list[Token] = []
    at, end = 0, len(source)
    while at < end:
        meter.tick()
        match = _TOKEN.match(source, at)
        if match is None:
            tokens.append(Token("bad", source[at], at))
            at += 1
            continue
        kind = match.lastgroup or ""
        if kind != "space":
            text = match[0]
            tokens.append(Token("mark" if text in _WORDS else kind, text, at))
        at = match.end()
    tokens.append(Token("end", "<EOF>", end))
    return tokens


def unescape(text: str, *, is_bytes: bool) -> str | bytes:
    """Return the value of a text literal or, without its ``b``, of a bytes literal; raise `UnescapeError`."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    is_raw = text[0] in "rR"
    if is_raw:
        text = text[1:]
    quotes = 3 if len(text) >= 6 and text[:3] in ('"""', "'''") else 1
    text = text[quotes:-quotes]
    if is_raw or "\\" not in text:
        return text.encode() if is_bytes else text
    pieces: list[str] = []
    raw = bytearray()
    at = 0
    while at < len(text):
        start = at
        if is_bytes and text[at : at + 2] in ("\\u", "\\U"):
            raise UnescapeError("unable to unescape string")
        code, at = _character(text, at)
        if is_bytes:
            raw += bytes((code,)) if text[start] == "\\" else chr(code).encode()
            continue
        if text[start] == "\\" and (code > 0x10FFFF or 0xD800 <= code <= 0xDFFF):
            raise UnescapeError("invalid unicode code point")
        pieces.append(chr(code))
    return bytes(raw) if is_bytes else "".join(pieces)


def _character(text: str, at: int) -> tuple[int, int]:
    """Return the code of the character at a place, and the place behind it."""
    if text[at] != "\\":
        return ord(text[at]), at + 1
    letter = text[at + 1]
    if letter in _SIMPLE:
        return ord(_SIMPLE[letter]), at + 2
    if letter in "xX":
        return int(text[at + 2 : at + 4], 16), at + 4
    if letter in "uU":
        size = 4 if letter == "u" else 8
        return int(text[at + 2 : at + 2 + size], 16), at + 2 + size
    return int(text[at + 1 : at + 4], 8), at + 4
