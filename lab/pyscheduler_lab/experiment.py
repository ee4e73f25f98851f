"""`compare` simulates a trace with several scheduler profiles, as `pyscheduler simulate --trace --compare` does.

The results are Arrow tables.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args

import attrs
import pyarrow as pa

from pyscheduler.framework.errors import ConfigError
from pyscheduler_lab.inputs import check_inputs
from pyscheduler_lab.results.columns import COLUMNS, unfinished_of
from pyscheduler_lab.results.comparison import Estimate, Summary, estimates, results_of, summary_of
from pyscheduler_lab.results.runs import Run, Workload, play_each
from pyscheduler_lab.results.settings import RunSettings, Ties
from pyscheduler_lab.results.tables import TABLES
from pyscheduler_lab.simulation.policies import jobs_of_teams, policy_named, teams_of
from pyscheduler_lab.simulation.replay_cluster import FIDELITIES, Fidelity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyscheduler_lab.clusters import Cluster
    from pyscheduler_lab.traces import Trace

__all__ = ["Comparison", "compare"]

#: Of an estimate, in the order of the columns of `Comparison.estimates`.
_ESTIMATE: Final = Estimate.__struct_fields__


@attrs.frozen(kw_only=True)
class Comparison:
    """The runs of a comparison, in order of policies, then of seeds."""

    runs: Sequence[Run] = attrs.field(repr=lambda runs: f"<{len(runs)} runs>")

    @property
    def summary(self) -> pa.Table:
        """Return a row for each run: `policy`, `seed`, and the columns of results, as floats; null without a value."""
        found = self._summaries
        keys = {"policy": [each.policy for each in found], "seed": [each.seed for each in found]}
        return pa.table(
            keys
            | {column.name: pa.array([each.cells[column.name] for each in found], pa.float64()) for column in COLUMNS}
        )

    @property
    def estimates(self) -> pa.Table:
        """Return a row for each policy and column of results: the mean over seeds and its 95 % interval.

        The columns whose names begin with `difference` are about the difference to the first policy, seed by seed;
        they are null in its own rows. With one seed, there are no intervals.
        """
        results = results_of(self._summaries)
        rows = [
            {"policy": each.policy, "column": name} | {part: getattr(found, part) for part in _ESTIMATE}
            for each in results
            for name, found in estimates(each.runs, results[0].runs).items()
        ]
        types = {"policy": pa.string(), "column": pa.string()} | dict.fromkeys(_ESTIMATE, pa.float64())
        return pa.Table.from_pylist(rows, schema=pa.schema(list(types.items())))

    @cached_property
    def _summaries(self) -> Sequence[Summary]:
        return [summary_of(run) for run in self.runs]

    def table(self, name: str) -> pa.Table:
        """Return a table of the bundles (`jobs`, `pods`, `timeline`, `nodes`) of all runs, with `policy` and `seed`.

        Raises `KeyError` for another name.
        """
        if name not in TABLES:
            raise KeyError(f'no table "{name}"; there are {", ".join(TABLES)}')
        found = []
        for run in self.runs:
            table = getattr(run.tables, name)
            seeds = pa.array([run.settings.seed] * table.num_rows, pa.int64())
            policies = pa.array([run.settings.policy] * table.num_rows, pa.string())
            found.append(table.add_column(0, "seed", seeds).add_column(0, "policy", policies))
        return pa.concat_tables(found)


def compare(
    trace: Trace,
    cluster: Cluster,
    policies: Sequence[str | Path],
    *,
    seeds: int = 1,
    quotas: Mapping[str, int] | None = None,
    ties: Ties = "random",
    fidelity: Fidelity = "decisions",
) -> Comparison:
    """Replay a trace on a cluster under each policy, with the seeds 0 to `seeds` - 1.

    A policy is a name, such as `fifo` or `kai`, or the path of a configuration file. `quotas`: GPUs by team (default:
    in proportion to the work of the teams). `ties`: the choice among nodes of equal score. `fidelity`: `full` runs an
    API server, too.

    Warns about what the reader of the trace left out, about runs in which jobs did not finish, whose waits are lower
    bounds, and about runs in which a plugin failed, whose results are not those of the policy.

    Raises `ConfigError` for an unknown policy, for arguments of another type, and for jobs or quotas that cannot be
    replayed.
    """
    check_inputs(trace, cluster)
    _check_choices(seeds, quotas, ties, fidelity)
    policies = _names(policies)
    for note, number in trace.notes.items():
        warnings.warn(f"{trace.name}: {note}: {number}", stacklevel=2)
    jobs = jobs_of_teams(trace.jobs, source=trace.source)
    workload = Workload(jobs=jobs, cluster=cluster, teams=teams_of(jobs, cluster, quotas))
    settings = RunSettings(trace=trace.name, nodes=cluster.source, policy=policies[0], ties=ties, fidelity=fidelity)
    runs = [*play_each(workload, [*map(policy_named, policies)], settings, range(seeds))]
    for text in _doubts(runs):
        warnings.warn(text, stacklevel=2)
    return Comparison(runs=runs)


def _names(policies: object) -> list[str]:
    """Return the policies as texts."""
    if isinstance(policies, str | Path):
        raise ConfigError(f"policies must be a list, such as [{str(policies)!r}], not {policies!r}")
    try:
        given = [*policies]  # type: ignore[misc] # the caller may have passed anything
    except TypeError:
        raise ConfigError(f"policies must be a list of names and paths, not {policies!r:.80}") from None
    if not given:
        raise ConfigError("policies is empty; name at least one, such as fifo")
    odd = next((each for each in given if not isinstance(each, str | Path)), None)
    if odd is not None:
        raise ConfigError(f"a policy is a name or a path, not {odd!r:.80}")
    names = [*map(str, given)]
    if len({*names}) < len(names):
        raise ConfigError("name each policy once")
    return names


def _check_choices(seeds: object, quotas: object, ties: object, fidelity: object) -> None:
    """Raise `ConfigError` for arguments of another type."""
    if not isinstance(seeds, int) or seeds < 1:
        raise ConfigError(f"seeds must be a whole number of at least 1, not {seeds!r:.80}")
    for name, value, known in (("ties", ties, get_args(Ties)), ("fidelity", fidelity, FIDELITIES)):
        if value not in known:
            raise ConfigError(f"{name} must be one of {', '.join(known)}, not {value!r:.80}")
    if quotas is None:
        return
    numbers = quotas.values() if isinstance(quotas, Mapping) else [None]
    if not all(isinstance(number, int) and number >= 0 for number in numbers):
        raise ConfigError(f"quotas must map each team to a whole number of GPUs, not {quotas!r:.80}")


def _doubts(runs: Iterable[Run]) -> Iterator[str]:
    """Yield what makes the results of runs doubtful."""
    for run in runs:
        where = f"{run.settings.policy}, seed {run.settings.seed}"
        yield from (f"{where}: {error}" for error in run.report.plugin_errors)
        number = sum(each.jobs for each in unfinished_of(run.tables))
        if number:
            yield f"{where}: {number} of {run.report.jobs} jobs did not finish; waits are lower bounds"
