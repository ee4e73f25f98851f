"""The results of a sweep (simulations of many combinations of traces, clusters, profiles and seeds), as a table.

A row has the mean results over all seeds, for one trace, one cluster, and one profile with its weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import msgspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from pyscheduler_lab.results.comparison import Estimate, distinct_runs, estimates
from pyscheduler_lab.sweep.plan import label_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from pyscheduler_lab.sweep.cells import Outcome
    from pyscheduler_lab.sweep.plan import Place

__all__ = ["Line", "lines_of", "write_table"]

_ESTIMATE = Estimate.__struct_fields__


@attrs.frozen(kw_only=True)
class Line:
    """The results of a profile and its weights on a trace and a cluster."""

    place: Place
    variant: str
    profile: str
    weights: Mapping[str, int]
    #: Number of cells with results.
    seeds: int
    #: Number of different results of these cells.
    distinct: int
    #: Number of jobs that did not finish, of all seeds.
    unfinished: int
    estimates: Mapping[str, Estimate]


def lines_of(outcomes: Iterable[Outcome]) -> list[Line]:
    """Return a line for each place, profile and weights, in the order of the outcomes."""
    groups: dict[tuple[str, str, str], list[Outcome]] = {}
    for each in outcomes:
        place = each.cell.place
        groups.setdefault((place.trace, place.cluster, each.cell.variant), []).append(each)
    firsts: dict[tuple[str, str], Sequence[Outcome]] = {}
    lines = []
    for (trace, cluster, variant), group in groups.items():
        first = firsts.setdefault((trace, cluster), group)
        settings = group[0].cell.settings
        line = Line(
            place=group[0].cell.place,
            variant=variant,
            profile=label_of(settings.policy),
            weights=settings.weights,
            seeds=sum(each.cells is not None for each in group),
            distinct=distinct_runs(group),
            unfinished=sum(each.unfinished for each in group),
            estimates=estimates(group, first),
        )
        lines.append(line)
    return lines


def write_table(lines: Sequence[Line], folder: Path) -> None:
    """Write `table.csv` and `table.parquet`, with a row for each line and column of results."""
    plugins = dict.fromkeys(plugin for line in lines for plugin in line.weights)
    types = {"trace": pa.string(), "cluster": pa.string(), "profile": pa.string()}
    types |= dict.fromkeys((f"weight_{plugin}" for plugin in plugins), pa.int64())
    types |= {"seeds": pa.int64(), "unfinished": pa.int64(), "column": pa.string()} | dict.fromkeys(
        _ESTIMATE, pa.float64()
    )
    rows = [
        {
            "trace": line.place.trace,
            "cluster": line.place.cluster,
            "profile": line.profile,
            **{f"weight_{plugin}": line.weights.get(plugin) for plugin in plugins},
            "seeds": line.seeds,
            "unfinished": line.unfinished,
            "column": column,
            **msgspec.structs.asdict(found),
        }
        for line in lines
        for column, found in line.estimates.items()
    ]
    table = pa.Table.from_pylist(rows, schema=pa.schema([*types.items()]))
    pyarrow.parquet.write_table(table, folder / "table.parquet")
    pyarrow.csv.write_csv(table, folder / "table.csv")
