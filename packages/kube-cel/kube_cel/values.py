"""The Python classes of CEL's values.

Python's own types are used for most values, such as numbers and texts. An unsigned integer is a `UInt`, a map is a
`Map`, and a list may be a `Rope` of concatenated lists.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from kube_cel.errors import CelError, CelInternalError

if TYPE_CHECKING:
    import ipaddress
    from collections.abc import Callable, Iterator, Sequence

    from kube_cel.meter import Meter

__all__ = [
    "LIST_CLASSES",
    "MAX_INT",
    "MAX_UINT",
    "MIN_INT",
    "NO_VALUE",
    "Cidr",
    "DefaultMap",
    "Duration",
    "Ip",
    "Map",
    "NamedFormat",
    "Optional",
    "Quantity",
    "Rope",
    "Semver",
    "Timestamp",
    "TypeValue",
    "UInt",
    "Url",
    "find_key",
    "from_json",
    "items_of",
    "key_of",
    "show",
    "show_double",
    "size_of",
    "type_name",
    "value_of_key",
]

MAX_INT: Final = 2**63 - 1
MIN_INT: Final = -(2**63)
MAX_UINT: Final = 2**64 - 1


class UInt(int):
    """An unsigned integer of 64 bits."""

    __slots__ = ()


class Rope:
    """Two lists one behind the other, neither of them empty; nothing is copied."""

    __slots__ = ("left", "right", "size")

    def __init__(self, left: Any, right: Any) -> None:
        self.left = left
        self.right = right
        self.size: int = len(left) + len(right)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Any:
        node: Any = self
        while node.__class__ is Rope:
            first = len(node.left)
            if index < first:
                node = node.left
            else:
                index -= first
                node = node.right
        return node[index]

    def __iter__(self) -> Iterator[Any]:
        stack: list[Any] = [self]
        while stack:
            node = stack.pop()
            if node.__class__ is Rope:
                stack.append(node.right)
                stack.append(node.left)
            else:
                yield from node


LIST_CLASSES: Final[frozenset[Any]] = frozenset({list, range, Rope})

MapKey: TypeAlias = Any


class Map(dict[MapKey, Any]):
    """A map. Its keys are those that `key_of` makes: texts and integers as they are, others marked with their kind."""

    __slots__ = ()


_EMPTY: Final = Map()


class DefaultMap(Map):
    """A map that answers every question for a key it does not have with an empty map."""

    __slots__ = ()

    def __missing__(self, key: MapKey) -> Map:
        return _EMPTY


def from_json(value: object) -> Any:
    """Return the value of what `json` reads: dicts become maps, at any depth; all else is a value already."""
    if isinstance(value, dict):
        return Map({key: from_json(each) for key, each in value.items()})
    if isinstance(value, list):
        return [from_json(each) for each in value]
    return value


@attrs.frozen
class TypeValue:
    """A type as a value."""

    name: str

    def __str__(self) -> str:
        return self.name


@attrs.frozen
class Timestamp:
    """A moment: seconds since 1970 in UTC with nanoseconds, shown in a time zone so many seconds east."""

    seconds: int
    nanos: int
    offset: int = attrs.field(default=0, eq=False)


@attrs.frozen
class Duration:
    """A length of time in nanoseconds."""

    nanos: int


class Optional:
    """A value that may be missing; `NO_VALUE` is the one that is."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


NO_VALUE: Final = Optional(None)


@attrs.frozen(eq=False)
class Quantity:
    """An amount: `value` times ten to the power of `scale`.

    `is_exact` says that Kubernetes keeps the amount as a 64-bit number, and not as a decimal of any length.
    """

    value: int
    scale: int
    is_exact: bool


@attrs.frozen(eq=False)
class Semver:
    """A version: major, minor and patch, and `order`, by which versions compare."""

    numbers: tuple[int, int, int]
    order: tuple[Any, ...]


@attrs.frozen(eq=False)
class Url:
    """A URL in its parts."""

    text: str
    scheme: str
    host: str
    hostname: str
    port: str
    path: str
    query: str


@attrs.frozen
class Ip:
    """An address."""

    address: ipaddress.IPv4Address | ipaddress.IPv6Address

    def __len__(self) -> int:
        return self.address.max_prefixlen // 8


@attrs.frozen
class Cidr:
    """An address with the length of its network's prefix."""

    address: ipaddress.IPv4Address | ipaddress.IPv6Address
    bits: int

    def __len__(self) -> int:
        return (self.bits + 7) // 8


@attrs.frozen(eq=False)
class NamedFormat:
    """A format that texts can be checked against; `regex_size` decides what that costs."""

    name: str
    check: Callable[[str, Meter], Sequence[str]]
    regex_size: int


