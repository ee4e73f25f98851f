"""CEL's library functions in Python: strings, lists, sets, optional values and regular expressions.

Source: cel-go 0.26, `ext`, and Kubernetes 1.36, `k8s.io/apiserver/pkg/cel/library`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from kube_cel.errors import CelError
from kube_cel.formatting import QUOTED, format_text
from kube_cel.operators import BINARY, COMPARABLE, NO_OVERLOAD, compare, contains, equal, is_zero
from kube_cel.regex import Regex, RegexError
from kube_cel.times import timestamp_part
from kube_cel.values import (
    LIST_CLASSES,
    NO_VALUE,
    Duration,
    Map,
    Optional,
    Timestamp,
    UInt,
    find_key,
    items_of,
    key_of,
    show,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kube_cel.meter import Meter

__all__ = ["FUNCTIONS", "insert", "sort", "sort_by_keys", "time_part"]

_ZERO: Final[dict[str, Any]] = {"int": 0, "uint": UInt(0), "double": 0.0, "duration": Duration(0)}
#: So many values an attribute can have. Source: `ResourceSliceMaxAttributeValuesPerDevice`.
_MOST_INCLUDED: Final = 48
_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER: Final = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_QUOTED: Final = str.maketrans(QUOTED)
#: What Go's unicode.IsSpace takes for space; Python strips more.
_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))


def _collect(items: Sequence[Any] | Any, meter: Meter) -> list[Any]:
    """Return a new list of the elements of another."""
    meter.use(64 + 8 * len(items))
    return list(items_of(items, meter))


# --- strings -------------------------------------------------------------------------------------


def _within(index: int, text: str) -> int:
    if not 0 <= index <= len(text):
        raise CelError(f"index out of range: {index}")
    return index


def _char_at(meter: Meter, text: str, index: int) -> str:
    at = _within(index, text)
    return text[at : at + 1]


def _substring(meter: Meter, text: str, start: int, end: int | None = None) -> str:
    if end is None:
        end = len(text)
        _within(start, text)
    if start > end:
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    _within(start, text)
    meter.made_text(end - start)
    return text[start : _within(end, text)]


def _index_of(meter: Meter, text: str, part: str, offset: int = 0) -> int:
    if not part:
        return offset
    if offset < 0:
        raise CelError(f"index out of range: {offset}")
    meter.tick(len(text) >> 4)
    return text.find(part, offset)


def _last_index_of(meter: Meter, text: str, part: str, offset: int | None = None) -> int:
    if not part:
        return len(text) if offset is None else offset
    if offset is None:
        offset = max(len(text) - 1, 0)
    if offset < 0:
        raise CelError(f"index out of range: {offset}")
    if offset >= len(text):
        return -1
    meter.tick(len(text) >> 4)
    return text.rfind(part, 0, offset + len(part))


def _translate(table: dict[int, int]) -> Callable[[Meter, str], str]:
    def run(meter: Meter, text: str) -> str:
        meter.made_text(len(text))
        meter.tick(len(text) >> 2)
        return text.translate(table)

    return run


def _trim(meter: Meter, text: str) -> str:
    meter.made_text(len(text))
    return text.strip(_SPACE)


def _replace(meter: Meter, text: str, old: str, new: str, limit: int = -1) -> str:
    meter.tick(len(text) >> 4)
    count = len(text) + 1 if not old else text.count(old)
    if limit >= 0:
        count = min(count, limit)
    meter.made_text(len(text) + count * (len(new) - len(old)) if count else len(text))
    return text.replace(old, new, max(limit, -1))


def _split(meter: Meter, text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    pieces = (len(text) if not separator else text.count(separator)) + 1
    if limit > 0:
        pieces = min(pieces, limit)
    meter.use(72 * pieces)
    meter.made_text(len(text))
    if separator:
        return text.split(separator, limit - 1 if limit > 0 else -1)
    if limit < 0 or limit >= len(text):
        return list(text)
    return [*text[: limit - 1], text[limit - 1 :]]


def _join(meter: Meter, parts: Any, separator: str = "") -> str:
    length = len(separator) * max(len(parts) - 1, 0)
    for part in items_of(parts, meter):
        if part.__class__ is not str:
            raise CelError(f"join: invalid input: {show(part)}")
        length += len(part)
    meter.made_text(length)
    return separator.join(parts)


def _quote(meter: Meter, text: str) -> str:
    meter.made_text(2 * len(text))
    meter.tick(len(text) >> 2)
    return f'"{text.translate(_QUOTED)}"'


def _format(meter: Meter, text: str, args: Any) -> str:
    return format_text(text, args, meter)


# --- regular expressions -------------------------------------------------------------------------


def _regex(pattern: str | Regex, meter: Meter, prefix: str) -> Regex:
    if isinstance(pattern, Regex):
        return pattern
    try:
        return Regex(pattern, meter)
    except RegexError as error:
        raise CelError(f"{prefix}{error}") from None


def _matches(meter: Meter, text: str, pattern: str | Regex) -> bool:
    return _regex(pattern, meter, "").search(text, meter, shortest=True) is not None


def _find(meter: Meter, text: str, pattern: str | Regex) -> str:
    found = _regex(pattern, meter, "Illegal regex: ").search(text, meter)
    if found is None:
        return ""
    meter.made_text(found[1] - found[0])
    return text[found[0] : found[1]]


def _find_all(meter: Meter, text: str, pattern: str | Regex, limit: int = -1) -> list[str]:
    made: list[str] = []
    for begin, end in _regex(pattern, meter, "Illegal regex: ").find_all(text, limit, meter):
        meter.made_text(end - begin)
        made.append(text[begin:end])
    return made


# --- lists ---------------------------------------------------------------------------------------


def _is_sorted(meter: Meter, items: Any) -> bool:
    before: Any = None
    for number, item in enumerate(items_of(items, meter)):
        if item.__class__ not in COMPARABLE:
            raise CelError(NO_OVERLOAD)
        if number and _order(before, item) == 1:
            return False
        before = item
    return True


def _order(left: Any, right: Any) -> int:
    """Return how two values compare; 0 where that cannot be told, which Go's library takes for no answer."""
    try:
        return compare(left, right)
    except CelError:
        return 0


