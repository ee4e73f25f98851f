"""Semantic versions, as in attributes of devices and in the CEL function ``semver(...)``.

Source: blang/semver, the Go library that kube-scheduler uses.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

__all__ = ["Version", "parse_relaxed_version", "parse_version"]

Version = tuple[int, int, int, tuple[tuple[int, int, str], ...]]
"""Major, minor, patch, and the parts of the pre-release; a release sorts behind all its pre-releases."""

_RELEASE: Final = ((2, 0, ""),)
_IDENTIFIER: Final = re.compile(r"[0-9A-Za-z-]+")
_DIGITS: Final = "0123456789"
_PARTS: Final = ("Major", "Minor", "Patch")


@lru_cache(maxsize=4096)
def parse_version(text: str) -> Version:
    """Return a version; raise `ValueError`, with what is wrong, for what is none."""
    if not text:
        raise ValueError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != len(_PARTS):
        raise ValueError("No Major.Minor.Patch elements found")
    patch, plus, build = parts[2].partition("+")
    patch, dash, early = patch.partition("-")
    numbers = [_number(name, part) for name, part in zip(_PARTS, (parts[0], parts[1], patch), strict=True)]
    pre_release = tuple(_pre_release(one) for one in early.split(".")) if dash else _RELEASE
    for one in build.split(".") if plus else ():
        if not one:
            raise ValueError("Build meta data is empty")
        if not _IDENTIFIER.fullmatch(one):
            raise ValueError(f'Invalid character(s) found in build meta data "{one}"')
    return numbers[0], numbers[1], numbers[2], pre_release


@lru_cache(maxsize=4096)
def parse_relaxed_version(text: str) -> Version:
    """Return a version that may begin with ``v``, be short of minor or patch, or have leading zeros."""
    parts = [_without_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < len(_PARTS):
        if set(parts[-1]) & {"+", "-"}:
            raise ValueError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (len(_PARTS) - len(parts))
    return parse_version(".".join(parts))


def _number(name: str, text: str) -> int:
    if not (text.isascii() and (text.isdigit() or not text)):
        raise ValueError(f'Invalid character(s) found in {name.lower()} number "{text}"')
    if len(text) > 1 and text[0] == "0":
        raise ValueError(f'{name} number must not contain leading zeroes "{text}"')
    if not text:
        raise ValueError('strconv.ParseUint: parsing "": invalid syntax')
    number = int(text)
    if number >= 1 << 64:
        raise ValueError(f'strconv.ParseUint: parsing "{text}": value out of range')
    return number


def _pre_release(text: str) -> tuple[int, int, str]:
    """Return a part of the pre-release as it sorts: numbers before words."""
    if not text:
        raise ValueError("Prerelease is empty")
    if text.isascii() and text.isdigit():
        if len(text) > 1 and text[0] == "0":
            raise ValueError(f'Numeric PreRelease version must not contain leading zeroes "{text}"')
        return 0, int(text), ""
    if not _IDENTIFIER.fullmatch(text):
        raise ValueError(f'Invalid character(s) found in prerelease "{text}"')
    return 1, 0, text


def _without_zeros(text: str) -> str:
    if len(text) < 2:
        return text
    kept = text.lstrip("0")
    return kept if kept[:1] in _DIGITS and kept else "0" + kept
