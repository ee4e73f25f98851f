"""The runtime cost of each CEL function call, by function and argument types.

Source: cel-go 0.26, `interpreter/runtimecost.go` and `ext`; Kubernetes 1.36, `cel/library/cost.go`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kube_cel.attributes import go_type
from kube_cel.errors import CelInternalError
from kube_cel.meter import tenth
from kube_cel.values import (
    LIST_CLASSES,
    Cidr,
    DefaultMap,
    Duration,
    Ip,
    Map,
    NamedFormat,
    Quantity,
    Semver,
    Timestamp,
    UInt,
    Url,
    find_key,
    items_of,
    size_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kube_cel.meter import Meter

__all__ = ["FAILED", "Cost", "cost_of", "equality_cost", "inequality_cost"]

FAILED: Final = object()

Cost: TypeAlias = "Callable[..., int]"
"""Takes the meter and the arguments of a call."""

_CHEAP_OBJECTS: Final = frozenset({Quantity, Ip, Cidr, NamedFormat, Url, Semver})
#: Values that can be added, as lists can.
_ADDED: Final[frozenset[Any]] = frozenset({int, UInt, float, str, bytes, Timestamp, Duration})
_CALL: Final = 1
_LIST: Final = 10


def _quarter(size: int) -> int:
    return math.ceil(size * 0.25)


def _one(meter: Meter, *args: Any) -> int:
    return 1


def _read(meter: Meter, *args: Any) -> int:
    return tenth(size_of(args[0]))


def _read_twice(meter: Meter, *args: Any) -> int:
    return math.ceil(size_of(args[0]) * 2 * 0.1)


def _read_shorter(meter: Meter, *args: Any) -> int:
    return tenth(min(size_of(args[0]), size_of(args[1])))


def equality_cost(meter: Meter, left: Any, right: Any) -> int:
    """Return what ``==`` costs."""
    return 1 if left.__class__ in _CHEAP_OBJECTS else tenth(min(size_of(left), size_of(right)))


def inequality_cost(meter: Meter, left: Any, right: Any) -> int:
    """Return what ``!=`` costs."""
    return tenth(min(size_of(left), size_of(right)))


def _read_both(meter: Meter, *args: Any) -> int:
    return tenth(size_of(args[0]) + size_of(args[1]))


def _search(meter: Meter, *args: Any) -> int:
    return math.ceil((1.0 + size_of(args[0])) * 0.1) * _quarter(size_of(args[1]))


def _contain(meter: Meter, *args: Any) -> int:
    return tenth(size_of(args[0])) * tenth(size_of(args[1]))


def _second(meter: Meter, *args: Any) -> int:
    return size_of(args[1])


def _traverse(meter: Meter, *args: Any) -> int:
    return _traversal(args[0], meter)


def _traversal(value: Any, meter: Meter) -> int:
    kind = value.__class__
    if kind is str:
        return int(len(value.encode(errors="surrogatepass")) * 0.1)
    if kind is bytes:
        return int(len(value) * 0.1)
    if kind in LIST_CLASSES:
        return sum(_traversal(item, meter) for item in items_of(value, meter))
    if kind is Map or kind is DefaultMap:
        keys = items_of(value, meter)
        return sum(_traversal(key, meter) + _traversal(value[find_key(value, key)], meter) for key in keys)
    return 1


def _join(meter: Meter, *args: Any) -> int:
    if args[0].__class__ not in LIST_CLASSES:
        return 1
    length = max(len(args[0]) - 1, 0) * size_of(args[1]) if len(args) > 1 else 0
    for item in items_of(args[0], meter):
        if item.__class__ is not str:
            return 1  # it fails
        length += len(item)
    return math.ceil(length * 2 * 0.1)


def _contains_ip(*, text: bool) -> Cost:
    def cost(meter: Meter, *args: Any) -> int:
        own = size_of(args[0])
        return tenth(own + own) + (tenth(size_of(args[1])) if text else 0)

    return cost


def _contains_cidr(*, text: bool) -> Cost:
    def cost(meter: Meter, *args: Any) -> int:
        own = size_of(args[0])
        return tenth(own + own) + tenth(own) + 1 + (tenth(size_of(args[1])) if text else 0)

    return cost


def _validate(meter: Meter, *args: Any) -> int:
    if args[0].__class__ is not NamedFormat:
        return 1
    return math.ceil((1.0 + size_of(args[1])) * 0.1) * _quarter(args[0].regex_size)


def _sets(factor: int) -> Cost:
    return lambda meter, *args: _CALL + size_of(args[0]) * size_of(args[1]) * factor


def _slice(meter: Meter, *args: Any) -> int:
    items, start, end = args
    fits = items.__class__ in LIST_CLASSES and 0 <= start <= end <= len(items) if FAILED not in args else False
    return _CALL + _LIST + (end - start if fits else 1)


def _range(meter: Meter, *args: Any) -> int:
    return _CALL + _LIST + (max(args[0], 0) if args[0] is not FAILED else 1)


def _reverse(meter: Meter, *args: Any) -> int:
    return _CALL + _LIST + size_of(args[0])


def _panic(conversion: str) -> CelInternalError:
    """Return the error in which cel-go ends where it works out a cost from a value of the wrong type."""
    return CelInternalError(f"internal error: interface conversion: {conversion}")


def _go_type(value: Any) -> str:
    return "*types.Err" if value is FAILED else go_type(value)


def _flatten(meter: Meter, *args: Any) -> int:
    depth = args[1] if len(args) > 1 else 1
    if depth.__class__ is not int:
        raise _panic(f"ref.Val is {_go_type(depth)}, not types.Int")
    return _CALL + _LIST + max(depth, 0) * size_of(args[0])


def _compare_all(place: int) -> Cost:
    def cost(meter: Meter, *args: Any) -> int:
        items = args[place]
        if items.__class__ not in LIST_CLASSES:
            method = "Contains" if items.__class__ in _ADDED else "Add"
            raise _panic(f"{_go_type(items)} is not traits.Lister: missing method {method}")
        if not len(items):
            return _CALL + _LIST
        factor = 2.1 if items[0].__class__ in (str, bytes) else 2.0
        return int(len(items) ** 2 * factor) + _CALL + _LIST

    return cost


_BY_FUNCTION: Final[dict[str, Cost]] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _traverse),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim"), _read),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "ip", "quantity", "isQuantity", "semver", "isSemver"), _read),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _read_twice),
    **dict.fromkeys(("find", "findAll"), _search),
    "join": _join,
    "validate": _validate,
    "sets.contains": _sets(1),
    "sets.intersects": _sets(1),
    "sets.equivalent": _sets(2),
    "slice": _slice,
    "flatten": _flatten,
    "lists.range": _range,
    "reverse": _reverse,
    "distinct": _compare_all(0),
}
_BY_OVERLOAD: Final[dict[str, Cost]] = {
    **dict.fromkeys(
        ("starts_with_string", "ends_with_string", "string_to_bytes", "bytes_to_string", "strings_quote"), _read
    ),
    "string_format": _read,
    "in_list": _second,
    **dict.fromkeys(
        (
            f"{name}_{kind}"
            for name in ("less", "greater", "less_equals", "greater_equals")
            for kind in ("string", "bytes")
        ),
        _read_shorter,
    ),
    "add_string": _read_both,
    "add_bytes": _read_both,
    "matches_string": _search,
    "contains_string": _contain,
}


def cost_of(function: str, overload: str) -> Cost:
    """Return the cost of a function; `overload` is empty where several can apply."""
    if function == "containsIP":
        return _contains_ip(text=overload == "cidr_contains_ip_string")
    if function == "containsCIDR":
        return _contains_cidr(text=overload == "cidr_contains_cidr_string")
    if function in ("sort", "@sortByAssociatedKeys"):
        return _compare_all(function != "sort") if overload else _one
    if function == "ip":
        return _one if overload == "cidr_ip" else _read
    if function in ("slice", "flatten", "reverse", "distinct", "lists.range", "sets.contains") and not overload:
        return _one
    return _BY_FUNCTION.get(function) or _BY_OVERLOAD.get(overload, _one)
