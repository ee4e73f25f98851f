"""Parse values of flags as Go does, so that a value has the same meaning as in kube-scheduler.

Source: strconv, time and net of Go; pflag; component-base's cli/flag and logs/api/v1.
"""

from __future__ import annotations

import csv
import ctypes
import ipaddress
import json
import math
import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "NamedPair",
    "parse_address",
    "parse_bool",
    "parse_duration",
    "parse_float",
    "parse_int",
    "parse_level",
    "parse_list",
    "parse_map",
    "parse_named_pair",
    "parse_vmodule",
]

_BOOLEANS: Final = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
_INTEGER: Final = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[oO]?[0-7]*|0[bB][01]+|[1-9][0-9]*)")
_FLOAT: Final = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_OCTAL: Final = re.compile(r"([-+]?)0([0-7]+)")


class NamedPair(NamedTuple):
    """Files with a certificate and its key, and their host names; without names, those in the certificate."""

    cert_file: str
    key_file: str
    names: tuple[str, ...] = ()


def parse_bool(text: str) -> bool:
    """Parse as strconv.ParseBool: `true`, `T`, `1` ... and their opposites."""
    if text not in _BOOLEANS:
        raise ValueError(f"strconv.ParseBool: parsing {_quoted(text)}: invalid syntax")
    return _BOOLEANS[text]


def parse_int(bits: int = 64) -> Callable[[str], int]:
    """Return a parser of signed integers of `bits` bits, in any base of Go's literals."""

    def parse(text: str) -> int:
        if not _INTEGER.fullmatch(text):
            raise ValueError(f"strconv.ParseInt: parsing {_quoted(text)}: invalid syntax")
        octal = _OCTAL.fullmatch(text)
        number = int(octal[1] + octal[2], 8) if octal else int(text, 0)
        if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
            raise ValueError(f"strconv.ParseInt: parsing {_quoted(text)}: value out of range")
        return number

    return parse


def parse_float(text: str) -> float:
    """Parse a 32-bit number; infinities are rejected, because no flag accepts them."""
    if not _FLOAT.fullmatch(text):
        raise ValueError(f"strconv.ParseFloat: parsing {_quoted(text)}: invalid syntax")
    number = float(text)
    if math.isinf(ctypes.c_float(number).value):
        raise ValueError(f"strconv.ParseFloat: parsing {_quoted(text)}: value out of range")
    return number


def parse_level(text: str) -> int:
    """Return a log level: 0 or more. `-v=4` arrives as `=4`."""
    text = text.removeprefix("=")
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"strconv.ParseUint: parsing {_quoted(text)}: invalid syntax")
    if int(text) >= 2**31:
        raise ValueError(f"strconv.ParseUint: parsing {_quoted(text)}: value out of range")
    return int(text)


def parse_duration(text: str) -> float:
    """Return seconds, of `1m30s` and the like."""
    from kube_objects.durations import parse_duration as parse  # imported late: the help does not need it

    return parse(text)


def parse_address(text: str) -> str:
    """Return an IP address in its usual form; an empty text means all interfaces."""
    if not text:
        return "0.0.0.0"  # noqa: S104 - what kube-scheduler's flag says
    try:
        return str(ipaddress.ip_address(text.strip()))
    except ValueError:
        raise ValueError(f"failed to parse IP: {_quoted(text)}") from None


def parse_list(text: str) -> tuple[str, ...]:
    """Return the values of a comma-separated list; values with a comma are quoted."""
    if not text:
        return ()
    try:
        return tuple(next(csv.reader([text], strict=True)))
    except (csv.Error, StopIteration) as error:
        raise ValueError(f"{_quoted(text)} is no comma-separated list: {error}") from None


def parse_map(text: str) -> Mapping[str, str]:
    """Return `key=value` pairs, separated by commas; in a single pair, commas are part of the value."""
    pairs = [text.strip('"')] if text.count("=") == 1 else parse_list(text)
    found = {}
    for pair in pairs or ("",):
        key, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"{pair} must be formatted as key=value")
        found[key] = value
    return found


def parse_named_pair(text: str) -> NamedPair:
    """Parse `certfile,keyfile` or `certfile,keyfile:name,name`."""
    pair, colon, names = (part.strip() for part in text.partition(":"))
    if colon and not names:
        raise ValueError("empty names list is not allowed")
    files = [file.strip() for file in pair.split(",")]
    if len(files) != 2:
        raise ValueError("expected comma separated certificate and key file paths")
    wanted = tuple(name.strip() for name in names.split(",")) if names else ()
    return NamedPair(files[0], files[1], wanted)


def parse_vmodule(text: str) -> Mapping[str, int]:
    """Return the log verbosity of each pattern in `pattern=N,...`."""
    levels = {}
    for item in text.split(","):
        if not item:
            continue
        pattern, _, level = item.partition("=")
        if not pattern or not level or "=" in level:
            raise ValueError(f"{_quoted(item)} does not have the pattern=N format")
        try:
            levels[pattern] = parse_level(level)
        except ValueError as error:
            raise ValueError(f"parsing verbosity in {_quoted(item)}: {error}") from None
    return levels


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
