"""Constraints of a claim: its devices must have equal values of an attribute, or all different values.

Source: kube-scheduler 1.36, `dynamic-resource-allocation/structured/internal/incubating`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

if TYPE_CHECKING:
    from pyscheduler.api import Device, DeviceConstraint

__all__ = ["LIST_VALUE", "AttributeValue", "Constraint", "lookup_attribute"]

AttributeValue: TypeAlias = tuple[str, str | int | bool]
"""The type and the value of an attribute; versions are equal where their texts are."""

LIST_VALUE: Final[AttributeValue] = ("list", "")
"""The value of an attribute with several values, whose comparison is behind a feature gate that is off."""


def lookup_attribute(device: Device, driver: str, name: str) -> AttributeValue | None:
    """Return an attribute by its full name, ``domain/name``; names without domain are of the driver's domain."""
    attribute = device.attributes.get(name)
    if attribute is None:
        domain, slash, short = name.partition("/")
        if not slash or domain != driver:
            return None
        attribute = device.attributes.get(short)
        if attribute is None:
            return None
    if attribute.string_value is not None:
        return ("string", attribute.string_value)
    if attribute.int_value is not None:
        return ("int", attribute.int_value)
    if attribute.bool_value is not None:
        return ("bool", attribute.bool_value)
    if attribute.version_value is not None:
        return ("version", attribute.version_value)
    return LIST_VALUE


@attrs.define(eq=False)
class Constraint:
    """The values that devices were chosen with so far; `add` and `remove` like a stack.

    Differs from kube-scheduler: every device's value is remembered for ``distinctAttribute``; there, only the last one
    of each request, so that three devices of one request may share a value that must be distinct.
    """

    distinct: bool
    values: list[AttributeValue] = attrs.Factory(list)

    @classmethod
    def of(cls, constraint: DeviceConstraint) -> Constraint:
        """Return the constraint without any device; the matching kind comes first where both are given."""
        return cls(constraint.match_attribute is None)

    def add(self, value: AttributeValue | None) -> bool:
        """Take in a device with this value; return whether it may be."""
        if value is None:
            return False
        if self.values and not self._agrees(value):
            return False
        self.values.append(value)
        return True

    def remove(self) -> None:
        """Take out the device that was taken in last."""
        self.values.pop()

    def _agrees(self, value: AttributeValue) -> bool:
        if value == LIST_VALUE:
            return False
        return value not in self.values if self.distinct else value == self.values[0]
