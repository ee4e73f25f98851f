"""Check the methods of a plugin's class when a profile is built.

Without the check, a method with wrong parameters would fail only at its first call, and an optional method with a
misspelt name would never be called.
"""

from __future__ import annotations

import difflib
import inspect
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from pyscheduler.framework.callables import is_foreign, takes
from pyscheduler.framework.interfaces import (
    BindPlugin,
    EnqueueExtensions,
    GroupCyclePlugin,
    PlacementScorePlugin,
    Plugin,
    PreFilterPlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
    SignPlugin,
)
from pyscheduler.framework.plugin_failures import error_place
from pyscheduler.framework.preemption import PreemptionRules
from pyscheduler.runtime.extension_points.points import BASES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["check_rules", "misspelt_methods", "wrong_parameters"]

#: How similar two names must be, from 0 to 1: a letter more, or two letters swapped.
_CUTOFF: Final = 0.85
_WORDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

#: Methods that an interface calls if a plugin has them, with their parameters.
_OPTIONAL: Final[Mapping[type[Plugin], Mapping[str, tuple[str, ...]]]] = {
    Plugin: {"run": (), "close": (), "may_reuse": ("pod",)},
    QueueSortPlugin: {"less": ("a", "b")},
    PreFilterPlugin: {
        "add_pod": ("state", "pod", "to_add", "node"),
        "remove_pod": ("state", "pod", "to_remove", "node"),
    },
    ScorePlugin: {"normalize_scores": ("state", "pod", "scores")},
    ReservePlugin: {"release_in_trial": ("pod", "node_name"), "is_needed_by_others": ("pod",)},
    BindPlugin: {"abandon_bindings": ("pods",)},
    PlacementScorePlugin: {
        "normalize_placement_scores": ("state", "group", "scores"),
        "bound_placement_scores": ("state", "group", "table", "counts"),
    },
}
_INTERFACES: Final[Sequence[type[Plugin]]] = (
    Plugin,
    *BASES.values(),
    EnqueueExtensions,
    SignPlugin,
    GroupCyclePlugin,
)


