"""Kubernetes quantities in expressions, such as ``1.5Gi`` or ``500m``: parsing, order and sums.

Source: `k8s.io/apimachinery/pkg/api/resource`.
"""

from __future__ import annotations

import re
from typing import Final

from kube_cel.errors import CelCancelledError, CelError
from kube_cel.values import MAX_INT, MIN_INT, Quantity

__all__ = ["add_quantities", "approximate", "as_integer", "compare_quantities", "parse_quantity"]

_PATTERN: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?(?P<suffix>[eEinumkKMGTP]*[-+]?[0-9]*)"
)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_EXPONENT: Final = re.compile(r"[eE][+-]?[0-9]+")
_RULE: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_MOST_DIGITS: Final = 18
_MOST_SHIFT: Final = 20_000


def parse_quantity(text: str) -> Quantity:
    """Return the amount that a text says; raise `CelError` if it says none."""
    match = _PATTERN.fullmatch(text)
    if match is None or not text:
        raise CelError(_RULE)
    positive, whole = match["sign"] != "-", match["whole"].lstrip("0")
    fraction, suffix = match["fraction"] or "", match["suffix"]
    whole = whole or "0"
    if suffix in _BINARY:
        return _binary(positive, whole, fraction, _BINARY[suffix])
    if suffix in _DECIMAL:
        exponent = _DECIMAL[suffix]
    elif _EXPONENT.fullmatch(suffix) and -(2**63) <= int(suffix[1:]) < 2**63:
        exponent = (int(suffix[1:]) + 2**31) % 2**32 - 2**31
    else:
        raise CelError("unable to parse quantity's suffix")
    if len(whole) + len(fraction) <= _MOST_DIGITS and exponent - len(fraction) >= -9:
        value = int(whole + fraction)
        return Quantity(value if positive else -value, exponent - len(fraction), is_exact=True)
    return _rounded(positive, int(whole + fraction), exponent - len(fraction))


def _binary(positive: bool, whole: str, fraction: str, power: int) -> Quantity:
    # Go works this out with 32-bit floating-point numbers; for these powers that makes no difference.
    if not fraction and 15 - len(whole) - power * 3 // 10 - 1 >= 0:
        value = int(whole) << power
        if value <= MAX_INT:
            return Quantity(value if positive else -value, 0, is_exact=True)
    made = _rounded(positive, int(whole + fraction) << power, -len(fraction))
    limit = Quantity(MAX_INT, 0, is_exact=False)
    size = Quantity(abs(made.value), made.scale, is_exact=False)
    if compare_quantities(size, limit) > 0:
        return Quantity(MAX_INT if positive else -MAX_INT, 0, is_exact=False)
    return made


def _rounded(positive: bool, value: int, scale: int) -> Quantity:
    """Return a decimal with nine places behind the point at most, rounded away from zero."""
    if scale < -9:
        shift = -9 - scale
        value = -(-value // 10**shift) if shift <= _MOST_SHIFT else int(value > 0)
        scale = -9
    return Quantity(value if positive else -value, scale, is_exact=False)


def compare_quantities(left: Quantity, right: Quantity) -> int:
    """Return -1, 0 or 1 as one amount is less than, equal to or greater than another."""
    one, other = _sign(left), _sign(right)
    if one != other or not one:
        return (one > other) - (one < other)
    # Amounts of different magnitude are told apart without writing them out.
    sizes = [len(str(abs(each.value))) + each.scale for each in (left, right)]
    if sizes[0] != sizes[1]:
        return one if sizes[0] > sizes[1] else -one
    lowest = min(left.scale, right.scale)
    first, second = (int(each.value * 10 ** (each.scale - lowest)) for each in (left, right))
    return (first > second) - (first < second)


def _sign(quantity: Quantity) -> int:
    return (quantity.value > 0) - (quantity.value < 0)


def add_quantities(left: Quantity, right: Quantity, sign: int = 1) -> Quantity:
    """Return the sum of two amounts, or with a sign of -1 their difference."""
    if left.is_exact and right.is_exact:
        if not right.value:
            return left
        if not left.value:
            return Quantity(sign * right.value, right.scale, is_exact=True)
    lowest = min(left.scale, right.scale)
    if max(left.scale, right.scale) - lowest > _MOST_SHIFT:
        raise CelCancelledError
    shifted = [each.value * 10 ** (each.scale - lowest) for each in (left, right)]
    value = shifted[0] + sign * shifted[1]
    fits = all(MIN_INT <= each <= MAX_INT for each in (*shifted, value))
    return Quantity(value, lowest, is_exact=left.is_exact and right.is_exact and fits)


def as_integer(quantity: Quantity) -> int | None:
    """Return an amount as an integer of 64 bits; None where Kubernetes does not store it as one."""
    if not quantity.is_exact or quantity.scale < 0 or quantity.scale > _MOST_DIGITS:
        return None
    value = quantity.value * 10**quantity.scale
    return value if MIN_INT <= value <= MAX_INT else None


def approximate(quantity: Quantity) -> float:
    """Return an amount as a floating-point number."""
    try:
        base = float(quantity.value)
    except OverflowError:
        base = float("inf") if quantity.value > 0 else float("-inf")
    return base * float(f"1e{quantity.scale}") if quantity.scale else base
