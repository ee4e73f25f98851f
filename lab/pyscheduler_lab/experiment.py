"""`compare`: `pyscheduler simulate --trace --compare` as a Python function, whose results are Arrow tables.

Trace and nodes may be made in Python. If pandas or polars is installed, `table.to_pandas()` or
`polars.from_arrow(table)` converts a table.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal

import attrs
import pyarrow as pa

from pyscheduler.framework.errors import ConfigError
from pyscheduler_lab.inputs import check_inputs
from pyscheduler_lab.results.columns import COLUMNS
from pyscheduler_lab.results.comparison import Estimate, Summary, estimates, results_of, summary_of
from pyscheduler_lab.results.runs import Run, Workload, play_each
from pyscheduler_lab.results.settings import RunSettings
from pyscheduler_lab.results.tables import TABLES
from pyscheduler_lab.simulation.policies import jobs_of_teams, policy_named, teams_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyscheduler_lab.clusters import Cluster
    from pyscheduler_lab.results.settings import Ties
    from pyscheduler_lab.traces import Trace

__all__ = ["Comparison", "compare"]

#: Of an estimate, in the order of the columns of `Comparison.estimates`.
_ESTIMATE: Final = Estimate.__struct_fields__


@attrs.frozen(kw_only=True)
class Comparison:
    """The runs of a comparison, in order of policies, then of seeds."""

    runs: Sequence[Run]

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
    policies: Sequence[str],
    *,
    seeds: int = 1,
    quotas: Mapping[str, int] | None = None,
    ties: Ties = "random",
    fidelity: Literal["full", "decisions"] = "decisions",
) -> Comparison:
    """Replay a trace on a cluster under each policy, with the seeds 0 to `seeds` - 1.

    A policy is a name, such as `fifo` or `kai`, or the path of a configuration file. `quotas`: GPUs by team (default:
    in proportion to the work of the teams). `ties`: the choice among nodes of equal score. `fidelity`: `full` runs an
    API server, too.

    Raises `ConfigError` for an unknown policy, for arguments of another type, and for jobs or quotas that cannot be
    replayed.
    """
    check_inputs(trace, cluster)
    if isinstance(policies, str):
        raise ConfigError(f"policies must be a list, such as [{policies!r}], not the text {policies!r}")
    if seeds < 1 or not policies or len({*policies}) < len(policies):
        raise ConfigError("compare needs at least one seed, and each policy once")
    jobs = jobs_of_teams(trace.jobs, source=trace.source)
    workload = Workload(jobs=jobs, cluster=cluster, teams=teams_of(jobs, cluster, quotas))
    settings = RunSettings(trace=trace.name, nodes=cluster.source, policy=policies[0], ties=ties, fidelity=fidelity)
    return Comparison(runs=[*play_each(workload, [*map(policy_named, policies)], settings, range(seeds))])
