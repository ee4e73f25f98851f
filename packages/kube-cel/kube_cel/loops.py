"""Evaluate the macros that loop over a list or map: ``all``, ``exists``, ``map`` ...

A macro runs as a Python loop, and costs as many CEL cost units as in cel-go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import attrs

from kube_cel.attributes import go_type
from kube_cel.errors import CelError
from kube_cel.library import insert
from kube_cel.operators import NO_OVERLOAD
from kube_cel.values import LIST_CLASSES, DefaultMap, Map, find_key, items_of, type_name, value_of_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kube_cel.meter import Meter

__all__ = ["UNSET", "Rounds", "loop"]

Run: TypeAlias = "Callable[[Meter], Any]"
T = TypeVar("T")

UNSET: Final = object()
"""Stands in the place of a variable that has not been worked out yet."""


@attrs.frozen(eq=False)
class Rounds:
    """The range of a loop: the values of `source`, in the variables of two slots, the second below 0 if missing.

    A round counts as so many `steps`.
    """

    source: Run
    first: int
    second: int
    steps: int


def loop(kind: str, rounds: Rounds, runs: Sequence[Run]) -> Run:
    """Return the loop of a macro; `runs` are the expressions in it."""
    match kind:
        case "all":
            return _quantifier(rounds, runs[0], stops=False, check_cost=2)
        case "exists":
            return _quantifier(rounds, runs[0], stops=True, check_cost=3)
        case "exists_one":
            return _exists_one(rounds, runs[0])
        case "list":
            return _build_list(rounds, runs)
    return _build_map(rounds, runs, entries=kind == "entries")


def _each(rounds: Rounds, meter: Meter) -> Iterator[bool]:
    """Set the variables for each round; yield whether it is the last."""
    value = rounds.source(meter)
    first, second, steps = rounds.first, rounds.second, rounds.steps
    is_map = value.__class__ is Map or value.__class__ is DefaultMap
    if not is_map and value.__class__ not in LIST_CLASSES:
        if second < 0:
            raise CelError(f"got '{go_type(value)}', expected iterable type")
        raise CelError(f"unsupported comprehension range type: {go_type(value)}")
    variables = meter.slots
    left = len(value)
    for place, item in enumerate(value):
        meter.fuel -= steps
        if meter.fuel < 0:
            meter.tick(0)
        left -= 1
        if second < 0:
            variables[first] = value_of_key(item) if is_map else item
        elif is_map:
            variables[first], variables[second] = value_of_key(item), value[item]
        else:
            variables[first], variables[second] = place, item
        yield not left


def _quantifier(rounds: Rounds, predicate: Run, *, stops: bool, check_cost: int) -> Run:
    """Return ``exists`` if True stops the loop, else ``all``."""

    def run(meter: Meter) -> bool:
        problem: CelError | None = None
        for is_last in _each(rounds, meter):
            meter.cost += check_cost + 1
            try:
                value = predicate(meter)
            except CelError as error:
                problem = problem or error
                continue
            if value is stops:
                meter.cost += 1 if is_last else check_cost + 1
                return bool(stops)
            if value is not (not stops) and problem is None:
                problem = CelError(NO_OVERLOAD)
        meter.cost += 1
        if problem is not None:
            raise problem
        return not stops

    return run


def _exists_one(rounds: Rounds, predicate: Run) -> Run:
    def run(meter: Meter) -> bool:
        count = 0
        problem: CelError | None = None
        for _ in _each(rounds, meter):
            try:
                value = predicate(meter)
            except CelError as error:
                problem = error
                continue
            if value is True:
                meter.cost += 2
                count += 1
            elif value is not False:
                problem = CelError(NO_OVERLOAD)
        meter.cost += 2
        if problem is not None:
            raise problem
        return count == 1

    return run


def _chosen(runs: Sequence[Run], meter: Meter) -> bool:
    """Return whether a round counts, as the filter after its result decides; raise `CelError`."""
    if len(runs) == 1:
        return True
    decided = runs[1](meter)
    if decided is not True and decided is not False:
        raise CelError(NO_OVERLOAD)
    return bool(decided)


def _build(rounds: Rounds, runs: Sequence[Run], new: Callable[[], T], add: Callable[[T, bool, Meter], None]) -> Run:
    """Return a loop that calls `add` in each chosen round, with what `new` made and whether a round has failed."""

    def run(meter: Meter) -> T:
        made = new()
        problem: CelError | None = None
        for _ in _each(rounds, meter):
            try:
                if not _chosen(runs, meter):
                    continue
            except CelError as error:
                problem = error
                continue
            try:
                add(made, problem is not None, meter)
            except CelError as error:
                problem = problem or error
        meter.cost += 1
        if problem is not None:
            raise problem
        return made

    return run


def _build_list(rounds: Rounds, runs: Sequence[Run]) -> Run:
    """Return a loop that makes a list; its body makes lists of one element."""
    element = runs[0]

    def add(made: list[Any], _has_failed: bool, meter: Meter) -> None:
        meter.cost += 2
        made += element(meter)

    return _build(rounds, runs, list, add)


def _build_map(rounds: Rounds, runs: Sequence[Run], *, entries: bool) -> Run:
    value_run = runs[0]

    def add(made: Map, has_failed: bool, meter: Meter) -> None:
        meter.cost += 1
        if has_failed and not entries:
            return
        meter.cost += 1 if entries else 2
        value = value_run(meter)
        if not has_failed:
            _insert(made, value, meter.slots[rounds.first], entries, meter)

    return _build(rounds, runs, Map, add)


def _insert(made: Map, value: Any, key: Any, entries: bool, meter: Meter) -> None:
    if not entries:
        insert(made, key, value, meter)
        return
    if value.__class__ is not Map and value.__class__ is not DefaultMap:
        raise CelError(f"{NO_OVERLOAD}: cel.@mapInsert(map, {type_name(value)})")
    for name in items_of(value, meter):
        insert(made, name, value[find_key(value, name)], meter)
