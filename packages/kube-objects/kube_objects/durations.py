"""Convert durations in Go's notation, such as `1m30s`, to seconds and back."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from typing import Final

__all__ = ["format_duration", "parse_duration"]

_NANOSECONDS: Final = {
    "ns": 1,
    "us": 10**3,
    "\N{MICRO SIGN}s": 10**3,
    "\N{GREEK SMALL LETTER MU}s": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_LONGEST: Final = 2**63 - 1
_PART: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]*)")


def parse_duration(text: str) -> float:
    """Return the seconds that `text` means; raise `ValueError`, worded as Go's, for what is no duration."""
    shown = json.dumps(text, ensure_ascii=False)
    rest = text[1:] if text[:1] in {"-", "+"} else text
    if rest == "0":
        return 0.0
    if not rest:
        raise ValueError(f"time: invalid duration {shown}")
    total = 0
    while rest:
        part = _PART.match(rest)
        whole, fraction, unit = part.groups(default="") if part else ("", "", "")
        if part is None or not (whole or fraction):
            raise ValueError(f"time: invalid duration {shown}")
        if not unit:
            raise ValueError(f"time: missing unit in duration {shown}")
        if unit not in _NANOSECONDS:
            raise ValueError(f"time: unknown unit {json.dumps(unit, ensure_ascii=False)} in duration {shown}")
        total += int(whole or 0) * _NANOSECONDS[unit]
        total += int(fraction or 0) * _NANOSECONDS[unit] // 10 ** len(fraction)
        rest = rest[part.end() :]
    if total > _LONGEST:
        raise ValueError(f"time: invalid duration {shown}")
    return (-total if text[0] == "-" else total) / 10**9


def format_duration(seconds: float) -> str:
    """Return `seconds` in Go's way, to the nanosecond: `1m30s`, `10m0s`, `1.5s`, `100ms`, `0s`."""
    # Through a fraction, so that what a file said comes back although a float holds it inexactly.
    nanoseconds = round(Fraction(seconds) * 10**9)
    sign, nanoseconds = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if nanoseconds == 0:
        return "0s"
    for unit in ("ns", "\N{MICRO SIGN}s", "ms"):
        if nanoseconds < 1000 * _NANOSECONDS[unit]:
            return f"{sign}{_decimal(nanoseconds, _NANOSECONDS[unit])}{unit}"
    minutes, rest = divmod(nanoseconds, _NANOSECONDS["m"])
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(rest, _NANOSECONDS['s'])}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else f"{sign}{text}"


def _decimal(amount: int, unit: int) -> str:
    """Return `amount / unit` in digits, without trailing zeros; `unit` is a power of ten."""
    whole, fraction = divmod(amount, unit)
    digits = str(fraction).rjust(len(str(unit)) - 1, "0").rstrip("0")
    return f"{whole}.{digits}" if fraction else str(whole)
