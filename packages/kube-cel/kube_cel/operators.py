"""CEL's operators and conversions: arithmetic, order, equality, membership, and functions such as ``int(x)``."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final

from kube_cel.errors import CelError
from kube_cel.quantities import compare_quantities
from kube_cel.times import (
    add_time,
    between,
    duration_of,
    parse_duration,
    parse_timestamp,
    show_duration,
    show_timestamp,
    timestamp_of,
)
from kube_cel.values import (
    LIST_CLASSES,
    MAX_INT,
    MAX_UINT,
    MIN_INT,
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
    items_of,
    show_double,
    type_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kube_cel.meter import Meter

__all__ = [
    "BINARY",
    "COMPARABLE",
    "CONVERSIONS",
    "NO_OVERLOAD",
    "compare",
    "contains",
    "equal",
    "is_zero",
    "negate",
    "no_overload",
]

NO_OVERLOAD: Final = "no such overload"
_RECEIVERS: Final[frozenset[Any]] = frozenset({str, Timestamp, Duration})
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_INT: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_FLOAT: Final = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf|infinity|nan)", re.ASCII | re.IGNORECASE
)
_HEX: Final = re.compile(r"[+-]?0[xX][0-9a-fA-F.]+[pP][+-]?[0-9]+", re.ASCII)


def no_overload(function: str, value: Any) -> CelError:
    """Return the error for an operator that a value knows nothing of."""
    return CelError(NO_OVERLOAD if value.__class__ in _RECEIVERS else f"{NO_OVERLOAD}: {function}")


# --- equality and order --------------------------------------------------------------------------


def equal(left: Any, right: Any, meter: Meter) -> bool:
    """Return whether two values are equal; raise `CelError` where cel-go reports one for those types."""
    kind = left.__class__
    if kind is str:
        return right.__class__ is str and left == right
    if left is None or right is None:
        return left is right
    other = right.__class__
    if kind in _NUMBERS:
        return other in _NUMBERS and _same_number(left, right)
    if kind in LIST_CLASSES:
        return other in LIST_CLASSES and _same_list(left, right, meter)
    if kind is Map or kind is DefaultMap:
        return (other is Map or other is DefaultMap) and _same_map(left, right, meter)
    return _same_object(left, right, meter)


_NUMBERS: Final[frozenset[Any]] = frozenset({int, UInt, float})


def _same_number(left: Any, right: Any) -> bool:
    if left.__class__ is not float and right.__class__ is not float:
        return int(left) == int(right)
    if left.__class__ is right.__class__:
        return bool(left == right)
    # Go compares an integer with a floating-point number after it has made one of it.
    number, other = (left, right) if left.__class__ is float else (right, left)
    return bool(not math.isnan(number) and _compare_double(number, other) == 0)


def _same_list(left: Any, right: Any, meter: Meter) -> bool:
    if len(left) != len(right):
        return False
    problem: CelError | None = None
    for one, other in zip(items_of(left, meter), right, strict=True):
        try:
            if not equal(one, other, meter):
                return False
        except CelError as error:
            problem = problem or error
    if problem is not None and left.__class__ is Rope:
        raise problem
    return True


def _same_map(left: Map, right: Map, meter: Meter) -> bool:
    if len(left) != len(right):
        return False
    for name in items_of(left, meter):
        key = find_key(right, name)
        if key is None:
            return False
        try:
            if not equal(left[find_key(left, name)], right[key], meter):
                return False
        except CelError:
            continue
    return True


def _same_object(left: Any, right: Any, meter: Meter) -> bool:
    kind = left.__class__
    if kind is Optional:
        if right.__class__ is not Optional or (left is NO_VALUE) != (right is NO_VALUE):
            return False
        return left is NO_VALUE or equal(left.value, right.value, meter)
    if kind in _STRICT:
        if right.__class__ is not kind:
            raise CelError(NO_OVERLOAD)
        return _STRICT[kind](left, right)
    return kind is right.__class__ and bool(left == right)


_STRICT: Final[dict[type, Callable[[Any, Any], bool]]] = {
    Quantity: lambda left, right: compare_quantities(left, right) == 0,
    Semver: lambda left, right: left.order == right.order,
    Url: lambda left, right: left.text == right.text,
    Ip: lambda left, right: left == right,
    Cidr: lambda left, right: left == right,
    NamedFormat: lambda left, right: left.name == right.name,
}


def _compare_double(number: float, other: int) -> int:
    if number < (0.0 if other.__class__ is UInt else MIN_INT):
        return -1
    # Go makes a floating-point number of the largest integer, too, which is one more.
    if number > (2.0**64 if other.__class__ is UInt else 2.0**63):
        return 1
    rounded = float(other)
    return (number > rounded) - (number < rounded)


def compare(left: Any, right: Any) -> int:
    """Return -1, 0 or 1; raise `CelError` for values that have no order."""
    kind, other = left.__class__, right.__class__
    if kind in _NUMBERS:
        if other not in _NUMBERS:
            raise CelError(NO_OVERLOAD)
        for number in (left, right):
            if number.__class__ is float and math.isnan(number):
                raise CelError("NaN values cannot be ordered")
        if (kind is float) == (other is float):
            one, two = (left, right) if kind is float else (int(left), int(right))
            return (one > two) - (one < two)
        return _compare_double(left, right) if kind is float else -_compare_double(right, left)
    if kind is not other:
        raise CelError(NO_OVERLOAD)
    if kind is Timestamp:
        one, two = (left.seconds, left.nanos), (right.seconds, right.nanos)
        return (one > two) - (one < two)
    if kind is Duration:
        return int(left.nanos > right.nanos) - int(left.nanos < right.nanos)
    return int(left > right) - int(left < right)


COMPARABLE: Final[frozenset[Any]] = frozenset({bool, int, UInt, float, str, bytes, Timestamp, Duration})


def _ordered(function: str, accept: Callable[[int], bool]) -> Callable[[Any, Any, Meter], Any]:
    def run(left: Any, right: Any, meter: Meter) -> bool:
        if left.__class__ not in COMPARABLE:
            raise no_overload(function, left)
        return accept(compare(left, right))

    return run


def contains(value: Any, container: Any, meter: Meter) -> bool:
    """Return whether a list has an element, or a map a key; raise `CelError` for anything else."""
    kind = container.__class__
    if kind is Map or kind is DefaultMap:
        return find_key(container, value) is not None
    if kind not in LIST_CLASSES:
        raise CelError(NO_OVERLOAD)
    for item in items_of(container, meter):
        try:
            if equal(value, item, meter):
                return True
        except CelError:
            continue
    return False


def is_zero(value: Any) -> bool:
    """Return whether a value is the zero value of its type: nought, empty, false."""
    kind = value.__class__
    if value is None:
        return True
    if kind in LIST_CLASSES or kind in (str, bytes, Map, DefaultMap):
        return len(value) == 0
    if kind in _NUMBERS or kind is bool:
        return not value
    if kind is Duration:
        return not value.nanos
    return kind is Timestamp and (value.seconds, value.nanos) == (-62135596800, 0)


# --- arithmetic ----------------------------------------------------------------------------------


def _int(value: int) -> int:
    if not MIN_INT <= value <= MAX_INT:
        raise CelError("integer overflow")
    return value


def _uint(value: int) -> UInt:
    if not 0 <= value <= MAX_UINT:
        raise CelError("unsigned integer overflow")
    return UInt(value)


def _add(left: Any, right: Any, meter: Meter) -> Any:
    kind, other = left.__class__, right.__class__
    if kind is int and other is int:
        return _int(left + right)
    if kind is str and other is str:
        meter.made_text(len(left) + len(right))
        return left + right
    if kind in LIST_CLASSES:
        if other not in LIST_CLASSES:
            raise CelError(NO_OVERLOAD)
        meter.use(64)
        return right if not len(left) else left if not len(right) else Rope(left, right)
    if kind is Timestamp or kind is Duration:
        return _add_times(left, right)
    if kind not in (int, str, UInt, float, bytes):
        raise no_overload("_+_", left)
    if kind is not other:
        raise CelError(NO_OVERLOAD)
    if kind is UInt:
        return _uint(int(left) + int(right))
    if kind is bytes:
        meter.made_text(len(left) + len(right))
    return left + right


def _add_times(left: Any, right: Any) -> Any:
    if right.__class__ is Duration:
        if left.__class__ is Duration:
            return duration_of(left.nanos + right.nanos)
        return add_time(left, right.nanos)
    if left.__class__ is Duration and right.__class__ is Timestamp:
        return add_time(right, left.nanos)
    raise CelError(NO_OVERLOAD)


def _subtract(left: Any, right: Any, meter: Meter) -> Any:
    kind, other = left.__class__, right.__class__
    if kind is Timestamp and other is Timestamp:
        return between(left, right)
    if kind is Timestamp and other is Duration:
        if right.nanos == MIN_INT:
            raise CelError("integer overflow")
        return add_time(left, -right.nanos)
    if kind not in (int, UInt, float, Timestamp, Duration):
        raise no_overload("_-_", left)
    if kind is not other:
        raise CelError(NO_OVERLOAD)
    if kind is int:
        return _int(left - right)
    if kind is UInt:
        return _uint(int(left) - int(right))
    return duration_of(left.nanos - right.nanos) if kind is Duration else left - right


def _multiply(left: Any, right: Any, meter: Meter) -> Any:
    kind = left.__class__
    if kind not in _NUMBERS:
        raise no_overload("_*_", left)
    if right.__class__ is not kind:
        raise CelError(NO_OVERLOAD)
    if kind is float:
        return left * right
    return _int(left * right) if kind is int else _uint(int(left) * int(right))


def _divide(left: Any, right: Any, meter: Meter) -> Any:
    kind = left.__class__
    if kind not in _NUMBERS:
        raise no_overload("_/_", left)
    if right.__class__ is not kind:
        raise CelError(NO_OVERLOAD)
    if kind is float:
        if right:
            return left / right
        if math.isnan(left) or not left:
            return math.nan
        return math.copysign(math.inf, left) * math.copysign(1.0, right)
    if not right:
        raise CelError("division by zero")
    quotient = abs(int(left)) // abs(int(right))
    if kind is UInt:
        return UInt(quotient)
    return _int(quotient if (left < 0) == (right < 0) else -quotient)


def _modulo(left: Any, right: Any, meter: Meter) -> Any:
    kind = left.__class__
    if kind is not int and kind is not UInt:
        raise no_overload("_%_", left)
    if right.__class__ is not kind:
        raise CelError(NO_OVERLOAD)
    if not right:
        raise CelError("modulus by zero")
    if left == MIN_INT and right == -1:
        raise CelError("integer overflow")
    rest = abs(int(left)) % abs(int(right))
    return UInt(rest) if kind is UInt else -rest if left < 0 else rest


def negate(value: Any) -> Any:
    """Return what is left of nought without a value; raise `CelError`."""
    kind = value.__class__
    if kind is int:
        return _int(-value)
    if kind is float:
        return -value
    if kind is Duration:
        return duration_of(-value.nanos)
    if kind is bool:
        raise CelError(NO_OVERLOAD)
    raise no_overload("-_", value)


BINARY: Final[dict[str, Callable[[Any, Any, Meter], Any]]] = {
    "_+_": _add,
    "_-_": _subtract,
    "_*_": _multiply,
    "_/_": _divide,
    "_%_": _modulo,
    "_<_": _ordered("_<_", lambda order: order < 0),
    "_<=_": _ordered("_<=_", lambda order: order <= 0),
    "_>_": _ordered("_>_", lambda order: order > 0),
    "_>=_": _ordered("_>=_", lambda order: order >= 0),
    "@in": contains,
}
"""Operators with two operands, those apart that do not always need both."""


# --- conversions ---------------------------------------------------------------------------------


def _failed(value: Any, wanted: str) -> CelError:
    return CelError(f"type conversion error from '{type_name(value)}' to '{wanted}'")


def _to_int(value: Any, meter: Meter) -> int:
    kind = value.__class__
    if kind is str:
        if len(value) <= 64 and _INT.fullmatch(value) and MIN_INT <= int(value) <= MAX_INT:
            return int(value)
        raise _failed(value, "int")
    if kind is float:
        if math.isnan(value) or not MIN_INT < value < MAX_INT:
            raise CelError("integer overflow")
        return int(value)
    if kind is Duration:
        return int(value.nanos)
    if kind is Timestamp:
        return int(value.seconds)
    return _int(int(value))


def _to_uint(value: Any, meter: Meter) -> UInt:
    kind = value.__class__
    if kind is str:
        if len(value) <= 64 and value.isascii() and value.isdigit() and int(value) <= MAX_UINT:
            return UInt(value)
        raise _failed(value, "uint")
    if kind is float and (math.isnan(value) or not 0 <= value < 2.0**64):
        raise CelError("unsigned integer overflow")
    return _uint(int(value))


def _to_double(value: Any, meter: Meter) -> float:
    if value.__class__ is str:
        meter.tick(len(value) >> 3)
        # The words "inf" and "nan", and digits with underscores, are read as Go reads them.
        text = value.replace("_", "") if _HEX.fullmatch(value) else value
        if _HEX.fullmatch(text):
            number = float.fromhex(text)
        elif _FLOAT.fullmatch(text):
            number = float(text)
            if math.isinf(number) and "n" not in text.lower():
                raise _failed(value, "double")
        else:
            raise _failed(value, "double")
        return number
    return float(value)


def _to_string(value: Any, meter: Meter) -> str:
    kind = value.__class__
    if kind is str:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is float:
        return show_double(value, 6)
    if kind is bytes:
        meter.made_text(len(value))
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None
    if kind is Timestamp:
        return show_timestamp(value)
    if kind is Duration:
        return show_duration(value)
    if kind is Ip:
        return str(value.address)
    if kind is Cidr:
        return f"{value.address}/{value.bits}"
    return str(int(value))


def _to_bool(value: Any, meter: Meter) -> bool:
    if value.__class__ is bool:
        return bool(value)
    if value in _TRUE:
        return True
    if value in _FALSE:
        return False
    raise _failed(value, "bool")


def _to_bytes(value: Any, meter: Meter) -> bytes:
    if value.__class__ is bytes:
        return bytes(value)
    meter.made_text(len(value))
    return str(value).encode()


def _to_duration(value: Any, meter: Meter) -> Duration:
    if value.__class__ is Duration:
        return value
    if value.__class__ is str:
        return parse_duration(value)
    raise _failed(value, "google.protobuf.Duration")


def _to_timestamp(value: Any, meter: Meter) -> Timestamp:
    if value.__class__ is Timestamp:
        return value
    return parse_timestamp(value) if value.__class__ is str else timestamp_of(value)


CONVERSIONS: Final[dict[str, Callable[[Any, Meter], Any]]] = {
    "int": _to_int,
    "uint": _to_uint,
    "double": _to_double,
    "string": _to_string,
    "bool": _to_bool,
    "bytes": _to_bytes,
    "duration": _to_duration,
    "timestamp": _to_timestamp,
    "dyn": lambda value, _: value,
    "type": lambda value, _: TypeValue(type_name(value)),
}
"""Functions that make a value of one type from one of another; they are called with the types they take only."""
