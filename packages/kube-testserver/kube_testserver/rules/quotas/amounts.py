"""Exact amounts of a ResourceQuota, and their text with a suffix such as `Mi`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kube_objects.quantity import NANO, format_quantity, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kube_objects.meta import RawQuantity

__all__ = ["ONE", "ZERO", "Amount", "Amounts", "added", "read", "subtracted"]


class Amount(NamedTuple):
    """An amount in billionths of a unit."""

    nanos: int
    is_binary: bool = False

    def __add__(self, other: object) -> Amount:
        if not isinstance(other, Amount):
            return NotImplemented
        return Amount(self.nanos + other.nanos, self.is_binary if self.nanos else other.is_binary)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.nanos - other.nanos, self.is_binary if self.nanos else other.is_binary)

    def __str__(self) -> str:
        return format_quantity(self.nanos, is_binary=self.is_binary)


Amounts = dict[str, Amount]
"""Amounts by the names that quotas use, such as `pods`, `requests.cpu` and `count/jobs.batch`."""

ZERO: Final = Amount(0)
ONE: Final = Amount(NANO)


def read(raw: RawQuantity) -> Amount:
    """Return the amount that a quantity says; raise `QuantityError` for what is none."""
    return Amount(parse_quantity(raw), isinstance(raw, str) and raw.endswith("i"))


def added(one: Mapping[str, Amount], other: Mapping[str, Amount]) -> Amounts:
    """Return the sum by name."""
    return dict(one) | {name: one.get(name, ZERO) + amount for name, amount in other.items()}


def subtracted(one: Mapping[str, Amount], other: Mapping[str, Amount]) -> Amounts:
    """Return the first less the second by name."""
    return dict(one) | {name: one.get(name, ZERO) - amount for name, amount in other.items()}