def _sum(zero: Any) -> Callable[[Meter, Any], Any]:
    def run(meter: Meter, items: Any) -> Any:
        total = zero
        for item in items_of(items, meter):
            total = BINARY["_+_"](total, item, meter)
        return total

    return run


def _extreme(name: str, replace_if: int) -> Callable[[Meter, Any], Any]:
    def run(meter: Meter, items: Any) -> Any:
        found: Any = None
        for number, item in enumerate(items_of(items, meter)):
            if item.__class__ not in COMPARABLE:
                raise CelError(NO_OVERLOAD)
            if not number or _order(found, item) == replace_if:
                found = item
        if not len(items):
            raise CelError(f"{name} called on empty list")
        return found

    return run


def _list_index_of(meter: Meter, items: Any, wanted: Any) -> int:
    for index, item in enumerate(items_of(items, meter)):
        if _equals(item, wanted, meter):
            return index
    return -1


def _list_last_index_of(meter: Meter, items: Any, wanted: Any) -> int:
    for index in range(len(items) - 1, -1, -1):
        meter.tick()
        if _equals(items[index], wanted, meter):
            return index
    return -1


def _equals(left: Any, right: Any, meter: Meter) -> bool:
    try:
        return equal(left, right, meter)
    except CelError:
        return False


def _slice(meter: Meter, items: Any, start: int, end: int) -> list[Any]:
    shown = f"cannot slice({start}, {end})"
    if start < 0 or end < 0:
        raise CelError(f"{shown}, negative indexes not supported")
    if start > end:
        raise CelError(f"{shown}, start index must be less than or equal to end index")
    if len(items) < end:
        raise CelError(f"{shown}, list is length {len(items)}")
    meter.use(64 + 8 * (end - start))
    made = []
    for index in range(start, end):
        meter.tick()
        made.append(items[index])
    return made


def _flatten(meter: Meter, items: Any, depth: int = 1) -> list[Any]:
    if depth < 0:
        raise CelError("level must be non-negative")
    made: list[Any] = []
    _flatten_into(meter, items, depth, made)
    return made


def _flatten_into(meter: Meter, items: Any, depth: int, made: list[Any]) -> None:
    for item in items_of(items, meter):
        if depth and item.__class__ in LIST_CLASSES:
            _flatten_into(meter, item, depth - 1, made)
        else:
            meter.use(8)
            made.append(item)


def _range(meter: Meter, count: int) -> range:
    return range(count)


def _reverse(meter: Meter, items: Any) -> list[Any]:
    return _collect(items, meter)[::-1]


def _distinct(meter: Meter, items: Any) -> list[Any]:
    made: list[Any] = []
    for item in items_of(items, meter):
        for other in made:
            meter.tick()
            if _equals(item, other, meter):
                break
        else:
            meter.use(8)
            made.append(item)
    return made


def sort_by_keys(meter: Meter, items: Any, keys: Any) -> Any:
    """Return a list in the order of another of the same length; raise `CelError`."""
    if len(items) != len(keys):
        raise CelError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got "
            f"{len(items)} and {len(keys)} elements respectively"
        )
    if not len(items):
        return items
    found = _collect(keys, meter)
    if found[0].__class__ not in COMPARABLE:
        raise CelError("list elements must be comparable")
    if len(found) > 1 and any(key.__class__ is not found[0].__class__ for key in found):
        raise CelError("list elements must have the same type")

    def before(left: int, right: int) -> int:
        meter.tick()
        return _order(found[left], found[right])

    order = sorted(range(len(found)), key=functools.cmp_to_key(before))
    values = _collect(items, meter)
    meter.use(64 + 8 * len(values))
    return [values[index] for index in order]


def sort(meter: Meter, items: Any) -> Any:
    """Return a list in the order of its elements; raise `CelError`."""
    return sort_by_keys(meter, items, items)


