"""Write docs/performance.md, its pictures, and README's section about speed, from the saved results.

In `performance.template.txt`, a line `{{NAME ARGUMENTS}}` stands for the text that the function NAME returns.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks import beside, model, report
from benchmarks.pictures import bars, chart
from benchmarks.readme import speed, table
from benchmarks.report import Sheet
from benchmarks.rows import program_rows
from benchmarks.targets import ORDER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["pictures", "render", "render_readme", "write"]

_ROOT: Final = Path(__file__).parents[1]
_README_TABLE: Final = re.compile(r"(## How fast it is\n\n)(?:.*?)(\n## )", re.DOTALL)

_TEMPLATE: Final = Path(__file__).parent / "performance.template.txt"
_PLACE: Final = re.compile(r"^\{\{(\w+)(?: (.*))?\}\}$", re.MULTILINE)

Rows = dict[str, dict[str, Any]]
_Series = dict[str, list[tuple[float, float]]]

_MEMORY: Final = {"peak_mib": ", peak", "resident_mib": ", steady"}


def _machine(document: Mapping[str, Any], _: str) -> str:
    commits = sorted({row["commit"] for row in document["rows"].values() if row.get("commit")})
    calibrations = [row["calibration_ms"] for row in document["rows"].values() if "calibration_ms" in row]
    spread = f"{min(calibrations):.0f} to {max(calibrations):.0f} ms" if calibrations else "not measured"
    return (
        f"Measured with Python {document['python']} on {document['cpus']} CPUs ({document['machine']}), "
        f"commit {', '.join(commits) or 'unknown'}. Calibration loop: {spread} of CPU."
    )


def _first(document: Mapping[str, Any], _: str) -> str:
    return table(document)


def _beside(document: Mapping[str, Any], _: str) -> str:
    return beside.sheet(document["rows"]).markdown()


def _commands(document: Mapping[str, Any], _: str) -> str:
    # The page names the command of the rows beside kube-scheduler with these rows.
    rows = document["rows"].items()
    commands = dict.fromkeys(row["command"] for name, row in rows if not name.startswith(beside.PREFIX))
    return "\n".join(["```sh", *commands, "```"])


def _cases(document: Mapping[str, Any], wanted: str) -> str:
    return report.case_sheet(_matching(document, wanted)).markdown()


def _phases(document: Mapping[str, Any], wanted: str) -> str:
    return report.phase_sheet(_matching(document, wanted)).markdown()


def _targets(document: Mapping[str, Any], _: str) -> str:
    besides = [row for row in program_rows(short=False) if row.name in ORDER]
    return report.target_sheet(document["rows"], besides, complete=True).markdown()


def _unmet(document: Mapping[str, Any], _: str) -> str:
    sheet = report.unmet_sheet(document["rows"])
    return sheet.markdown() if sheet.rows else "No measured case missed its target."


def _model(document: Mapping[str, Any], _: str) -> str:
    headings = ["what", "fixed", "of 1,000 nodes", "of 1,000 pods", "5,000 nodes, 150,000 pods"]
    return Sheet(headings=headings, rows=model.costs(document["rows"])).markdown()


def _besides(document: Mapping[str, Any], _: str) -> str:
    return report.program_sheet(program_rows(short=False), document["rows"]).markdown()


_MAKERS: Final[Mapping[str, Callable[[Mapping[str, Any], str], str]]] = {
    "machine": _machine,
    "commands": _commands,
    "beside": _beside,
    "first": _first,
    "cases": _cases,
    "phases": _phases,
    "targets": _targets,
    "unmet": _unmet,
    "model": _model,
    "besides": _besides,
}


def pictures(document: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the pictures of the page by the names of their files."""
    rows = document["rows"]
    rates: _Series = {}
    for name, figures in rows.items():
        case, size, mode, specs = name.split("/") if report.is_case(name) else ("", "", "", "")
        if (mode, specs) == ("cycle", "equal") and size.isdigit() and size != "1":
            rates.setdefault(case.removeprefix("Scheduling"), []).append((float(size), figures["pods_per_second"]))
    rates = {name: points for name, points in rates.items() if len(points) > 1}
    both = {
        title: (ours["pods_per_second"], theirs["pods_per_second"])
        for title, (ours, theirs) in beside.pairs(rows).items()
    }
    return {
        "performance-beside.svg": bars("Pods per second on a real API server", (beside.OURS, beside.THEIRS), both),
        "performance-rate.svg": chart("Pods per second, cycle, equal pods", "nodes", "pods/s", rates),
        "performance-rate-pods.svg": chart(
            "Pods per second over pods, plain pods", "pods", "pods/s", _by_pods(rows, {"pods_per_second": ""})
        ),
        "performance-memory-nodes.svg": chart(
            "Memory of the scheduler over nodes, http", "nodes", "MiB", _by_nodes(rows, _MEMORY)
        ),
        "performance-memory-pods.svg": chart(
            "Memory of the scheduler over pods, http", "pods", "MiB", _by_pods(rows, _MEMORY)
        ),
    }


def _plain(rows: Rows) -> Iterator[tuple[str, int, int, dict[str, Any]]]:
    """Yield mode, nodes, all pods and figures of each row of plain, equal pods."""
    for mode in ("cycle", "http"):
        for name, (nodes, pods) in model.measured_sizes(rows, mode).items():
            yield mode, nodes, pods, rows[name]


def _by_pods(rows: Rows, keys: Mapping[str, str]) -> _Series:
    """Return lines over pods, one for each mode and number of nodes that has more than one row."""
    found: _Series = {}
    for mode, nodes, pods, figures in _plain(rows):
        for key, label in keys.items():
            if key in figures:
                found.setdefault(f"{nodes:,} nodes, {mode}{label}", []).append((float(pods), figures[key]))
    return {name: points for name, points in found.items() if len(points) > 1}


def _by_nodes(rows: Rows, keys: Mapping[str, str]) -> _Series:
    """Return lines over nodes, of the rows that have the pods of their size."""
    sizes = [name for name in rows if report.is_case(name) and "x" not in name.split("/")[1]]
    found: _Series = {}
    for mode, nodes, _, figures in _plain({name: rows[name] for name in sizes}):
        for key, label in keys.items():
            if key in figures:
                found.setdefault(f"{mode}{label}", []).append((float(nodes), figures[key]))
    return found


def render(document: Mapping[str, Any]) -> str:
    """Return the page."""
    text = _TEMPLATE.read_text(encoding="utf-8")
    return _PLACE.sub(lambda place: _MAKERS[place[1]](document, place[2] or ""), text)


def render_readme(text: str, document: Mapping[str, Any]) -> str:
    """Return README with its section about speed written anew."""
    return _README_TABLE.sub(lambda found: f"{found[1]}{speed(document)}{found[2]}", text, count=1)


def write(document: Mapping[str, Any]) -> None:
    """Write page, pictures and README."""
    docs = _ROOT / "docs"
    (docs / "performance.md").write_text(render(document), encoding="utf-8")
    for name, picture in pictures(document).items():
        (docs / name).write_text(picture, encoding="utf-8")
    readme = _ROOT / "README.md"
    readme.write_text(render_readme(readme.read_text(encoding="utf-8"), document), encoding="utf-8")


def _matching(document: Mapping[str, Any], wanted: str) -> Rows:
    """Return the rows of cases whose names match one of some patterns, in the order of patterns."""
    rows: Rows = document["rows"]
    return {
        name: figures
        for pattern in wanted.split()
        for name, figures in rows.items()
        if report.is_case(name) and re.fullmatch(pattern, name)
    }