_NAMES: Final[dict[type, str]] = {
    bool: "bool",
    int: "int",
    UInt: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    range: "list",
    Rope: "list",
    Map: "map",
    DefaultMap: "map",
    TypeValue: "type",
    Timestamp: "google.protobuf.Timestamp",
    Duration: "google.protobuf.Duration",
    Optional: "optional_type",
    Quantity: "kubernetes.Quantity",
    Semver: "kubernetes.Semver",
    Url: "kubernetes.URL",
    Ip: "net.IP",
    Cidr: "net.CIDR",
    NamedFormat: "kubernetes.NamedFormat",
}
_SIZED: Final[frozenset[Any]] = frozenset({str, bytes, list, range, Rope, Map, DefaultMap, Ip, Cidr})
#: What Go cannot look up in a map, by the name it gives to that.
_UNHASHABLE: Final[dict[type, str]] = {bytes: "types.Bytes", Semver: "cel.Semver", NamedFormat: "cel.Format"}


def type_name(value: Any) -> str:
    """Return what CEL calls the type of a value."""
    return _NAMES[value.__class__]


def size_of(value: Any) -> int:
    """Return how large a value is as cost goes: 1 for everything that has no size."""
    if value.__class__ is Optional and value is not NO_VALUE:
        return size_of(value.value)
    return len(value) if value.__class__ in _SIZED else 1


# --- maps ----------------------------------------------------------------------------------------


class _Itself:
    """A key that equals no other, as lists are in Go's maps."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def key_of(value: Any) -> MapKey:
    """Return the key under which a `Map` keeps an entry; raise `CelInternalError` where Go's maps would fail."""
    kind = value.__class__
    if kind is str or kind is int:
        return value
    if kind in _UNHASHABLE:
        raise CelInternalError(f"internal error: runtime error: hash of unhashable type {_UNHASHABLE[kind]}")
    if kind is bool or kind is UInt or kind is float:
        return kind, value
    if kind in LIST_CLASSES or kind in (Map, DefaultMap, Optional, Quantity, Url):
        return _Itself(value)
    return kind, value


def value_of_key(key: MapKey) -> Any:
    """Return the value that a key stands for."""
    if key.__class__ is tuple:
        return key[1]
    return key.value if key.__class__ is _Itself else key


def find_key(map_: Map, value: Any) -> MapKey | None:
    """Return the key of a map that equals a value, a number of another type included; None where there is none."""
    key = key_of(value)
    if key in map_:
        return key
    kind = value.__class__
    if kind is int:
        other = (UInt, value)
        return other if value >= 0 and other in map_ else None
    if kind is UInt:
        return int(value) if value <= MAX_INT and int(value) in map_ else None
    if kind is float and value == value // 1 and MIN_INT < value < 2.0**64:
        whole = int(value)
        if whole < MAX_INT and whole in map_:
            return whole
        return (UInt, whole) if whole >= 0 and (UInt, whole) in map_ else None
    return None


# --- lists ---------------------------------------------------------------------------------------


def items_of(value: Any, meter: Meter) -> Iterator[Any]:
    """Yield the elements of a list, or the keys of a map; a step each."""
    keys = value.__class__ in (Map, DefaultMap)
    for item in value:
        meter.fuel -= 1
        if meter.fuel < 0:
            meter.tick(0)
        yield value_of_key(item) if keys else item


def list_index(index: Any) -> int:
    """Return the place in a list that a number stands for; raise `CelError`."""
    kind = index.__class__
    if kind is int:
        return int(index)
    if kind is UInt and index <= MAX_INT:
        return int(index)
    if kind is float and MIN_INT < index < MAX_INT and index == int(index):
        return int(index)
    if kind is UInt or kind is float:
        raise CelError(f"unsupported index value {show(index)} in list")
    raise CelError(f"unsupported index type '{type_name(index)}' in list")


def show_double(value: float, widest: int = 21) -> str:
    """Return a number in the shortest form that reads back the same.

    Go writes one with more digits before the point than `widest` with an exponent: 21 for ``%v``, 6 for ``%g``.
    """
    if math.isnan(value):
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    text = repr(value)
    mantissa, _, exponent = text.partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return f"{sign}0"
    point = len(whole) + (int(exponent) if exponent else 0)
    if whole == "0":
        point -= len(fraction) - len(fraction.lstrip("0")) + 1
    digits = digits.rstrip("0") or "0"
    if -4 <= point - 1 < widest:
        if point <= 0:
            return f"{sign}0.{'0' * -point}{digits}"
        if len(digits) <= point:
            return f"{sign}{digits}{'0' * (point - len(digits))}"
        return f"{sign}{digits[:point]}.{digits[point:]}"
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    power = point - 1
    return f"{sign}{digits[0]}{rest}e{'-' if power < 0 else '+'}{abs(power):02d}"


def show(value: Any) -> str:
    """Return a value as messages show it."""
    kind = value.__class__
    if kind is bool:
        return "true" if value else "false"
    if kind is float:
        return show_double(value)
    if kind is str or kind is int or kind is UInt:
        return str(value)
    if value is None:
        return "0"
    if kind is bytes:
        return f"[{' '.join(map(str, value[:4096]))}]"
    if kind in LIST_CLASSES and len(value) <= 1000:
        return f"[{', '.join(map(show, value))}]"
    return str(value) if kind is TypeValue else type_name(value)
