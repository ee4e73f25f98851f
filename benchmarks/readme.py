"""Make the table in README that shows the most important results of the benchmarks."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from benchmarks import beside
from benchmarks.report import FIGURES, Sheet, titled

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["speed", "table"]

_RATE: Final = "pods_per_second"
#: By row: its title, and the keys of the figures to show. README has room for four rows.
_ROWS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "SchedulingBasic/5000/http/equal": ("10,000 pods, 5,000 nodes", ("pods_per_second", "peak_mib")),
    "Gangs/1000/http/equal": ("100 groups of 20 pods, 1,000 nodes", ("pods_per_second",)),
    "reaction": ("an idle scheduler gets one pod, 1,000 nodes", ("reaction_p99_ms",)),
}
_TEXT: Final = """\
Measured with Python {python} on a machine with {cpus} CPUs ({machine}), which also runs the API server. The row with
kube-scheduler uses a real kube-apiserver, the others one in memory. [Performance](docs/performance.md) has all rows.

{table}
"""


def speed(document: Mapping[str, Any]) -> str:
    """Return the section."""
    return _TEXT.format(table=table(document), **{key: document[key] for key in ("python", "cpus", "machine")})


def table(document: Mapping[str, Any]) -> str:
    """Return the table alone."""
    rows = [
        [
            titled(f"kube-scheduler's benchmark {title}, a real kube-apiserver", ours),
            f"{_told(ours, _RATE)}; kube-scheduler {_told(theirs, _RATE)}",
        ]
        for title, (ours, theirs) in islice(beside.pairs(document["rows"]).items(), 1)
    ]
    for name, (what, keys) in _ROWS.items():
        figures = document["rows"].get(name, {})
        told = [_told(figures, key) for key in keys if key in figures]
        if told:
            rows.append([titled(what, figures), "; ".join(told)])
    return Sheet(headings=["what", "measured"], rows=rows, left=2).markdown()


def _told(figures: Mapping[str, Any], key: str) -> str:
    label, form = FIGURES[key]
    value = form.format(figures[key])
    return value if key == _RATE else f"{label} {value}"
