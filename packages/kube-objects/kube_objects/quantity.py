"""Resource quantities as exact integers, parsed as Kubernetes parses them.

Kubernetes keeps nine decimal places. So this module counts in billionths of a unit (nanos). Round a sum, not its
parts: two times ``0.5`` bytes are one byte, not two.
"""

from __future__ import annotations

import re
from functools import lru_cache, total_ordering
from typing import Final

from kube_objects.errors import QuantityError
from kube_objects.meta import RawQuantity

NANO: Final = 10**9
"""Billionths in one unit."""
MAX_INT64: Final = 2**63 - 1
"""The largest amount that takes part in scheduling; larger ones count as this one."""

_MAX_NANOS: Final = MAX_INT64 * NANO
_NANOS_PER_MILLI: Final = 10**6
_DECIMAL_PLACES: Final = 9
#: More digits than this before the point are beyond MAX_INT64 whatever they are.
_MAX_WHOLE_DIGITS: Final = 20
#: Fraction digits kept of a number with a binary suffix; what follows can only matter for rounding up.
_MAX_FRACTION_DIGITS: Final = 60
#: Kubernetes reads the exponent as a 64-bit number and refuses what does not fit.
_MAX_EXPONENT_DIGITS: Final = 18

_PATTERN: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?:[eE](?P<exponent>[+-]?[0-9]+)|(?P<suffix>[numkMGTPE]|[KMGTPE]i))?"
)
_POWERS_OF_TEN: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
#: The suffixes of a canonical quantity: powers of a thousand from a billionth on, and powers of 1,024.
_DECIMAL_SUFFIXES: Final = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_BINARY_SUFFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_KIBI: Final = 1024
_POWERS_OF_TWO: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


@lru_cache(maxsize=1 << 16)
def parse_quantity(raw: RawQuantity) -> int:
    """Return the quantity in nanos; raise `QuantityError` for what the API server would refuse.

    Digits beyond the ninth decimal place round up. Values beyond `MAX_INT64` units are cut to it.

    Differs from kube-scheduler: there, a decimal quantity over `MAX_INT64` overflows later and can end up as 0;
    here it stays too large to fit anywhere.
    """
    text = raw if isinstance(raw, str) else repr(raw)
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise _malformed(text)
    whole, fraction = match["whole"], match["fraction"] or ""
    if not whole and not fraction:
        raise _malformed(text)
    suffix = match["suffix"] or ""
    if suffix in _POWERS_OF_TWO:
        nanos = _binary(whole.lstrip("0"), fraction, _POWERS_OF_TWO[suffix])
    else:
        exponent = match["exponent"]
        if exponent is None:
            power = _POWERS_OF_TEN.get(suffix, 0)
        elif len(exponent.lstrip("+-0")) > _MAX_EXPONENT_DIGITS:
            raise _malformed(text)
        else:
            power = int(exponent)
        nanos = _decimal(whole + fraction, power - len(fraction))
    nanos = min(nanos, _MAX_NANOS)
    return -nanos if match["sign"] == "-" else nanos


@total_ordering
class Quantity:
    """An immutable amount with the text that gave it: `500m`, `1.5Gi`, `2`. Equal amounts are equal, however written.

    Raises `QuantityError` for what the API server would refuse.
    """

    __slots__ = ("_nanos", "text")

    def __init__(self, raw: RawQuantity) -> None:
        self._nanos = parse_quantity(raw)
        self.text = raw if isinstance(raw, str) else repr(raw)

    @property
    def value(self) -> int:
        """Return the amount in whole units (bytes, devices), rounded up."""
        return value_of(self._nanos)

    @property
    def milli(self) -> int:
        """Return the amount in thousandths (milli-CPU), rounded up."""
        return milli_of(self._nanos)

    def __eq__(self, other: object) -> bool:
        return self._nanos == other._nanos if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: Quantity) -> bool:
        return self._nanos < other._nanos if isinstance(other, Quantity) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._nanos)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Quantity({self.text!r})"


def format_quantity(nanos: int, *, is_binary: bool = False) -> str:
    """Return the canonical text of an amount: `1500m`, `2k`, `3Gi`, with the largest suffix that leaves no fraction.

    As in Kubernetes, `is_binary` only concerns whole amounts from 1,024 units on.
    """
    if not nanos:
        return "0"
    whole, rest = divmod(nanos, NANO)
    if is_binary and not rest and abs(whole) >= _KIBI:
        return _scaled(whole, _KIBI, _BINARY_SUFFIXES)
    return _scaled(nanos, 1000, _DECIMAL_SUFFIXES)


def _scaled(amount: int, base: int, suffixes: tuple[str, ...]) -> str:
    power = 0
    while amount % base == 0 and power < len(suffixes) - 1:
        amount, power = amount // base, power + 1
    return f"{amount}{suffixes[power]}"


def value_of(nanos: int) -> int:
    """Return nanos in whole units, rounded away from zero, within 64 bits."""
    if nanos < 0:
        return max(nanos // NANO, -MAX_INT64)
    return min(-(-nanos // NANO), MAX_INT64)


def milli_of(nanos: int) -> int:
    """Return nanos in thousandths of a unit, rounded away from zero, within 64 bits."""
    if nanos < 0:
        return max(nanos // _NANOS_PER_MILLI, -MAX_INT64)
    return min(-(-nanos // _NANOS_PER_MILLI), MAX_INT64)


@lru_cache(maxsize=1 << 16)
def quantity_value(raw: RawQuantity) -> int:
    """Return the quantity in whole units (bytes, devices), rounded up; raise `QuantityError`."""
    return value_of(parse_quantity(raw))


@lru_cache(maxsize=1 << 16)
def quantity_milli(raw: RawQuantity) -> int:
    """Return the quantity in thousandths (milli-CPU), rounded up; raise `QuantityError`."""
    return milli_of(parse_quantity(raw))


def _decimal(digits: str, power: int) -> int:
    # Only digits between MAX_INT64 and a billionth count, so that neither a long text nor a wild exponent costs
    # more than reading it.
    digits = digits.lstrip("0")
    if not digits:
        return 0
    before_point = len(digits) + power
    if before_point > _MAX_WHOLE_DIGITS:
        return _MAX_NANOS
    kept = before_point + _DECIMAL_PLACES
    if kept < 0:
        return 1
    if kept >= len(digits):
        return int(digits + "0" * (kept - len(digits)))
    return int(digits[:kept] or "0") + (1 if digits[kept:].strip("0") else 0)


def _binary(whole: str, fraction: str, power: int) -> int:
    if len(whole) > _MAX_WHOLE_DIGITS:
        return _MAX_NANOS
    if len(fraction) > _MAX_FRACTION_DIGITS:
        rest = fraction[_MAX_FRACTION_DIGITS:].strip("0")
        fraction = fraction[:_MAX_FRACTION_DIGITS] + ("1" if rest else "")
    divisor: int = 10 ** len(fraction)
    return -(-(int(whole + fraction or "0") * (NANO << power)) // divisor)


def _malformed(text: str) -> QuantityError:
    shown = text if len(text) <= 40 else f"{text[:40]}..."
    return QuantityError(f"quantity {shown!r} is malformed; write it like 500m, 2, 1.5Gi or 1e3")
