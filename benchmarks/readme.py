"""The table in README: what people ask first, of the rows that were measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from benchmarks.report import FIGURES, Sheet, titled

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["speed"]

#: So much of a core counts as all of it.
_WHOLE: Final = 0.9
_WITHOUT: Final = "without HTTP"
#: By row: what it is called, and the figures that are told of it.
_ROWS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "SchedulingBasic/1000/http/equal": (
        "2,000 pods, 1,000 nodes, over HTTP, two processes",
        ("pods_per_second", "cpu_with_list_per_1000", "peak_mib"),
    ),
    "SchedulingBasic/5000/http/equal": (
        "10,000 pods, 5,000 nodes, over HTTP, two processes",
        ("pods_per_second", "cpu_with_list_per_1000", "peak_mib"),
    ),
    "SchedulingBasic/5000/https/equal": (
        "the same over TLS, with a token",
        ("pods_per_second", "cpu_with_list_per_1000", "peak_mib"),
    ),
    "Gangs/1000/http/equal": ("100 gangs of 20, 1,000 nodes, over HTTP", ("pods_per_second",)),
    "demo": ("the demo: 1,523 nodes, 8,152 pods, over HTTP, two processes", ("pods_per_second", "peak_mib")),
    **{
        row: (f"{what}, {_WITHOUT}", ("pods_per_second", "cpu_per_1000"))
        for row, what in (
            ("SchedulingBasic/5000/cycle/equal", "10,000 pods, 5,000 nodes"),
            ("SchedulingBasic/5000/cycle/distinct", "the same with 500 different specs"),
            ("SchedulingBasic/15000x100000/cycle/equal", "100,000 pods, 15,000 nodes"),
            ("SchedulingPodAffinity/5000/cycle/equal", "5,000 pods with required zone affinity, 5,000 nodes"),
            ("SchedulingPodAntiAffinity/5000/cycle/equal", "2,000 pods with required host anti-affinity, 5,000 nodes"),
            ("SchedulingPreferredPodAffinity/5000/cycle/equal", "5,000 pods with preferred affinity, 5,000 nodes"),
            ("TopologySpreading/5000/cycle/equal", "5,000 pods with zone spread, DoNotSchedule, 5,000 nodes"),
            ("Gangs/1000/cycle/equal", "100 gangs of 20, 1,000 nodes"),
            ("PreemptionBasic/5000x2000/cycle/equal", "2,000 preemptors, 5,000 nodes full of 20,000 pods"),
        )
    },
    "waiting": ("10,000 pods wait at Permit, then all are allowed", ("waiting_mib", "seconds")),
    "replay": ("125 days of Philly's vc1 in virtual time, 1,494 jobs", ("seconds", "simulated_per_second")),
    "simulation": ("a day of 50,000 plain pods on 5,000 nodes in virtual time", ("seconds", "simulated_per_second")),
    "ready": ("`pyscheduler run`, 5,000 nodes, until it is ready", ("seconds",)),
    "sync": ("first list of 5,000 nodes and 20,000 pods, over HTTP", ("sync_cpu_seconds", "peak_mib")),
    "relist-changed": ("a second list of these nodes and pods, all changed, while pods arrive", ("longest_hold_ms",)),
    "reaction": ("an idle scheduler gets a pod, over HTTP", ("reaction_p50_ms", "reaction_p99_ms")),
}
_TEXT: Final = """\
Measured with `make bench`, Python {python}, {cpus} CPUs ({machine}).
In the rows "without HTTP" the embedded API server runs in the same process, and its work is part of every figure.
[Performance](docs/performance.md) has all rows, their targets and how they were measured. `benchmarks/readme.py` writes
the table below and the tables of that page from the same results.

{table}
"""


def speed(document: Mapping[str, Any]) -> str:
    """Return the section."""
    rows = []
    for name, (what, keys) in _ROWS.items():
        figures = document["rows"].get(name, {})
        told = [_told(name, figures, key) for key in keys if key in figures]
        if told:
            rows.append([titled(what, figures), "; ".join(told)])
    table = Sheet(headings=["what", "measured"], rows=rows, left=2).markdown()
    return _TEXT.format(table=table, **{key: document[key] for key in ("python", "cpus", "machine")})


def _told(name: str, figures: Mapping[str, Any], key: str) -> str:
    label, form = FIGURES[key]
    value = form.format(figures[key])
    # Without HTTP a rate is that of one core; others may have had a part of it.
    if key == "pods_per_second" and "/cycle/" in name and figures["core_share"] < _WHOLE:
        return f"{value} with {figures['core_share']:.0%} of a core"
    return value if key in {"pods_per_second", "seconds"} else f"{label} {value}"
