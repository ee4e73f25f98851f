"""Search for plugin weights that minimise or maximise a result of simulations, with Optuna's TPE sampler.

Optuna proposes weights, and one simulation runs with them for each random seed.
At the end, simulations with further seeds compare the best weights with the profile's own weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import attrs
import msgspec

from pyscheduler.framework.errors import ConfigError
from pyscheduler_lab.results.columns import UNITS
from pyscheduler_lab.sweep.plan import Plan, mistakes_in, read_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyscheduler_lab.sweep.cells import Outcome
    from pyscheduler_lab.sweep.plan import Cell

__all__ = ["Search", "Trial", "read_search", "snippet", "trials_of"]

_REMEDY: Final = "pip install 'kube-pyscheduler-lab[sweep]'"


class _Goal(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of the file that are not of sweeps."""

    minimize: str = ""
    maximize: str = ""
    trials: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 40
    search_seed: Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)] = 0


@attrs.frozen(kw_only=True)
class Search:
    """A search of weights."""

    plan: Plan
    goal: _Goal

    @property
    def column(self) -> str:
        """Return the column of the objective."""
        return self.goal.minimize or self.goal.maximize

    @property
    def profile(self) -> str:
        """Return the profile whose weights are searched."""
        return self.plan.profiles[0]

    @property
    def other_seeds(self) -> Sequence[int]:
        """Return seeds that the search does not use, as many as it uses."""
        first = max(self.plan.seeds) + 1
        return range(first, first + len(self.plan.seeds))

    def cells(self, weights: Mapping[str, int], seeds: Sequence[int] = ()) -> list[Cell]:
        """Return the cells of the profile with these weights."""
        return self.plan.cells_of(self.plan.places[0], self.profile, weights, seeds)

    def is_better(self, value: float, other: float) -> bool:
        """Return True if a value of the column is better than another one."""
        return value < other if self.goal.minimize else value > other


@attrs.frozen(kw_only=True)
class Trial:
    """Weights, and the mean of the column over the seeds; None if a cell failed or has no value."""

    number: int
    weights: Mapping[str, int]
    outcomes: Sequence[Outcome]
    value: float | None


def read_search(path: str) -> Search:
    """Return the search in a file; raise `ConfigError` for a mistake, or if Optuna is not installed."""
    try:
        import optuna  # noqa: F401, PLC0415 - of an extra
    except ImportError as error:
        raise ConfigError(f"lab tune needs Optuna, which is not installed; run {_REMEDY}") from error
    plan = read_plan(path, more=_Goal.__struct_fields__)
    with mistakes_in(path):
        goal = msgspec.convert(plan.rest, _Goal)
        columns = ", ".join(UNITS)
        if bool(goal.minimize) == bool(goal.maximize):
            raise ConfigError(f"name one of minimize and maximize, with a column of results: {columns}")
        for key in ("minimize", "maximize"):
            column = getattr(goal, key)
            if column and column not in UNITS:
                raise ConfigError(f'{key}: no column "{column}"; known are {columns}')
        if len(plan.places) > 1 or len(plan.profiles) > 1:
            raise ConfigError("traces, clusters and profiles: a search has one of each; leave only one")
        if not plan.weights:
            example = "weights: {NodeResourcesFit: {min: 1, max: 20}}"
            raise ConfigError(f"weights is missing; write for example {example}")
    return Search(plan=plan, goal=goal)


def trials_of(search: Search, run: Callable[[Sequence[Cell], int], Sequence[Outcome]]) -> Iterator[Trial]:
    """Yield the trials; the first one has the weights of the profile, if these are within the ranges.

    `run` gets the cells of a trial and its number, and returns their outcomes.
    """
    import optuna  # noqa: PLC0415 - of an extra

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        direction="minimize" if search.goal.minimize else "maximize",
        sampler=optuna.samplers.TPESampler(seed=search.goal.search_seed),
    )
    ranges = search.plan.weights
    current = search.plan.scores[search.profile]
    if all(current[plugin] in values for plugin, values in ranges.items()):
        study.enqueue_trial({plugin: current[plugin] for plugin in ranges})
    for number in range(search.goal.trials):
        trial = study.ask()
        weights = {plugin: trial.suggest_int(plugin, values[0], values[-1]) for plugin, values in ranges.items()}
        outcomes = run(search.cells(weights), number)
        values = [each.cells[search.column] for each in outcomes if each.cells is not None]
        known = [value for value in values if value is not None]
        value = sum(known) / len(known) if len(known) == len(outcomes) else None
        study.tell(trial, value, state=None if value is not None else optuna.trial.TrialState.FAIL)
        yield Trial(number=number, weights=weights, outcomes=outcomes, value=value)


def snippet(weights: Mapping[str, int]) -> str:
    """Return the part of a profile that sets these weights."""
    lines = [f"    - {{name: {plugin}, weight: {weight}}}" for plugin, weight in weights.items()]
    return "\n".join(["plugins:", "  score:", "    enabled:", *lines])
