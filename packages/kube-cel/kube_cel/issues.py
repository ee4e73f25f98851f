"""Collect the errors in an expression, and raise them as one exception in cel-go's format."""

from __future__ import annotations

from typing import Final

from kube_cel.errors import CelCompileError

__all__ = ["Issues"]

_MOST: Final = 100
_LONGEST_LINE: Final = 16384


class Issues:
    """Collects the errors of one source."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._found: list[tuple[int, int, str]] = []

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, offset: int, message: str) -> None:
        """Add an error at a place in the source."""
        line = self._source.count("\n", 0, offset) + 1
        column = offset - (self._source.rfind("\n", 0, offset) + 1)
        self._found.append((line, column, message))

    def add_anywhere(self, message: str) -> None:
        """Add an error that has no place."""
        self._found.append((-1, -1, message))

    def check(self) -> None:
        """Raise `CelCompileError` with all errors, in the order of their places; return where there is none."""
        if not self._found:
            return
        self._found.sort(key=lambda found: found[:2])
        shown = [self._text(*found) for found in self._found[:_MOST]]
        if len(self._found) > _MOST:
            shown.append(f"{len(self._found) - _MOST} more errors were truncated")
        raise CelCompileError("\n".join(shown))

    def _text(self, line: int, column: int, message: str) -> str:
        text = f"ERROR: <input>:{line}:{column + 1}: {message}"
        lines = self._source.split("\n")
        if not 0 < line <= len(lines) or len(lines[line - 1].encode()) > _LONGEST_LINE:
            return text
        shown = lines[line - 1].replace("\t", " ")
        marks = "".join("." if character.isascii() else "\uff0e" for character in shown[:column])
        at = shown[column : column + 1]
        return f"{text}\n | {shown}\n | {marks}{'^' if at.isascii() else chr(0xFF3E)}"
