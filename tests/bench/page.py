"""docs/performance.md: a text with places for tables and pictures, which the carried results fill.

The text is `performance.template.md`; a line `{{NAME ARGUMENTS}}` in it is replaced by what the function of that name
makes of the results. `python -m tests.bench --write docs/performance.md` writes the page; a test holds it to that.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.bench import report
from tests.bench.pictures import chart
from tests.bench.rows import program_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["pictures", "render"]

_TEMPLATE: Final = Path(__file__).parent / "performance.template.md"
_PLACE: Final = re.compile(r"^\{\{(\w+)(?: (.*))?\}\}$", re.MULTILINE)

Rows = dict[str, dict[str, Any]]


def _machine(document: Mapping[str, Any], _: str) -> str:
    commits = sorted({row["commit"] for row in document["rows"].values() if row.get("commit")})
    calibrations = [row["calibration_ms"] for row in document["rows"].values() if "calibration_ms" in row]
    spread = f"{min(calibrations):.0f} to {max(calibrations):.0f} ms" if calibrations else "not measured"
    return (
        f"Measured with Python {document['python']} on {document['cpus']} CPUs ({document['machine']}), "
        f"commit {', '.join(commits) or 'unknown'}. Calibration loop: {spread} of CPU."
    )


def _commands(document: Mapping[str, Any], _: str) -> str:
    commands = dict.fromkeys(row["command"] for row in document["rows"].values())
    return "\n".join(["```sh", *commands, "```"])


def _cases(document: Mapping[str, Any], wanted: str) -> str:
    return report.case_sheet(_matching(document, wanted)).markdown()


def _phases(document: Mapping[str, Any], wanted: str) -> str:
    return report.phase_sheet(_matching(document, wanted)).markdown()


def _targets(document: Mapping[str, Any], _: str) -> str:
    return report.target_sheet(document["rows"], complete=True).markdown()


def _besides(document: Mapping[str, Any], _: str) -> str:
    return report.program_sheet(program_rows(short=False), document["rows"]).markdown()


_MAKERS: Final[Mapping[str, Callable[[Mapping[str, Any], str], str]]] = {
    "machine": _machine,
    "commands": _commands,
    "cases": _cases,
    "phases": _phases,
    "targets": _targets,
    "besides": _besides,
}


def pictures(document: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the pictures of the page by the names of their files."""
    rates: dict[str, list[tuple[float, float]]] = {}
    by_nodes: dict[str, list[tuple[float, float]]] = {}
    by_pods: dict[str, list[tuple[float, float]]] = {}
    for name, figures in document["rows"].items():
        case, size, mode, specs = name.split("/") if report.is_case(name) else ("", "", "", "")
        if (mode, specs) == ("cycle", "equal") and size.isdigit() and size != "1":
            rates.setdefault(case.removeprefix("Scheduling"), []).append((float(size), figures["pods_per_second"]))
        if (case, mode, specs) == ("SchedulingBasic", "http", "equal"):
            nodes, _, pods = size.partition("x")
            for kind, key in (("peak", "peak_mib"), ("steady", "resident_mib")):
                if not pods:
                    by_nodes.setdefault(kind, []).append((float(nodes), figures[key]))
                if nodes == "5000":
                    by_pods.setdefault(kind, []).append((figures["pods"] / figures["rounds"], figures[key]))
    rates = {name: points for name, points in rates.items() if len(points) > 1}
    return {
        "performance-rate.svg": chart("Pods per second, cycle, equal pods", "nodes", "pods/s", rates),
        "performance-memory-nodes.svg": chart("Memory of the scheduler over nodes, http", "nodes", "MiB", by_nodes),
        "performance-memory-pods.svg": chart(
            "Memory of the scheduler over measured pods, 5,000 nodes, http", "pods", "MiB", by_pods
        ),
    }


def render(document: Mapping[str, Any]) -> str:
    """Return the page."""
    text = _TEMPLATE.read_text(encoding="utf-8")
    return _PLACE.sub(lambda place: _MAKERS[place[1]](document, place[2] or ""), text)


def _matching(document: Mapping[str, Any], wanted: str) -> Rows:
    """Return the rows of cases whose names match one of some patterns, in the order of patterns."""
    rows: Rows = document["rows"]
    return {
        name: figures
        for pattern in wanted.split()
        for name, figures in rows.items()
        if report.is_case(name) and re.fullmatch(pattern, name)
    }
