"""Evaluate a variable or value with the fields and indices after it, as in ``device.attributes["x"].y``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from kube_cel.errors import CelError
from kube_cel.operators import NO_OVERLOAD
from kube_cel.values import (
    LIST_CLASSES,
    NO_VALUE,
    Cidr,
    DefaultMap,
    Duration,
    Ip,
    Map,
    NamedFormat,
    Optional,
    Quantity,
    Rope,
    Semver,
    Timestamp,
    TypeValue,
    UInt,
    Url,
    find_key,
    list_index,
    show,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kube_cel.meter import Meter

__all__ = [
    "Attribute",
    "Conditional",
    "Qualifier",
    "go_type",
    "presence",
    "qualifier_problem",
]

_ABSENT: Final = object()
_INDEX_CLASSES: Final = frozenset({str, int, UInt, bool, float})
#: How Go calls the types of values, where messages show that.
_GO_TYPES: Final[dict[type, str]] = {
    bool: "types.Bool",
    int: "types.Int",
    UInt: "types.Uint",
    float: "types.Double",
    str: "types.String",
    bytes: "types.Bytes",
    type(None): "types.Null",
    list: "*types.baseList",
    range: "*types.baseList",
    Rope: "*types.concatList",
    Map: "*types.baseMap",
    DefaultMap: "*types.baseMap",
    TypeValue: "*types.Type",
    Timestamp: "types.Timestamp",
    Duration: "types.Duration",
    Optional: "*types.Optional",
    Quantity: "cel.Quantity",
    Semver: "cel.Semver",
    Url: "cel.URL",
    Ip: "cel.IP",
    Cidr: "cel.CIDR",
    NamedFormat: "cel.Format",
}


def go_type(value: Any) -> str:
    """Return what Go calls the type of a value."""
    return _GO_TYPES[value.__class__]


def qualifier_problem(value: Any) -> str:
    """Return why a value cannot be an index, nothing where it can."""
    return "" if value.__class__ in _INDEX_CLASSES else f"invalid qualifier type: {go_type(value)}"


def _look_up(value: Any, key: Any) -> Any:
    """Return what a value has under a key; `_ABSENT` where it has nothing there."""
    kind = value.__class__
    if kind is Map or kind is DefaultMap:
        if key.__class__ is str:
            return value[key] if key in value or kind is DefaultMap else _ABSENT
        found = find_key(value, key)
        if found is None:
            return value[key] if kind is DefaultMap else _ABSENT
        return value[found]
    if kind in LIST_CLASSES:
        index = list_index(key)
        return value[index] if 0 <= index < len(value) else _ABSENT
    return _ABSENT


def _missing(value: Any, key: Any) -> CelError:
    what = "index out of bounds" if value.__class__ in LIST_CLASSES else "no such key"
    return CelError(f"{what}: {show(key)}")


@attrs.frozen(eq=False)
class Qualifier:
    """A field or an index: `key`, or what finds it out when it is needed."""

    key: Any
    resolve: Callable[[Meter], Any] | None = None
    optional: bool = False
    test_only: bool = False

    def apply(self, value: Any, meter: Meter, *, optional: bool) -> Any:
        """Return what a value has there; `_ABSENT` where it has nothing and that is no error."""
        if not optional:
            meter.cost += 1
        key = self.key
        if self.resolve is not None:
            if not optional:
                meter.cost -= 1
            try:
                key = self.resolve(meter)
                problem = qualifier_problem(key)
                if problem:
                    raise CelError(problem)
            finally:
                if not optional:
                    meter.cost += 1
        found = _look_up(value, key)
        if self.test_only and not optional:
            return found is not _ABSENT
        if found is _ABSENT:
            if not optional:
                raise _missing(value, key)
            return _ABSENT
        meter.cost += optional
        return found


@attrs.frozen(eq=False)
class Attribute:
    """A value with qualifiers; `slot` is that of the variable it is, if it is one."""

    base: Callable[[Meter], Any]
    qualifiers: tuple[Qualifier, ...] = ()
    slot: int = -1

    def extend(self, qualifier: Qualifier) -> Attribute:
        """Return the attribute with one more qualifier."""
        return Attribute(self.base, (*self.qualifiers, qualifier), self.slot)

    def resolve(self, meter: Meter) -> Any:
        """Return the value; raise `CelError`."""
        value = self.base(meter)
        optional = value.__class__ is Optional
        if optional:
            if value is NO_VALUE or not self.qualifiers:
                return value
            value = value.value
        for qualifier in self.qualifiers:
            optional = optional or qualifier.optional
            value = qualifier.apply(value, meter, optional=optional)
            if value is _ABSENT:
                return NO_VALUE
        return Optional(value) if optional else value

    def run(self, meter: Meter) -> Any:
        """Return the value as that of a node."""
        try:
            return self.resolve(meter)
        finally:
            meter.cost += 1

    def compiled(self) -> Callable[[Meter], Any]:
        """Return `run`, or what does the same faster for variables with fields that are known."""
        slot, keys = self.slot, tuple(qualifier.key for qualifier in self.qualifiers)
        if slot < 0 or any(one.resolve or one.optional or one.test_only for one in self.qualifiers):
            return self.run
        if not keys:

            def run_variable(meter: Meter) -> Any:
                meter.cost += 1
                return meter.slots[slot]

            return run_variable
        if any(key.__class__ is not str for key in keys):
            return self.run
        count = len(keys) + 1

        def run_fields(meter: Meter) -> Any:
            value: Any = meter.slots[slot]
            try:
                for key in keys:
                    kind = value.__class__
                    if kind is not Map and kind is not DefaultMap:
                        return self.run(meter)
                    value = value[key]
            except KeyError:
                return self.run(meter)
            meter.cost += count
            return value

        return run_fields


@attrs.frozen(eq=False)
class Conditional:
    """One of two attributes; qualifiers are asked of whichever it is."""

    condition: Callable[[Meter], Any]
    one: Attribute | Conditional
    other: Attribute | Conditional

    def extend(self, qualifier: Qualifier) -> Conditional:
        """Return the same with one more qualifier on both."""
        return Conditional(self.condition, self.one.extend(qualifier), self.other.extend(qualifier))

    def resolve(self, meter: Meter) -> Any:
        """Return the value; raise `CelError`."""
        decided = self.condition(meter)
        if decided is True:
            return self.one.resolve(meter)
        if decided is False:
            return self.other.resolve(meter)
        raise CelError(NO_OVERLOAD)

    def compiled(self) -> Callable[[Meter], Any]:
        """Return what evaluates it as a node."""
        return self.resolve


def presence(attribute: Attribute | Conditional) -> Callable[[Meter], bool]:
    """Return what evaluates whether the last qualifier of an attribute finds something."""

    def run(meter: Meter) -> bool:
        value = attribute.resolve(meter)
        return value is not NO_VALUE if value.__class__ is Optional else bool(value)

    return run
