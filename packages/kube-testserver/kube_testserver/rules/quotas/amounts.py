"""Amounts of a ResourceQuota, exact, and written as Kubernetes writes them.

An amount remembers whether it was given with a binary suffix, because Kubernetes keeps that form: `1Gi` of `1536Mi` is
shown as such, and 1000 pods as `1k`. A sum has the form of its first part that is not zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kube_objects.quantity import NANO, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kube_objects.meta import RawQuantity

__all__ = ["ONE", "ZERO", "Amount", "Amounts", "added", "read", "subtracted"]

_DECIMAL: Final = ((-3, "n"), (-2, "u"), (-1, "m"), (0, ""), (1, "k"), (2, "M"), (3, "G"), (4, "T"), (5, "P"), (6, "E"))
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_KIBI: Final = 1024


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
        """Return the canonical form: the largest suffix with which the number is whole."""
        whole, rest = divmod(self.nanos, NANO)
        if self.is_binary and not rest and abs(whole) >= _KIBI:
            power = 0
            while whole % _KIBI == 0 and power < len(_BINARY) - 1:
                whole, power = whole // _KIBI, power + 1
            return f"{whole}{_BINARY[power]}"
        number, suffix = self.nanos, _DECIMAL[0][1]
        for _, suffix in _DECIMAL:
            if not number or number % 1000 or suffix == _DECIMAL[-1][1]:
                break
            number //= 1000
        return f"{number}{suffix}" if number else "0"


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
