"""Make a Python function that evaluates one call in a CEL expression, and counts the CEL cost of the call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kube_cel import library, library_kubernetes
from kube_cel.costs import FAILED, cost_of
from kube_cel.declarations import overloads_of
from kube_cel.errors import CelError
from kube_cel.operators import BINARY, CONVERSIONS, NO_OVERLOAD, negate, no_overload
from kube_cel.values import LIST_CLASSES, DefaultMap, Map, type_name, value_of_key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kube_cel.meter import Meter
    from kube_cel.types import Type

__all__ = ["charge_failure", "dispatch"]

Run: TypeAlias = "Callable[[Meter], Any]"

_FUNCTIONS: Final = {**library.FUNCTIONS, **library_kubernetes.FUNCTIONS}
#: Functions that ask their argument instead of its type.
_SIZED: Final[frozenset[Any]] = frozenset({str, bytes, *LIST_CLASSES, Map, DefaultMap})
#: Forms that do not look at the types of what they get.
_UNGUARDED: Final = frozenset({"contains", "startsWith", "endsWith"})


def _fits(type_: Type, value: Any) -> bool:
    """Return whether a value is of a type. As in Go, only the first entry of a list or a map is checked."""
    if type_.kind in ("dyn", "any", "param"):
        return True
    if type_name(value) != type_.name:
        return False
    if type_.kind == "list" and len(value):
        return _fits(type_.params[0], value[0])
    if type_.kind == "map" and len(value):
        key = next(iter(value))
        return _fits(type_.params[0], value_of_key(key)) and _fits(type_.params[1], value[key])
    return True


def _implementation(function: str, overload: str) -> Callable[..., Any] | None:
    """Return what an overload does, given the meter and its arguments."""
    if function in CONVERSIONS:
        convert = CONVERSIONS[function]
        return lambda meter, value: convert(value, meter)
    if overload.startswith("timestamp_to_"):
        return library.time_part(function)
    return _FUNCTIONS.get(overload)


def _single(function: str) -> Callable[..., Any] | None:
    """Return what a function does that has one form for all types; None for others."""
    if function in BINARY:
        operator = BINARY[function]
        return lambda meter, left, right: operator(left, right, meter)
    return _SINGLE.get(function)


def _not(meter: Meter, value: Any) -> bool:
    if value.__class__ is not bool:
        raise CelError(NO_OVERLOAD)
    return not value


def _size(meter: Meter, value: Any) -> int:
    if value.__class__ not in _SIZED:
        raise no_overload("size", value)
    return len(value)


def _of_list(function: str, do: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that takes a list only."""

    def run(meter: Meter, items: Any, *rest: Any) -> Any:
        if items.__class__ not in LIST_CLASSES:
            raise no_overload(function, items)
        return do(meter, items, *rest)

    return run


_SINGLE: Final[dict[str, Callable[..., Any]]] = {
    "!_": _not,
    "-_": lambda meter, value: negate(value),
    "size": _size,
    "sort": _of_list("sort", library.sort),
    "@sortByAssociatedKeys": _of_list("@sortByAssociatedKeys", library.sort_by_keys),
}


def _no_form(function: str, args: Sequence[Any]) -> CelError:
    return CelError(f"{NO_OVERLOAD}: {function}({', '.join(map(type_name, args))})")


def _resolved(function: str, overload: str) -> Callable[..., Any]:
    """Return the one form that can apply, behind a look at the types of its arguments."""
    (found,) = (each for each in overloads_of(function) if each.id == overload)
    do = _implementation(function, overload)
    assert do is not None, f"{overload} is declared and not there"
    if function in _UNGUARDED:

        def unguarded(meter: Meter, *args: Any) -> Any:
            if any(arg.__class__ is not str for arg in args):
                raise CelError(NO_OVERLOAD)
            meter.tick(len(args[0]) >> 8)
            return do(meter, *args)

        return unguarded
    types = found.args

    def guarded(meter: Meter, *args: Any) -> Any:
        if not all(map(_fits, types, args)):
            raise _no_form(function, args)
        return do(meter, *args)

    return guarded


