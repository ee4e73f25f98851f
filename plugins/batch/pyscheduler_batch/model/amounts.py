"""Format amounts of resources as text, such as `cpu 4, memory 8Gi`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from pyscheduler.framework.resource import EPHEMERAL_STORAGE
from pyscheduler_batch.model.axis import CPU, MEMORY

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["NONE", "UNLIMITED", "amount_text", "amounts_text"]

UNLIMITED: Final = "unlimited"
#: As kubectl prints it.
NONE: Final = "<none>"
_BYTES: Final = frozenset({MEMORY, EPHEMERAL_STORAGE, "storage"})
_UNITS: Final = (
    ("Ti", 2**40),
    ("Gi", 2**30),
    ("Mi", 2**20),
    ("Ki", 2**10),
    ("T", 10**12),
    ("G", 10**9),
    ("M", 10**6),
    ("k", 10**3),
)
#: Longer texts of bytes are rounded.
_LONGEST: Final = 8
_MILLI: Final = 1000


def amount_text(resource: str, amount: float) -> str:
    """Return an amount as a Kubernetes quantity; `<none>` for NaN, `unlimited` for infinity.

    `amount` is in the units of `pyscheduler_batch.model.axis`: cpu in millicores, memory in bytes.
    """
    if math.isnan(amount):
        return NONE
    if math.isinf(amount):
        return UNLIMITED if amount > 0 else f"-{UNLIMITED}"
    if amount < 0:
        return f"-{amount_text(resource, -amount)}"
    if resource in _BYTES:
        return _bytes_text(amount)
    if resource == CPU:
        return _plain(amount / _MILLI) if amount % _MILLI == 0 else f"{_plain(amount)}m"
    return _plain(amount)


def _bytes_text(amount: float) -> str:
    """Return the shortest exact text; with two digits after the point where no unit divides the amount."""
    exact = [f"{_plain(amount / size)}{unit}" for unit, size in _UNITS if amount % size == 0]
    text = min(exact, key=len) if amount and exact else _plain(amount)
    if len(text) <= _LONGEST:
        return text
    unit, size = next(each for each in _UNITS if amount >= each[1])
    return f"{_plain(round(amount / size, 2))}{unit}"


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) else f"{number:.3f}".rstrip("0").rstrip(".")


def amounts_text(amounts: Mapping[str, float]) -> str:
    """Return amounts by resource in one text, such as `cpu 4, memory 8Gi`."""
    return ", ".join(f"{name} {amount_text(name, value)}" for name, value in amounts.items()) or NONE
