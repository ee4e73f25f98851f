"""Compute how much of a device's capacity a request takes.

A request is rounded up to an amount that the device's request policy allows, for example from 15Gi to 20Gi.
Source: kube-scheduler 1.36, `dynamic-resource-allocation/structured/internal/incubating/consumable_capacity.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pyscheduler.api import RawQuantity, parse_quantity, value_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler.api import CapacityRequestPolicyRange, DeviceCapacity

__all__ = ["Amount", "Capacity", "consumed_amounts", "fits"]

_NANO: Final = 10**9
_BINARY_SUFFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


class Amount(NamedTuple):
    """A quantity, as a number of nanos (see `api.quantity`) and as it is written."""

    nanos: int
    raw: RawQuantity

    @classmethod
    def of(cls, raw: RawQuantity) -> Amount:
        """Read a quantity; raise `QuantityError`."""
        return cls(parse_quantity(raw), raw)

    @classmethod
    def of_whole(cls, value: int) -> Amount:
        """Write a number of whole units with the binary suffix that leaves no fraction."""
        exponent = 0
        rest = value
        while rest and rest % 1024 == 0 and exponent < len(_BINARY_SUFFIXES) - 1:
            rest //= 1024
            exponent += 1
        return cls(value * _NANO, f"{rest}{_BINARY_SUFFIXES[exponent]}")


class _Range(NamedTuple):
    min: Amount | None
    max: Amount | None
    step: Amount | None

    @classmethod
    def of(cls, policy: CapacityRequestPolicyRange) -> _Range:
        return cls(_optional(policy.min), _optional(policy.max), _optional(policy.step))

    def round_up(self, asked: Amount) -> Amount:
        if self.min is None:
            return asked
        if asked.nanos < self.min.nanos:
            return self.min
        if not (step := self._step()):
            return asked
        least = value_of(self.min.nanos)
        steps = -(-(value_of(asked.nanos) - least) // step)
        return Amount.of_whole(least + step * steps)

    def allows(self, amount: Amount) -> bool:
        if self.max is not None and amount.nanos > self.max.nanos:
            return False
        least = value_of(self.min.nanos) if self.min is not None else 0
        step = self._step()
        return not step or (value_of(amount.nanos) - least) % step == 0

    def _step(self) -> int:
        return value_of(self.step.nanos) if self.step is not None else 0


class Capacity(NamedTuple):
    """A capacity of a device: how much, and what may be asked for at once."""

    value: Amount
    default: Amount | None
    valid_values: tuple[Amount, ...]
    valid_range: _Range | None

    @classmethod
    def of(cls, capacity: DeviceCapacity) -> Capacity:
        """Read a capacity; raise `QuantityError`."""
        value, policy = Amount.of(capacity.value), capacity.request_policy
        if policy is None:
            return cls(value, None, (), None)
        valid_range = _Range.of(policy.valid_range) if policy.valid_range is not None else None
        values = tuple(Amount.of(raw) for raw in policy.valid_values)
        return cls(value, _optional(policy.default), values, valid_range)

    def consumed_by(self, asked: Amount | None) -> Amount | None:
        """Return how much a request takes, None where the policy does not allow it."""
        if asked is None:
            consumed = self.value if self.default is None else self.default
        elif self.valid_range is not None and self.valid_range.min is not None:
            consumed = self.valid_range.round_up(asked)
        else:
            consumed = next((valid for valid in self.valid_values if asked.nanos <= valid.nanos), asked)
        return consumed if self._allows(consumed) else None

    def _allows(self, amount: Amount) -> bool:
        if self.default is not None and amount.nanos == self.default.nanos:
            return True
        if self.valid_range is not None:
            return self.valid_range.allows(amount)
        return not self.valid_values or any(amount.nanos == valid.nanos for valid in self.valid_values)


def consumed_amounts(
    asked: Mapping[str, Amount] | None, capacity: Mapping[str, Capacity]
) -> Mapping[str, Amount] | None:
    """Return how much of each capacity of a device a request takes.

    None where the device does not have what is asked for, or its policy does not allow that much.
    """
    if asked is None:
        asked = {}
    elif not asked.keys() <= capacity.keys():
        return None
    consumed: dict[str, Amount] = {}
    for name, one in capacity.items():
        amount = one.consumed_by(asked.get(name))
        if amount is None:
            return None
        consumed[name] = amount
    return consumed


def fits(consumed: Mapping[str, Amount], capacity: Mapping[str, Capacity], taken: Mapping[str, int]) -> bool:
    """Return whether a device has that much left besides the amounts taken of it, in nanos."""
    return all(amount.nanos + taken.get(name, 0) <= capacity[name].value.nanos for name, amount in consumed.items())


def _optional(raw: RawQuantity | None) -> Amount | None:
    return None if raw is None else Amount.of(raw)
