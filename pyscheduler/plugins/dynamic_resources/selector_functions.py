"""The functions of Kubernetes that device selectors call: quantities, versions, strings.

The library hands values over as plain Python and takes plain Python back, so a quantity or a version travels as a map
with one key that no attribute can have. Equal ones are equal maps. What a function raises ends the evaluation with its
text, unless the expression is decided without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyscheduler.api.errors import QuantityError
from pyscheduler.api.quantity import NANO, parse_quantity
from pyscheduler.plugins.dynamic_resources.versions import parse_relaxed_version, parse_version

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyscheduler.plugins.dynamic_resources.versions import Version

__all__ = ["FUNCTION_TABLE", "kind_of", "quantity_value_of", "version_value_of"]

_QUANTITY: Final = "\0quantity"
_VERSION: Final = "\0semver"
_NO_OVERLOAD: Final = "no such overload"
_QUANTITY_RULE: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_MOST_TEXT: Final = 1 << 16
_MAX_INT: Final = 2**63 - 1
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_KINDS: Final = {bool: "bool", int: "int", float: "double", str: "string", bytes: "bytes", list: "list", dict: "map"}


def quantity_value_of(nanos: int) -> dict[str, str]:
    """Return a quantity as selectors see it."""
    return {_QUANTITY: str(nanos)}


def version_value_of(version: Version) -> dict[str, str]:
    """Return a version as selectors see it; build metadata does not count."""
    major, minor, patch, early = version
    parts = ".".join(str(number) if word == "" and kind == 0 else word for kind, number, word in early)
    return {_VERSION: f"{major}.{minor}.{patch}" + (f"-{parts}" if parts else "")}


def kind_of(value: Any) -> str:
    """Return what CEL calls the type of a value."""
    if isinstance(value, dict) and len(value) == 1:
        if _QUANTITY in value:
            return "kubernetes.Quantity"
        if _VERSION in value:
            return "kubernetes.Semver"
    return _KINDS.get(type(value), "null_type" if value is None else type(value).__name__)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(_NO_OVERLOAD)
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(_NO_OVERLOAD)
    return value


def _ordered(value: Any) -> tuple[str, Any]:
    """Return what a quantity or version sorts by, with its kind; raise `TypeError` for anything else."""
    kind = kind_of(value)
    if kind == "kubernetes.Quantity":
        return kind, int(value[_QUANTITY])
    if kind == "kubernetes.Semver":
        return kind, parse_version(value[_VERSION])
    raise TypeError(_NO_OVERLOAD)


def _compare(left: Any, right: Any) -> int:
    (kind, one), (other_kind, other) = _ordered(left), _ordered(right)
    if kind != other_kind:
        raise TypeError(_NO_OVERLOAD)
    return int(one > other) - int(one < other)


# --- quantities ----------------------------------------------------------------------------------


def _nanos(value: Any) -> int:
    if kind_of(value) != "kubernetes.Quantity":
        raise TypeError(_NO_OVERLOAD)
    return int(value[_QUANTITY])


def _quantity(text: Any) -> dict[str, str]:
    try:
        return quantity_value_of(parse_quantity(_text(text)))
    except QuantityError as error:
        raise ValueError(_QUANTITY_RULE) from error


def _is_quantity(text: Any) -> bool:
    try:
        parse_quantity(_text(text))
    except QuantityError:
        return False
    return True


def _amount(value: Any) -> int:
    """Return the nanos of what is added: a quantity, or a whole number."""
    return _whole(value) * NANO if isinstance(value, int) else _nanos(value)


def _is_integer(value: Any) -> bool:
    nanos = _nanos(value)
    return nanos % NANO == 0 and abs(nanos // NANO) <= _MAX_INT


def _as_integer(value: Any) -> int:
    if not _is_integer(value):
        raise ValueError("cannot convert value to integer")
    return _nanos(value) // NANO


def _sign(value: Any) -> int:
    nanos = _nanos(value)
    return (nanos > 0) - (nanos < 0)


# --- versions ------------------------------------------------------------------------------------


def _version(text: Any, relaxed: Any = False) -> dict[str, str]:
    if not isinstance(relaxed, bool):
        raise TypeError(_NO_OVERLOAD)
    return version_value_of((parse_relaxed_version if relaxed else parse_version)(_text(text)))


def _is_version(text: Any, relaxed: Any = False) -> bool:
    try:
        _version(text, relaxed)
    except ValueError:
        return False
    return True


def _numbers(value: Any) -> tuple[int, int, int]:
    if kind_of(value) != "kubernetes.Semver":
        raise TypeError(_NO_OVERLOAD)
    return parse_version(value[_VERSION])[:3]


# --- texts ---------------------------------------------------------------------------------------


def _size(value: Any) -> int:
    if kind_of(value) not in ("string", "bytes", "list", "map"):
        raise TypeError(_NO_OVERLOAD)
    return len(value)


def _string(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | str):
        return str(value)
    if isinstance(value, bytes):
        return value.decode()
    raise TypeError(_NO_OVERLOAD)


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if _text(value) in _TRUE:
        return True
    if value in _FALSE:
        return False
    raise ValueError(f'strconv.ParseBool: parsing "{value}": invalid syntax')


def _within(index: int, text: str) -> int:
    if not 0 <= index <= len(text):
        raise ValueError(f"index out of range: {index}")
    return index


def _char_at(text: Any, index: Any) -> str:
    at = _within(_whole(index), _text(text))
    return _text(text)[at : at + 1]


def _substring(text: Any, start: Any, end: Any = None) -> str:
    begin = _within(_whole(start), _text(text))
    stop = len(text) if end is None else _within(_whole(end), text)
    if begin > stop:
        raise ValueError(f"invalid substring range. start: {begin}, end: {stop}")
    return _text(text)[begin:stop]


def _index_of(text: Any, part: Any, offset: Any = 0) -> int:
    if not _text(part):
        return _whole(offset)
    return _text(text).find(part, _within(_whole(offset), text))


def _last_index_of(text: Any, part: Any, offset: Any = None) -> int:
    last = len(_text(text)) if offset is None else _within(_whole(offset), text)
    return last if not _text(part) else _text(text).rfind(part, 0, last + len(part))


def _split(text: Any, separator: Any, limit: Any = -1) -> list[str]:
    count = _whole(limit)
    if count == 0:
        return []
    if not _text(separator):
        letters = list(_text(text))
        return letters if count < 0 or count >= len(letters) else [*letters[: count - 1], "".join(letters[count - 1 :])]
    return _text(text).split(separator, count - 1 if count > 0 else -1)


def _join(parts: Any, separator: Any = "") -> str:
    if not isinstance(parts, list):
        raise TypeError(_NO_OVERLOAD)
    return _bounded(_text(separator).join(_text(part) for part in parts))


def _replace(text: Any, old: Any, new: Any, limit: Any = -1) -> str:
    return _bounded(_text(text).replace(_text(old), _text(new), _whole(limit)))


def _bounded(text: str) -> str:
    """Return a text that is not too long to go on with."""
    if len(text) > _MOST_TEXT:
        raise ValueError("actual cost limit exceeded")
    return text


def _lower(text: Any) -> str:
    return "".join(letter.lower() if letter.isascii() else letter for letter in _text(text))


def _upper(text: Any) -> str:
    return "".join(letter.upper() if letter.isascii() else letter for letter in _text(text))


FUNCTION_TABLE: Final[dict[str, Callable[..., Any]]] = {
    "quantity": _quantity,
    "isQuantity": _is_quantity,
    "isGreaterThan": lambda left, right: _compare(left, right) > 0,
    "isLessThan": lambda left, right: _compare(left, right) < 0,
    "compareTo": _compare,
    "sign": _sign,
    "add": lambda left, right: quantity_value_of(_nanos(left) + _amount(right)),
    "sub": lambda left, right: quantity_value_of(_nanos(left) - _amount(right)),
    "isInteger": _is_integer,
    "asInteger": _as_integer,
    "asApproximateFloat": lambda value: _nanos(value) / NANO,
    "semver": _version,
    "isSemver": _is_version,
    "major": lambda value: _numbers(value)[0],
    "minor": lambda value: _numbers(value)[1],
    "patch": lambda value: _numbers(value)[2],
    "size_": _size,
    "string_": _string,
    "bool_": _bool,
    "charAt": _char_at,
    "substring": _substring,
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "split": _split,
    "join": _join,
    "replace": _replace,
    "trim": lambda text: _text(text).strip(),
    "lowerAscii": _lower,
    "upperAscii": _upper,
}
"""By the name they are called by in an adapted expression."""
