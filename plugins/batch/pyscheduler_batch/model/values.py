"""Parse values from the objects of queues and pod groups, with a warning for each bad value."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from kube_objects.durations import parse_duration
from kube_objects.quantity import milli_of, value_of
from pyscheduler.api import DecodeError, QuantityError, parse_quantity, parse_time
from pyscheduler.podgroup.values import shown

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "Warnings",
    "amounts_of",
    "boolean",
    "duration",
    "go_boolean",
    "integer",
    "items_of",
    "mapping_of",
    "number",
    "text_of",
    "time_of",
    "warn",
]

Warnings: TypeAlias = list[str]

#: Larger amounts than this are mistakes; Kubernetes counts in integers of 64 bits.
_LARGEST: Final = 2.0**63
_MAX_INT32: Final = 2**31 - 1
#: The texts that Go's `strconv.ParseBool` accepts.
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_BYTES: Final = ("memory", "ephemeral-storage", "storage")


def warn(warnings: Warnings, where: str, value: object, remedy: str) -> None:
    """Add the sentence about a value that does not count."""
    warnings.append(f"{where}: {shown(value)} {remedy}")


def mapping_of(value: object, where: str, warnings: Warnings) -> Mapping[str, object]:
    """Return a map with texts as keys; None is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        warn(warnings, where, value, "is not a map; it does not count")
        return {}
    return {str(key): each for key, each in value.items()}


def items_of(value: object, where: str, warnings: Warnings) -> Sequence[object]:
    """Return a list; None is an empty one."""
    if value is None:
        return ()
    if isinstance(value, (list, tuple)):
        return value
    warn(warnings, where, value, "is not a list; it does not count")
    return ()


def text_of(value: object, where: str, warnings: Warnings, *, default: str = "") -> str:
    """Return a text; None and an empty text are the default."""
    if value is None or value == "":
        return default
    if isinstance(value, str):
        return value
    warn(warnings, where, value, "is not a string; it does not count")
    return default


def number(
    value: object, where: str, warnings: Warnings, *, default: float, valid: Callable[[float], bool], wrong: str
) -> float:
    """Return a finite number for which `valid` is true, else `default`; `wrong` says so in the sentence."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        # An integer may be too large for a float.
        usable = abs(value) <= _LARGEST
        if usable and valid(float(value)):
            return float(value)
    warn(warnings, where, value, f"{wrong}; {default:g} counts")
    return default


def integer(value: object, where: str, warnings: Warnings, *, default: int, least: int, most: int = _MAX_INT32) -> int:
    """Return an integer from `least` to `most`.

    A value outside counts as the nearest bound, anything else as the default.
    """
    if isinstance(value, float) and value.is_integer() and abs(value) <= _LARGEST:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        warn(warnings, where, value, f"is not an integer; {default} counts")
        return default
    bounded = min(max(value, least), most)
    if bounded != value:
        warn(warnings, where, value, f"is not between {least} and {most}; {bounded} counts")
    return bounded


def boolean(value: object, where: str, warnings: Warnings, *, default: bool) -> bool:
    """Return a boolean; None is the default."""
    if isinstance(value, bool):
        return value
    if value is not None:
        warn(warnings, where, value, f"is neither true nor false; {str(default).lower()} counts")
    return default


def go_boolean(text: str) -> bool | None:
    """Return the boolean that Go's `strconv.ParseBool` reads in a label or annotation, None if it is none."""
    return True if text in _TRUE else False if text in _FALSE else None


def duration(value: object, where: str, warnings: Warnings, *, negative: bool = False) -> float | None:
    """Return the seconds of a Go duration such as "90s"; None if absent or unusable.

    `negative` allows values below 0.
    """
    if value is None or value == "":
        return None
    try:
        seconds = parse_duration(value) if isinstance(value, str) else math.nan
    except ValueError:
        seconds = math.nan
    if math.isnan(seconds) or (seconds < 0 and not negative):
        kind = "a duration" if negative else "a duration of 0 or more"
        warn(warnings, where, value, f"is not {kind} such as 90s or 10m; it counts as not set")
        return None
    return seconds


def time_of(value: object, where: str, warnings: Warnings) -> float | None:
    """Return the seconds since 1970 of an RFC 3339 time; None if absent or unusable."""
    if value is None or value == "":
        return None
    try:
        return parse_time(value if isinstance(value, str) else "")
    except (DecodeError, OverflowError, OSError):
        warn(warnings, where, value, "is not a time such as 2026-01-31T09:57:47Z; it counts as not set")
        return None


def amounts_of(value: object, where: str, warnings: Warnings) -> dict[str, float]:
    """Return amounts by resource from a map of Kubernetes quantities; unusable ones are left out.

    Units: `cpu` in millicores and storage in bytes, both rounded up; others in units, rounded up to thousandths.
    """
    amounts: dict[str, float] = {}
    for name, raw in mapping_of(value, where, warnings).items():
        nanos = -1
        if isinstance(raw, (str, int, float)) and not isinstance(raw, bool):
            try:
                nanos = parse_quantity(raw)
            except QuantityError:
                nanos = -1
        if nanos < 0:
            warn(warnings, f"{where}.{name}", raw, "is not a quantity of 0 or more; it counts as not set")
        elif name in _BYTES:
            amounts[name] = float(value_of(nanos))
        else:
            milli = float(milli_of(nanos))
            amounts[name] = milli if name == "cpu" else milli / 1000
    return amounts
