"""Read quantities, durations and times, and sum amounts of resources.

Amounts are floats: ``cpu`` in millicores, ``memory`` in bytes, other resources in whole units.
"""

from __future__ import annotations

import re
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["GPU", "Amounts", "add", "fits", "plus", "quantity", "read_amounts", "seconds", "timestamp"]

Amounts = dict[str, float]
"""Amounts by name of the resource; a missing name is 0."""

GPU: Final = "nvidia.com/gpu"

_SUFFIXES: Final = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12),
    "P": Fraction(10**15), "E": Fraction(10**18), "Ki": Fraction(2**10), "Mi": Fraction(2**20),
    "Gi": Fraction(2**30), "Ti": Fraction(2**40), "Pi": Fraction(2**50), "Ei": Fraction(2**60),
}  # fmt: skip
_QUANTITY: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)([numkMGTPE]?i?)")
_DURATION: Final = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)")
_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
#: Sums of floats may differ by rounding; a difference up to this part of the larger amount is none.
_ROUNDING: Final = 1e-9


@lru_cache(maxsize=4096)
def quantity(text: str | float) -> float:
    """Return a quantity in its base unit; 0.0 if the text is no quantity."""
    match = _QUANTITY.fullmatch(str(text))
    if match is None or match[2] not in _SUFFIXES:
        return 0.0
    return float(Fraction(match[1]) * _SUFFIXES[match[2]])


def read_amounts(resources: Mapping[str, Any] | None) -> Amounts:
    """Return the amounts of a resource list of Kubernetes (``{"cpu": "500m"}``)."""
    found = {name: quantity(text) for name, text in (resources or {}).items()}
    if "cpu" in found:
        found["cpu"] *= 1000
    return found


def seconds(text: str | float | None) -> float | None:
    """Return a duration as Go writes it (``1h30m``, ``-5s``) or a number of seconds; None if there is none."""
    if text is None or text == "":
        return None
    if isinstance(text, int | float):
        return float(text)
    sign, body = (-1.0, text[1:]) if text.startswith("-") else (1.0, text)
    parts = _DURATION.findall(body)
    if not parts or "".join(number + unit for number, unit in parts) != body:
        try:
            return sign * float(body)
        except ValueError:
            return None
    return sign * sum(float(number) * _UNITS[unit] for number, unit in parts)


def timestamp(text: str | None) -> float | None:
    """Return a time of RFC 3339 in seconds since 1970; None if there is none."""
    if not text:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def add(total: Amounts, more: Mapping[str, float], sign: float = 1.0) -> None:
    """Add `more` times `sign` to `total` in place."""
    for name, amount in more.items():
        total[name] = total.get(name, 0.0) + sign * amount


def plus(*parts: Mapping[str, float]) -> Amounts:
    """Return the sum of the parts as a new mapping."""
    total: Amounts = {}
    for part in parts:
        add(total, part)
    return total


def fits(amount: float, bound: float) -> bool:
    """Return True if `amount` is at most `bound`, up to rounding."""
    return amount <= bound + _ROUNDING * max(1.0, abs(amount), abs(bound))
