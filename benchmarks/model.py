"""Estimate the CPU time and memory that each additional pod or node takes.

The estimate comes from the benchmark SchedulingBasic, measured at several sizes.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from benchmarks.plan import make_plan
from benchmarks.rows import setting_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["Line", "costs", "fit", "measured_sizes"]

_CASE: Final = "SchedulingBasic"
#: The largest cluster for which Kubernetes vouches: nodes and pods.
_LARGEST: Final = (5000, 150_000)
#: A line through fewer rows than it has unknowns is none; through as many it says nothing of how well it fits.
_FEWEST: Final = 4


@attrs.frozen
class Line:
    """``fixed + node * nodes + pod * pods``, in the unit of the figure; `error` is the largest distance of a row."""

    fixed: float
    node: float
    pod: float
    error: float
    rows: int

    def at(self, nodes: int, pods: int) -> float:
        """Return what the figure would be."""
        return self.fixed + self.node * nodes + self.pod * pods


def measured_sizes(rows: Mapping[str, Mapping[str, Any]], mode: str) -> dict[str, tuple[int, int]]:
    """Return nodes and pods (measured ones and those before) of each row of plain, equal pods in a mode."""
    found = {}
    for name in rows:
        setting = setting_of(name)
        if setting is None or (setting.case, setting.mode, setting.distinct) != (_CASE, mode, False):
            continue
        plan = make_plan(_CASE, setting.nodes, distinct=False, measured=setting.pods)
        found[name] = (setting.nodes, plan.initial_count + plan.measured_count)
    return found


def fit(sizes: Sequence[tuple[int, int]], values: Sequence[float]) -> Line | None:
    """Return the line that is nearest to the values; None where they are too few, or do not tell nodes from pods.

    Nothing becomes cheaper by more nodes or pods: where the nearest line says so, that is the spread of measurements,
    which would come to a lot at the largest cluster. Then the nearest line without that slope is taken.
    """
    table = np.array([(1, nodes, pods) for nodes, pods in sizes], dtype=float).reshape(-1, 3)
    if len(sizes) < _FEWEST or np.linalg.matrix_rank(table) < 3:
        return None
    # Each row by its share of what it measured, or the largest would decide alone.
    weights = 1 / np.array(values)
    solution, slopes = np.zeros(3), [1, 2]
    while True:
        columns = [0, *slopes]
        solution[:] = 0
        solution[columns] = np.linalg.lstsq(table[:, columns] * weights[:, None], np.ones(len(values)), rcond=None)[0]
        if all(solution[slope] >= 0 for slope in slopes):
            break
        slopes.remove(min(slopes, key=lambda slope: solution[slope] * table[:, slope].max()))
    error = float(np.abs(table @ solution * weights - 1).max())
    fixed, node, pod = (float(value) for value in solution)
    return Line(fixed, node, pod, error, len(sizes))


def costs(rows: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Return the model: a figure, what is fixed in it, what nodes and pods add, and what a full cluster comes to."""
    found = []
    for mode, title, figure, form in _FIGURES:
        sizes = measured_sizes(rows, mode)
        line = fit([*sizes.values()], [figure(rows[name]) for name in sizes])
        if line is not None:
            figures = (line.fixed, line.node * 1000, line.pod * 1000, line.at(*_LARGEST))
            title_and_fit = f"{title} ({line.rows} rows, {line.error:.0%} off at most)"
            found.append((title_and_fit, *(form.format(value) for value in figures)))
    return found


def _first_list_ms(row: Mapping[str, Any]) -> float:
    seconds_per_1000 = row["cpu_with_list_per_1000"] - row["cpu_per_1000"]
    return float(seconds_per_1000 * row["pods"] / row["rounds"])


_FIGURES: Final[Sequence[tuple[str, str, Callable[[Mapping[str, Any]], float], str]]] = (
    ("http", "memory of the scheduler, steady", itemgetter("resident_mib"), "{:,.1f} MiB"),
    ("http", "CPU of the first list", _first_list_ms, "{:,.0f} ms"),
    ("cycle", "CPU of a pod, the server's share included", lambda row: row["cpu_per_1000"] * 1000, "{:,.1f} µs"),
)