def _includes(meter: Meter, value: Any, wanted: Any) -> bool:
    if value.__class__ not in LIST_CLASSES:
        return _equals(value, wanted, meter)
    for place, item in enumerate(items_of(value, meter)):
        if place >= _MOST_INCLUDED:
            raise CelError(f"'includes' function cannot be applied to lists longer than {_MOST_INCLUDED} values")
        if _equals(item, wanted, meter):
            return True
    return False


# --- sets ----------------------------------------------------------------------------------------


def _set_contains(meter: Meter, items: Any, others: Any) -> bool:
    return all(contains(other, items, meter) for other in items_of(others, meter))


def _set_equivalent(meter: Meter, items: Any, others: Any) -> bool:
    return _set_contains(meter, items, others) and _set_contains(meter, others, items)


def _set_intersects(meter: Meter, items: Any, others: Any) -> bool:
    return any(contains(item, others, meter) for item in items_of(items, meter))


# --- optional values, maps, times ----------------------------------------------------------------


def _value(meter: Meter, optional: Optional) -> Any:
    if optional is NO_VALUE:
        raise CelError("optional.none() dereference")
    return optional.value


def _of_non_zero(meter: Meter, value: Any) -> Optional:
    return NO_VALUE if is_zero(value) else Optional(value)


def _unwrap(meter: Meter, items: Any) -> list[Any]:
    made = []
    for item in items_of(items, meter):
        if item.__class__ is not Optional:
            raise CelError(f"value {show(item)} is not optional")
        if item is not NO_VALUE:
            meter.use(8)
            made.append(item.value)
    return made


def insert(made: Map, key: Any, value: Any, meter: Meter) -> Map:
    """Add an entry to a map that nobody else sees yet; raise `CelError` where its key is there."""
    if find_key(made, key) is not None:
        raise CelError(f"insert failed: key {show(key)} already exists")
    meter.use(128)
    meter.tick()
    made[key_of(key)] = value
    return made


def time_part(part: str) -> Callable[..., int]:
    """Return what finds a part of a moment, given the name of its function."""

    def run(meter: Meter, moment: Timestamp, zone: str = "UTC") -> int:
        return timestamp_part(part, moment, zone)

    return run


def _duration_part(unit: int) -> Callable[[Meter, Duration], int]:
    def run(meter: Meter, value: Duration) -> int:
        whole = abs(value.nanos) // unit
        return -whole if value.nanos < 0 else whole

    return run


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "string_char_at_int": _char_at,
    "string_lower_ascii": _translate(_LOWER),
    "string_upper_ascii": _translate(_UPPER),
    "string_trim": _trim,
    "string_replace_string_string": _replace,
    "string_replace_string_string_int": _replace,
    "string_split_string": _split,
    "string_split_string_int": _split,
    "string_substring_int": _substring,
    "string_substring_int_int": _substring,
    "string_index_of_string": _index_of,
    "string_index_of_string_int": _index_of,
    "string_last_index_of_string": _last_index_of,
    "string_last_index_of_string_int": _last_index_of,
    "string_format": _format,
    "strings_quote": _quote,
    "list_join": _join,
    "list_join_string": _join,
    "contains_string": lambda meter, text, part: part in text,
    "starts_with_string": lambda meter, text, part: text.startswith(part),
    "ends_with_string": lambda meter, text, part: text.endswith(part),
    "matches": _matches,
    "matches_string": _matches,
    "string_find_string": _find,
    "string_find_all_string": _find_all,
    "string_find_all_string_int": _find_all,
    "list_a_index_of_int": _list_index_of,
    "list_a_last_index_of_int": _list_last_index_of,
    "dra_includes_dyn_dyn": _includes,
    "list_slice": _slice,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "lists_range": _range,
    "list_reverse": _reverse,
    "list_distinct": _distinct,
    "list_sets_contains_list": _set_contains,
    "list_sets_equivalent_list": _set_equivalent,
    "list_sets_intersects_list": _set_intersects,
    "optional_of": lambda meter, value: Optional(value),
    "optional_ofNonZeroValue": _of_non_zero,
    "optional_none": lambda meter: NO_VALUE,
    "optional_value": _value,
    "optional_hasValue": lambda meter, value: value is not NO_VALUE,
    "list_last": lambda meter, items: Optional(items[len(items) - 1]) if len(items) else NO_VALUE,
    "list_first": lambda meter, items: Optional(items[0]) if len(items) else NO_VALUE,
    "optional_unwrap": _unwrap,
    "optional_unwrapOpt": _unwrap,
    **{f"list_{each}_sum_{each}": _sum(zero) for each, zero in _ZERO.items()},
    "duration_to_hours": _duration_part(3600 * 10**9),
    "duration_to_minutes": _duration_part(60 * 10**9),
    "duration_to_seconds": _duration_part(10**9),
    "duration_to_milliseconds": _duration_part(10**6),
}
for _each in ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"):
    FUNCTIONS[f"list_{_each}_is_sorted_bool"] = _is_sorted
    FUNCTIONS[f"list_{_each}_max_{_each}"] = _extreme("max", -1)
    FUNCTIONS[f"list_{_each}_min_{_each}"] = _extreme("min", 1)
"""The function of each overload; operators, conversions and those that need more than values are the planner's."""