def _declared(base: type) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the methods of an interface with their parameters, optional ones included."""
    for name, found in vars(base).items():
        if inspect.isfunction(found) and not name.startswith("_"):
            yield name, tuple(inspect.signature(found).parameters)[1:]
    yield from _OPTIONAL.get(base, {}).items()


#: The methods of preemption rules, with their parameters.
_RULES: Final[Mapping[str, tuple[str, ...]]] = dict(_declared(PreemptionRules))
#: Rules have few other methods, so that a name may differ by a word: `can_evict`.
_RULES_CUTOFF: Final = 0.7
#: The methods of each interface, with their parameters.
_METHODS: Final[Mapping[type[Plugin], Mapping[str, tuple[str, ...]]]] = {
    base: dict(_declared(base)) for base in _INTERFACES
}
#: The interfaces of each method that may be meant by a similar name. A helper may well be called `score` or `filters`;
#: names of two words are rarely met by accident.
_WANTED: Final[Mapping[str, tuple[type[Plugin], ...]]] = {
    name: tuple(each for each in _INTERFACES if name in _METHODS[each])
    for base in _INTERFACES
    for name in _METHODS[base]
    if "_" in name
}
_KNOWN: Final = frozenset(name for base in _INTERFACES for name in (*_METHODS[base], *dir(base)))


def wrong_parameters(plugin: type[Plugin]) -> Sequence[str]:
    """Return a sentence about each method of an interface that cannot be called as the scheduler calls it."""
    if not is_foreign(plugin):
        return ()  # tests cover pyscheduler's own plugins
    return [
        problem
        for base in _INTERFACES
        if issubclass(plugin, base)
        for name, parameters in _METHODS[base].items()
        if (problem := _wrong_call(f'plugin "{plugin.name}"', plugin, base, name, parameters))
    ]


def check_rules(rules: object) -> Sequence[str]:
    """Return a sentence about each method of preemption rules that nobody calls, because its name is misspelt.

    Raises `TypeError` for what are no `PreemptionRules`, and for a method that cannot be called as the scheduler does.
    """
    if not isinstance(rules, PreemptionRules):
        is_class = inspect.isclass(rules) and issubclass(rules, PreemptionRules)
        remedy = f"; write {rules.__name__}()" if is_class else ""  # type: ignore[attr-defined] # mypy does not follow
        raise TypeError(f"handle.preemptor() takes an object of PreemptionRules, not {rules!r}{remedy}")
    kind = type(rules)
    if not is_foreign(kind):
        return ()  # as in `wrong_parameters`
    for name, parameters in _RULES.items():
        wrong = _wrong_call(f"class {kind.__name__}", kind, PreemptionRules, name, parameters)
        if wrong:
            raise TypeError(wrong)
    problems = []
    for name in _own_methods(kind):  # type: ignore[arg-type]  # the same
        if name not in _RULES and (close := difflib.get_close_matches(name, _RULES, n=1, cutoff=_RULES_CUTOFF)):
            remedy = f'rename it to "{close[0]}", or begin the name of a helper with an underscore'
            problems.append(f"class {kind.__name__} defines {name}, which is never called; {remedy}")
    return problems


def _wrong_call(who: str, kind: type, base: type, name: str, parameters: Sequence[str]) -> str:
    """Return a sentence if the method `name` of `kind` does not take the parameters of that of `base`, else ""."""
    found = inspect.getattr_static(kind, name, None)
    if found is None or found is inspect.getattr_static(base, name, None) or takes(found, len(parameters)):
        return ""
    function = getattr(found, "__func__", found)
    place = error_place(TypeError(), function)
    where = f" ({place})" if place else ""
    written = f"{name}({', '.join(inspect.signature(function, follow_wrapped=False).parameters)})"
    return f"{who} defines {written}{where}, but the scheduler calls {name}({', '.join(parameters)})"


def misspelt_methods(plugin: type[Plugin]) -> Sequence[str]:
    """Return a sentence about each method that nobody calls, and whose name is close to one that would be called.

    A method whose name begins with an underscore is a helper.
    """
    own = _own_methods(plugin)  # type: ignore[arg-type]  # a class has a hash
    problems = []
    for name in own:
        meant = _meant(name)
        if meant is None or (meant in own and meant != name):
            continue
        # `events_to_register` is called without the interface, too.
        bases = _WANTED[meant]
        inherits = issubclass(plugin, bases) or EnqueueExtensions in bases
        remedies = [f'rename it to "{meant}"'] * (name != meant)
        if not inherits:
            remedies.append(f"inherit {' or '.join(base.__name__ for base in bases)}")
        if not remedies:
            continue
        remedy = " and ".join(remedies)
        problems.append(
            f'plugin "{plugin.name}" defines {name}, which is never called; {remedy}, '
            "or begin the name of a helper with an underscore"
        )
    return problems


@lru_cache(maxsize=1024)
def _own_methods(kind: type) -> Sequence[str]:
    """Return the names of the methods of a class that are not of this package, without helpers."""
    found = {
        name: None
        for each in kind.__mro__
        if each is not object and is_foreign(each)
        for name, member in vars(each).items()
        if inspect.isroutine(member) and not name.startswith("_")
    }
    return tuple(found)


# Comparing a name with all others is most of the time of a check, and the same plugins are checked again and again: in
# each profile, and in each scheduler of a process that builds many.
@lru_cache(maxsize=4096)
def _meant(name: str) -> str | None:
    """Return the name of the method that a method called `name` was likely meant to be."""
    if name in _WANTED:
        return name
    if name in _KNOWN:
        return None
    snake = _WORDS.sub("_", name).lower()
    return next(iter(difflib.get_close_matches(snake, _WANTED, n=1, cutoff=_CUTOFF)), None)
