"""Mistakes in a configuration: each has a message, worded as in kube-scheduler, and the path of the wrong field."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeAlias

from pyscheduler.framework.errors import ConfigError

__all__ = ["Path", "Problem", "duplicate", "forbidden", "found_in", "invalid", "required", "unsupported"]

#: Keys and indices from the root of the document; `("profiles", 0, "schedulerName")`.
Path: TypeAlias = tuple[str | int, ...]

_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


@contextmanager
def found_in(source: str | None) -> Iterator[None]:
    """Add the file name `source` to a `ConfigError` that the block raises and that names no file yet."""
    try:
        yield
    except ConfigError as error:
        if error.source or not source:
            raise
        raise ConfigError(*error.problems, source=source) from error


class Problem(NamedTuple):
    """One mistake; as text, `message @ $.path[0].to.it`."""

    path: Path
    message: str

    def __str__(self) -> str:
        return f"{self.message} @ {path_text(self.path)}"

    def under(self, *prefix: str | int) -> Problem:
        """Return the problem with its path below `prefix`."""
        return Problem((*prefix, *self.path), self.message)


def path_text(path: Path) -> str:
    """Format a path as JSONPath."""
    steps = (
        f"[{step}]"
        if isinstance(step, int)
        else f".{step}"
        if _PLAIN_KEY.fullmatch(step)
        else f"[{json.dumps(step, ensure_ascii=False)}]"
        for step in path
    )
    return "$" + "".join(steps)


def shown(value: object) -> str:
    """Format a value of the file for messages."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=repr)


def invalid(path: Path, value: object, detail: str) -> Problem:
    """Return the problem of an invalid value."""
    return Problem(path, f"Invalid value: {shown(value)}: {detail}")


def unsupported(path: Path, value: object, supported: Sequence[object]) -> Problem:
    """Return the problem of a value that is not among the supported ones."""
    known = ", ".join(shown(each) for each in supported)
    return Problem(path, f"Unsupported value: {shown(value)}: supported values: {known}")


def duplicate(path: Path, value: object, detail: str = "") -> Problem:
    """Return the problem of a duplicate value."""
    return Problem(path, _with_detail(f"Duplicate value: {shown(value)}", detail))


def required(path: Path, detail: str = "") -> Problem:
    """Return the problem of a missing value."""
    return Problem(path, _with_detail("Required value", detail))


def forbidden(path: Path, detail: str) -> Problem:
    """Return the problem of a forbidden value."""
    return Problem(path, f"Forbidden: {detail}")


def _with_detail(text: str, detail: str) -> str:
    return f"{text}: {detail}" if detail else text