def _open(function: str, count: int) -> Callable[..., Any]:
    """Return what looks for the form that takes the arguments."""
    forms = [
        (form.args, do)
        for form in overloads_of(function)
        if len(form.args) == count and (do := _implementation(function, form.id)) is not None
    ]

    def run(meter: Meter, *args: Any) -> Any:
        for types, do in forms:
            if all(map(_fits, types, args)):
                return do(meter, *args)
        raise _no_form(function, args)

    return run


def dispatch(function: str, overloads: Sequence[str], args: Sequence[Run], known: Mapping[int, Any]) -> Run:
    """Return what evaluates a call; `known` are arguments, by place, in the form in which the function takes them."""
    overload = overloads[0] if len(overloads) == 1 else ""
    do = _single(function)
    early = False
    if known:
        do = _searching(function, overload, known)
        early = True
    elif function == "matches":
        do = _matches
    elif function in ("dyn", "type"):
        do = _implementation(function, overload)
    elif do is None:
        do = _resolved(function, overload) if overload else _open(function, len(args))
        early = not overload or overload == "string_format"
    assert do is not None, "every function does something"
    cost = cost_of(function, overload)
    if len(args) == 1:
        return _unary(do, cost, args[0])
    if len(args) == 2 and not early:
        return _binary(do, cost, args[0], args[1])
    return _many(do, cost, tuple(args))


def _searching(function: str, overload: str, known: Mapping[int, Any]) -> Callable[..., Any]:
    """Return a search for a pattern that is compiled."""
    compiled = known[1]
    do = _implementation(function, overload or "matches")
    assert do is not None, "searches have an implementation"

    def run(meter: Meter, text: Any, _: Any, *rest: Any) -> Any:
        if text.__class__ is not str or any(each.__class__ is not int for each in rest):
            raise CelError(NO_OVERLOAD)
        return do(meter, text, compiled, *rest)

    return run


def _matches(meter: Meter, text: Any, pattern: Any) -> bool:
    if text.__class__ is not str:
        raise no_overload("matches", text)
    if pattern.__class__ is not str:
        raise CelError(NO_OVERLOAD)
    return bool(_FUNCTIONS["matches"](meter, text, pattern))


def _unary(do: Callable[..., Any], cost: Callable[..., int], arg: Run) -> Run:
    def run(meter: Meter) -> Any:
        try:
            value = arg(meter)
        except CelError:
            meter.cost += cost(meter, FAILED)
            raise
        meter.charge(cost(meter, value))
        return do(meter, value)

    return run


def charge_failure(meter: Meter, cost: Callable[..., int], right: Run) -> None:
    """Charge for a call whose left argument failed: cel-go evaluates the right one all the same."""
    try:
        other = right(meter)
    except CelError:
        other = FAILED
    meter.cost += cost(meter, FAILED, other)


def _binary(do: Callable[..., Any], cost: Callable[..., int], left: Run, right: Run) -> Run:
    def run(meter: Meter) -> Any:
        try:
            one = left(meter)
        except CelError:
            charge_failure(meter, cost, right)
            raise
        try:
            other = right(meter)
        except CelError:
            meter.cost += cost(meter, one, FAILED)
            raise
        meter.charge(cost(meter, one, other))
        return do(meter, one, other)

    return run


def _many(do: Callable[..., Any], cost: Callable[..., int], args: tuple[Run, ...]) -> Run:
    """Return a call that ends at the first argument that fails."""
    last = len(args) - 1

    def run(meter: Meter) -> Any:
        values: list[Any] = []
        for place, arg in enumerate(args):
            try:
                values.append(arg(meter))
            except CelError:
                if place == last:
                    meter.cost += cost(meter, *values, FAILED)
                raise
        meter.charge(cost(meter, *values))
        return do(meter, *values)

    return run
