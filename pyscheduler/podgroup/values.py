"""Parse the values that users write about groups, such as a minimum in an annotation.

Each value that cannot be used is recorded as a `Problem`, for a warning in the log.
"""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from kube_objects.durations import parse_duration
from pyscheduler.api import QuantityError, parse_quantity
from pyscheduler.podgroup.fields import GatherRule, MatchPolicy, Mode, Problem

if TYPE_CHECKING:
    from pyscheduler.api import RawQuantity

__all__ = [
    "read_duration",
    "read_gang_group",
    "read_gather",
    "read_integer",
    "read_match_policy",
    "read_minimum",
    "read_mode",
    "read_resources",
    "read_timeout",
    "shown",
]

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}")
_MAX_INT32: Final = 2**31 - 1
_SHOWN: Final = 60
#: Values may be nested as deep as the decoder permits, so `repr` could exceed the recursion limit.
_REPR: Final = reprlib.Repr()
_REPR.maxlevel, _REPR.maxstring, _REPR.maxlong = 3, 2 * _SHOWN, 2 * _SHOWN


def _bad(problems: list[Problem], where: str, value: object, remedy: str) -> None:
    text = value if isinstance(value, str) else shown(value)
    problems.append(Problem(where, text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...", remedy))


def shown(value: object) -> str:
    """Return a value as text for a message, at most 60 characters of it, however large or deeply nested it is."""
    text = _REPR.repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def read_integer(value: object, where: str, problems: list[Problem], *, otherwise: str) -> int | None:
    """Return a 32-bit integer, from a number or a text of digits; `otherwise` says what happens without it."""
    number: int | None = None
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        number = int(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        number = value
    if number is None or not -_MAX_INT32 <= number <= _MAX_INT32:
        _bad(problems, where, value, f"is not an integer of 32 bits; {otherwise}")
        return None
    return number


def read_minimum(value: object, where: str, problems: list[Problem], *, least: int) -> int | None:
    """Return a minimum of members, at least 0; a value below `least` is a problem, too."""
    number = read_integer(value, where, problems, otherwise="without a minimum the group is not declared")
    if number is not None and number < least:
        _bad(problems, where, value, f"is less than {least}; it counts as {max(number, 0)}")
    return None if number is None else max(number, 0)


def read_timeout(value: object, where: str, problems: list[Problem]) -> float | None:
    """Return a number of seconds above 0; 0 and less mean the default."""
    number = read_integer(value, where, problems, otherwise="the default wait counts")
    if number is not None and number <= 0:
        _bad(problems, where, value, "is not above 0; the default wait counts")
        return None
    return None if number is None else float(number)


def read_duration(value: str, where: str, problems: list[Problem]) -> float | None:
    """Return a Go duration above 0, in seconds."""
    try:
        seconds = parse_duration(value)
    except ValueError:
        seconds = math.nan
    if not seconds > 0:
        _bad(problems, where, value, "is not a duration above 0, such as 90s or 10m; the default wait counts")
        return None
    return seconds


def read_mode(value: str, where: str, problems: list[Problem]) -> Mode | None:
    """Return the mode of that name."""
    if value not in set(Mode):
        _bad(problems, where, value, "is neither Strict nor NonStrict; Strict counts")
        return None
    return Mode(value)


def read_match_policy(value: str, where: str, problems: list[Problem]) -> MatchPolicy | None:
    """Return the match policy of that name."""
    if value not in set(MatchPolicy):
        _bad(problems, where, value, f"is none of {', '.join(MatchPolicy)}; the default counts")
        return None
    return MatchPolicy(value)


def read_gang_group(value: str, where: str, problems: list[Problem]) -> tuple[str, ...] | None:
    """Return the groups in a JSON list of `namespace/name`, sorted, each once; an empty text is an empty list."""
    if not value.strip():
        return ()
    try:
        names = msgspec.json.decode(value, type=list[str])
    except (msgspec.DecodeError, RecursionError):
        names = [""]
    if not all(_is_key(name) for name in names):
        _bad(problems, where, value, 'is not a JSON list like ["namespace/name"]; the group stands alone')
        return None
    return tuple(sorted(set(names)))


def read_gather(value: str, where: str, problems: list[Problem]) -> tuple[GatherRule, ...] | None:
    """Return the rules of a JSON object with a list `gatherStrategy`; an empty text has no rules."""
    if not value.strip():
        return ()
    try:
        found = msgspec.json.decode(value, type=_GatherSpec).gather_strategy
    except (msgspec.DecodeError, RecursionError):
        _bad(problems, where, value, "is not a JSON object with a list gatherStrategy; the gang may use all nodes")
        return None
    if any(each.pod_count_multiple > 1 for each in found):
        _bad(problems, where, value, "has a podCountMultiple, which has no effect")
    return tuple(GatherRule(each.layer, each.strategy == "MustGather") for each in found)


class _GatherStrategy(msgspec.Struct, rename="camel"):
    layer: str = ""
    strategy: str = ""
    pod_count_multiple: int = 0


class _GatherSpec(msgspec.Struct, rename="camel"):
    gather_strategy: tuple[_GatherStrategy, ...] = ()


def _is_key(name: str) -> bool:
    namespace, slash, rest = name.partition("/")
    return bool(namespace and slash and rest) and "/" not in rest and "," not in name


def read_resources(value: object, where: str, problems: list[Problem]) -> dict[str, RawQuantity] | None:
    """Return the amounts by resource that are quantities of at least 0; None if there are none."""
    if not isinstance(value, Mapping):
        _bad(problems, where, value, "is no map of quantities; it does not count")
        return None
    amounts: dict[str, RawQuantity] = {}
    for name, raw in value.items():
        try:
            usable = isinstance(raw, str | int | float) and not isinstance(raw, bool) and parse_quantity(raw) >= 0
        except QuantityError:
            usable = False
        if usable:
            amounts[str(name)] = raw
        else:
            _bad(problems, f"{where}.{name}", raw, "is not a quantity of 0 or more; it does not count")
    return amounts or None
