"""Compute the numbers of the charts for each run, and group the runs that differ in their seed only."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import attrs
import msgspec
import numpy as np

from pyscheduler.framework.errors import ConfigError
from pyscheduler_lab.results.bundle import bundles_in
from pyscheduler_lab.results.columns import Cells, Unfinished, cells_of, classes_of, unfinished_of
from pyscheduler_lab.results.measures import Measures
from pyscheduler_lab.simulation.replay_report import PluginErrors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from pyscheduler_lab.results.bundle import Bundle

__all__ = ["PARTS", "Group", "RunSeries", "TeamSeries", "bundles_of", "groups_of", "names_of", "series_of_run"]

PARTS: Final = 72
"""Number of parts of the time."""

#: Number of steps between the points of the distribution of waits.
_STEPS: Final = 200
#: At most so many teams are shown, those with the most jobs.
_MOST_TEAMS: Final = 24
_DIGITS: Final = 6


class TeamSeries(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of one team."""

    team: str
    jobs: float | None
    wait_mean_s: float | None


class RunSeries(msgspec.Struct, frozen=True, kw_only=True):
    """One run. Lists over time have `PARTS` values; None where nothing is known."""

    seed: int
    #: The length of the window in seconds.
    seconds: float
    #: The wait below which a share of the jobs waited, for the shares 0, 1/200, ..., 1; empty without jobs.
    waits: list[float]
    #: GPU time of runs, over the GPU time of all nodes.
    utilisation: list[float | None]
    #: Mean number of jobs that wait.
    waiting: list[float | None]
    #: Share of the free GPU time on nodes where a typical worker does not fit.
    fragmentation: list[float | None]
    teams: list[TeamSeries]
    cells: Cells
    unfinished: list[Unfinished]
    plugin_errors: list[PluginErrors]


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Runs that differ in their seed only: at least one."""

    name: str
    runs: list[RunSeries]

    def name_of(self, run: RunSeries) -> str:
        """Return the name of the group, and the seed if the group has several."""
        return f"{self.name}, seed {run.seed}" if len(self.runs) > 1 else self.name

    @property
    def has_unfinished(self) -> bool:
        """True if a job of a run did not finish."""
        return any(run.unfinished for run in self.runs)


class _Policy(msgspec.Struct, frozen=True):
    policy: str


class _Comparison(msgspec.Struct, frozen=True):
    """The part of `comparison.json` that has the order of the policies."""

    policies: list[_Policy]


def bundles_of(folder: Path) -> list[Bundle]:
    """Return the bundles in a folder: those of a comparison in the order of its policies, others by path.

    Marks are about the difference to the first policy, so that it has to be the first one of the comparison.

    Raises `ConfigError` if there is no bundle, or a file cannot be read.
    """
    bundles = bundles_in(folder)
    file = folder / "comparison.json"
    if not file.is_file():
        return bundles
    try:
        policies = msgspec.json.decode(file.read_bytes(), type=_Comparison).policies
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(f"not a comparison: {error}", source=str(file)) from error
    order = {each.policy: number for number, each in enumerate(policies)}
    return sorted(bundles, key=lambda bundle: order.get(bundle.run.settings.policy, len(order)))


def groups_of(bundles: Sequence[Bundle]) -> list[Group]:
    """Return the groups, in the order of their first bundles."""
    groups: dict[bytes, list[Bundle]] = {}
    times: Counter[bytes] = Counter()
    for bundle in bundles:
        run = bundle.run
        settings = msgspec.structs.replace(run.settings, seed=0)
        same = [settings, run.inputs, run.versions, run.local_code, run.plugin_files]
        # A second run with the same seed is no other sample; it begins another group.
        key = msgspec.json.encode([*same, run.settings.seed], order="sorted")
        groups.setdefault(msgspec.json.encode([*same, times[key]], order="sorted"), []).append(bundle)
        times[key] += 1
    found = [*groups.values()]
    names = names_of([group[0] for group in found])
    return [
        Group(name=name, runs=[series_of_run(bundle) for bundle in group])
        for name, group in zip(names, found, strict=True)
    ]


def names_of(bundles: Sequence[Bundle]) -> list[str]:
    """Return a name for each bundle: its policy, and each setting in which the bundles differ."""
    settings: list[dict[str, Any]] = [msgspec.to_builtins(bundle.run.settings) for bundle in bundles]
    for one in settings:
        one["policy"] = str(one["policy"]).rpartition("/")[2]
    differing = [
        name
        for name in (settings[0] if settings else {})
        if name != "policy" and len({msgspec.json.encode(one[name]) for one in settings}) > 1
    ]
    names = [", ".join([one["policy"], *(f"{name} {one[name]}" for name in differing)]) for one in settings]
    twice = {name for name, number in Counter(names).items() if number > 1}
    return [f"{name} ({bundle.folder})" if name in twice else name for name, bundle in zip(names, bundles, strict=True)]


def series_of_run(bundle: Bundle) -> RunSeries:
    """Return the numbers of the run in a bundle."""
    measures = Measures.of(bundle.tables)
    edges = np.linspace(measures.begin, measures.end, PARTS + 1)
    capacity = [
        attrs.evolve(measures, begin=begin, end=end).capacity_gpu_seconds() for begin, end in pairwise(edges.tolist())
    ]
    use, free, waits = measures.use, measures.free, measures.waits
    teams = [
        TeamSeries(team=team or "-", jobs=cells["jobs"], wait_mean_s=cells["wait_mean_s"])
        for team, cells in classes_of(measures, "team").items()
    ]
    teams.sort(key=lambda one: (-(one.jobs or 0.0), one.team))
    return RunSeries(
        seed=bundle.run.settings.seed,
        seconds=round(measures.end - measures.begin, _DIGITS),
        waits=_rounded(np.quantile(waits, np.linspace(0.0, 1.0, _STEPS + 1))) if len(waits) else [],
        utilisation=_ratios(_by_part(edges, use.begin, use.end, use.gpus), np.array(capacity)),
        waiting=_ratios(np.diff(measures.total_wait_until(edges)), np.diff(edges)),
        fragmentation=_ratios(
            _by_part(edges, free.begin, free.end, free.unusable), _by_part(edges, free.begin, free.end, free.gpus)
        ),
        teams=teams[:_MOST_TEAMS],
        cells=cells_of(measures),
        unfinished=unfinished_of(bundle.tables),
        plugin_errors=bundle.plugin_errors,
    )


def _by_part(
    edges: NDArray[np.float64], begin: NDArray[np.float64], end: NDArray[np.float64], gpus: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the GPU seconds of spans in each part of the time."""
    until = [float((np.clip(edge - begin, 0.0, end - begin) * gpus).sum()) for edge in edges]
    return np.diff(until)


def _ratios(parts: NDArray[np.float64], wholes: NDArray[np.float64]) -> list[float | None]:
    """Return the ratios; None where the whole is 0."""
    return [
        round(part / whole, _DIGITS) if whole > 0 else None
        for part, whole in zip(parts.tolist(), wholes.tolist(), strict=True)
    ]


def _rounded(values: NDArray[np.float64]) -> list[float]:
    return [round(value, _DIGITS) for value in values.tolist()]
