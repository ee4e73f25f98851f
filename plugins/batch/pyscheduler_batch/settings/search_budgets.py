"""The time limits of the searches for victims, as KAI configures them in `scenarioSearchBudgets`.

Source: KAI-Scheduler `pkg/apis/kai/v1/schedulingshard_types.go`, `actions/common/solvers/search_budget.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import attrs

from kube_objects.durations import parse_duration

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["SearchBudgets", "search_budgets"]

_DEFAULT: Final = "default"
_ACTIONS: Final = (_DEFAULT, "reclaim", "preempt", "consolidation")
_ACTION_SECONDS: Final = 300.0
_GENERATOR_SECONDS: Final = 120.0
#: The policies that propose victims, with the seconds that each may take by default.
_GENERATORS: Final[Mapping[str, float]] = {"sg-nodelocalgreedy": 30.0, "sg-multinodegang": 120.0}
_KEYS: Final = (
    "maxActionSearchDuration",
    "maxJobSearchDuration",
    "minJobSearchDuration",
    "maxGeneratorSearchDuration",
)


@attrs.frozen(kw_only=True)
class SearchBudgets:
    """Limits in seconds; 0 is unlimited. In the maps, the key `default` counts for names that have no key."""

    actions: Mapping[str, float] = attrs.field(factory=dict, hash=False)
    job: float = 240.0
    #: What each job gets at least, whatever its action has left.
    least_job: float = 0.0
    generators: Mapping[str, float] = attrs.field(factory=dict, hash=False)

    def arguments(self, action: str) -> dict[str, str]:
        """Return the limits as arguments of an action."""
        limit = self.actions.get(action, self.actions.get(_DEFAULT, _ACTION_SECONDS))
        return {
            "maxActionSearchDuration": str(limit),
            "maxJobSearchDuration": str(self.job),
            "minJobSearchDuration": str(self.least_job),
        }

    def limits(self, policy: str) -> bool:
        """Return whether a policy proposes victims, by itself or by the configuration, and so has a limit."""
        return policy in _GENERATORS or policy in self.generators

    def generator_seconds(self, name: str) -> float:
        """Return how long a search may spend with a generator. A configured default replaces the built-in ones."""
        built_in = _GENERATORS.get(name, _GENERATOR_SECONDS)
        return self.generators.get(name, self.generators.get(_DEFAULT, built_in))


def search_budgets(value: object) -> SearchBudgets:
    """Return the limits that a file gives; raise `ValueError` with a sentence for what KAI refuses."""
    said = _mapping(value, "scenarioSearchBudgets")
    for key in said:
        if key not in _KEYS:
            raise ValueError(f"no key is called {key!r}; known are {', '.join(_KEYS)}")
    usual = SearchBudgets()
    job, least = said.get("maxJobSearchDuration"), said.get("minJobSearchDuration")
    budgets = SearchBudgets(
        actions=_durations(said.get("maxActionSearchDuration"), "maxActionSearchDuration", _ACTIONS),
        job=usual.job if job is None else _seconds(job, "maxJobSearchDuration"),
        least_job=usual.least_job if least is None else _seconds(least, "minJobSearchDuration"),
        generators=_durations(said.get("maxGeneratorSearchDuration"), "maxGeneratorSearchDuration", ()),
    )
    if budgets.job and budgets.least_job >= budgets.job:
        raise ValueError("minJobSearchDuration must be less than maxJobSearchDuration")
    return budgets


def _mapping(value: object, where: str) -> Mapping[str, object]:
    if isinstance(value, Mapping):
        return {str(key): each for key, each in value.items()}
    raise ValueError(f"{where}: expected a mapping, found {value!r}")


def _durations(value: object, where: str, known: Collection[str]) -> dict[str, float]:
    """Return seconds by name; `known` are the names that may be there, none for any."""
    found: dict[str, float] = {}
    for name, each in _mapping({} if value is None else value, where).items():
        if known and name not in known:
            raise ValueError(f"{where}: no action is called {name!r}; known are {', '.join(known)}")
        found[name] = _seconds(each, f"{where}.{name}")
    return found


def _seconds(value: object, where: str) -> float:
    try:
        seconds = parse_duration(value if isinstance(value, str) else "")
    except ValueError:
        seconds = -1.0
    if seconds < 0:
        raise ValueError(f"{where}: expected a duration of 0 or more such as 30s, found {value!r}")
    return seconds
