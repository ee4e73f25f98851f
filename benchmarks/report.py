"""Format the results of `make bench` as tables for a terminal and for Markdown."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import attrs

from benchmarks import phases as waypoints
from benchmarks.targets import ORDER, ROWS, is_met, targets_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from benchmarks.rows import Row

__all__ = [
    "FIGURES",
    "Sheet",
    "case_sheet",
    "is_case",
    "phase_sheet",
    "program_sheet",
    "target_sheet",
    "titled",
    "unmet_sheet",
]

#: How many phases are named where a target was missed.
_SHORTFALLS: Final = 5
Rows = dict[str, dict[str, Any]]

#: How figures are called and written.
FIGURES: Final[Mapping[str, tuple[str, str]]] = {
    "pods_per_second": ("throughput", "{:,.0f} pods/s"),
    "cpu_per_1000": ("CPU for 1,000 pods", "{:.2f} s"),
    "cpu_with_list_per_1000": ("CPU for 1,000 pods and the first list", "{:.2f} s"),
    "attempt_p50_ms": ("attempt, p50", "{:.2f} ms"),
    "attempt_p99_ms": ("attempt, p99", "{:.2f} ms"),
    "first_bind_seconds": ("start to first binding", "{:.2f} s"),
    "round_seconds": ("from the first attempt to the last binding", "{:.1f} s"),
    "of_5000": ("of the rate at 5,000 nodes", "{:.0%}"),
    "of_equal": ("of the rate of equal pods", "{:.0%}"),
    "of_coscheduling": ("of the rate of the plugin Coscheduling", "{:.0%}"),
    "ready_pods_per_second": ("throughput with ready groups", "{:,.0f} pods/s"),
    "of_ready_groups": ("of the rate with ready groups", "{:.0%}"),
    "sync_seconds": ("first sync", "{:.2f} s"),
    "sync_cpu_seconds": ("CPU of the first sync", "{:.2f} s"),
    "cpu_seconds": ("CPU", "{:.2f} s"),
    "gang_ms": ("placement of one gang", "{:.1f} ms"),
    "decision_p50_ms": ("begin of a pass to its decision, p50", "{:.0f} ms"),
    "decision_p99_ms": ("begin of a pass to its decision, p99", "{:.0f} ms"),
    "passes_begun": ("passes", "{:,.0f}"),
    "passes": ("passes while nothing changes", "{:.0f}"),
    "kai_cpu_seconds": ("CPU of KAI-Scheduler", "{:.3g} s"),
    "shares_ms": ("CPU of one division", "{:.1f} ms"),
    "admission_large_seconds": ("mean time to admission, large", "{:.1f} s"),
    "admission_medium_seconds": ("mean time to admission, medium", "{:.1f} s"),
    "admission_small_seconds": ("mean time to admission, small", "{:.1f} s"),
    "of_core": ("of a core", "{:.1%}"),
    "usage": ("usage of the quotas, by the status of queues", "{:.1%}"),
    "usage_by_bindings": ("usage of the quotas, by bindings", "{:.1%}"),
    "evictions": ("evictions", "{:,.0f}"),
    "server_cpu_seconds": ("CPU of the API server, users and kubelets", "{:.1f} s"),
    "first_pass_seconds": ("CPU of the first pass", "{:.2f} s"),
    "freed_node_ms": ("CPU of a pass after one node was freed", "{:.1f} ms"),
    "on_top_mib": ("memory on top of the objects", "{:.1f} MiB"),
    "reaction_p50_ms": ("from creating a pod to seeing its binding, p50", "{:.1f} ms"),
    "reaction_p99_ms": ("from creating a pod to seeing its binding, p99", "{:.1f} ms"),
    "search_ms": ("one search for victims", "{:.0f} ms"),
    "longest_hold_ms": ("longest block of the event loop", "{:.0f} ms"),
    "longest_hold_cpu_ms": ("longest block of the event loop, in CPU time", "{:.0f} ms"),
    "peak_mib": ("peak memory of the scheduler", "{:,.0f} MiB"),
    "hold_p99_ms": ("blocks of the event loop, p99", "{:.0f} ms"),
    "resident_mib": ("memory of the scheduler", "{:,.0f} MiB"),
    "waiting_mib": ("memory of the waits", "{:,.1f} MiB"),
    "growth_mib": ("growth after the first rounds", "{:+,.1f} MiB"),
    "after_stop_seconds": ("standby leads after a clean stop", "{:.1f} s"),
    "after_kill_seconds": ("standby leads after a kill", "{:.1f} s"),
    "problems": ("problems found by the checker", "{:.0f}"),
    "seconds": ("time", "{:.2f} s"),
    "attempts": ("attempts", "{:,.0f}"),
    "import_ms": ("CPU of `import pyscheduler`", "{:.0f} ms"),
    "contract_import_ms": ("CPU of the import of an interface of plugins", "{:.0f} ms"),
    "test_kit_import_ms": ("CPU of the import of the test kit", "{:.0f} ms"),
    "run_import_ms": ("CPU of the import of what `pyscheduler run` needs", "{:.0f} ms"),
    "package_mib": ("size of the package", "{:.1f} MiB"),
    "libraries_mib": ("size of the libraries that it requires", "{:.0f} MiB"),
    "simulated_per_second": ("rate of the simulation in real time", "{:,.0f} pods/s"),
    "of_one_process": ("speed, over that of one process", "{:.2f}"),
    "tasks_per_cpu_second": ("tasks for each CPU second", "{:,.0f} tasks/s"),
    "start_cpu_seconds": ("CPU until the first arrival", "{:.2f} s"),
    "arrivals_cpu_seconds": ("CPU while jobs arrive", "{:.2f} s"),
    "drain_cpu_seconds": ("CPU after the last arrival", "{:.2f} s"),
}


@attrs.frozen(kw_only=True)
class Sheet:
    """A table: headings, and cells by row; all but the first `left` columns are numbers."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1

    def markdown(self) -> str:
        """Return it as Markdown."""
        if not self.rows:
            return "Not measured yet."
        lines = [
            "| " + " | ".join(self.headings) + " |",
            "|" + "|".join("---" if place < self.left else "---:" for place in range(len(self.headings))) + "|",
            *("| " + " | ".join(row) + " |" for row in self.rows),
        ]
        return "\n".join(lines)


def is_case(name: str) -> bool:
    """Return whether a row is a case's."""
    return name.count("/") == 3


def titled(title: str, figures: Mapping[str, Any]) -> str:
    """Return the title of a row, marked if its figures are of old code."""
    return f"{title} (measured on an older version of pyscheduler)" if figures.get("stale") else title


def case_sheet(found: Rows, before: Rows | None = None) -> Sheet:
    """Return the rows of cases, with what an earlier run found."""
    headings = ["case", "nodes, pods", "mode, specs", "pods/s", "p50, p99", "attempt p50, p99", "CPU/1,000", "core"]
    headings += ["peak, steady", "upstream", "target"]
    headings += ["before", "change"] if before else []
    rows = []
    for name, figures in found.items():
        if not is_case(name):
            continue
        rate = figures["pods_per_second"]
        case, size, mode, specs = name.split("/")
        memory = [
            _cell(figures, key, "{:,.0f}") or _cell(figures, f"{key}_with_server", "({:,.0f})")
            for key in ("peak_mib", "resident_mib")
        ]
        cells = [
            titled(case, figures),
            f"{int(size.partition('x')[0]):,}, {figures['pods'] // figures['rounds']:,}",
            f"{mode}, {specs}",
            f"{rate:,.0f}",
            _pair(_cell(figures, key, "{:,.0f}") for key in ("sample_p50", "sample_p99")),
            _pair((_cell(figures, key, "{:.2f}") for key in ("attempt_p50_ms", "attempt_p99_ms")), " ms"),
            f"{figures['cpu_per_1000']:.2f} s",
            f"{figures['core_share']:.0%}",
            _pair(memory, " MiB"),
            _cell(figures, "threshold", "{:,.0f}"),
            targets_of(name).get("pods_per_second", "").removesuffix(" pods/s"),
        ]
        if before:
            old = before.get(name, {}).get("pods_per_second")
            cells += [f"{old:,.0f}", f"{rate / old - 1:+.0%}"] if old else ["", ""]
        rows.append(cells)
    return Sheet(headings=headings, rows=rows, left=3)


def phase_sheet(found: Rows) -> Sheet:
    """Return CPU seconds per 1,000 pods by phase, a column a row of `found`."""
    columns = [name for name, figures in found.items() if figures.get("phases")]
    met = [phase for phase in waypoints.ORDER if any(found[name]["phases"].get(phase) for name in columns)]
    rows = [[phase, *(_cell(found[name]["phases"], phase, "{:.3f}") for name in columns)] for phase in met]
    rows.append(["all", *(f"{math.fsum(found[name]['phases'].values()):.3f}" for name in columns)])
    return Sheet(headings=["phase", *columns], rows=rows)


def target_sheet(found: Rows, besides: Sequence[Row] = (), *, complete: bool = False) -> Sheet:
    """Return every figure that has a target, those of `besides` too; with `complete` also what is not measured."""
    rows = []
    targets = {name: targets_of(name) for name in dict.fromkeys([*ROWS, *ORDER, *found] if complete else found)}
    targets |= {row.name: row.targets for row in besides}
    for name, key, target in ((name, *each) for name, wanted in targets.items() for each in wanted.items()):
        label, form = FIGURES[key]
        value = found.get(name, {}).get(key)
        if value is not None:
            rows.append([titled(name, found[name]), label, form.format(value), target, _verdict(value, target)])
        elif complete:
            rows.append([name, label, "not measured yet", target, ""])
    return Sheet(headings=["row", "figure", "value", "target", "met"], rows=rows, left=2)


def _verdict(value: float, target: str) -> str:
    return {True: "yes", False: "**no**", None: ""}[is_met(value, target)]


def unmet_sheet(found: Rows) -> Sheet:
    """Return the figures of cases that miss their targets, and the phases in which most of the CPU time went."""
    rows = []
    for name, figures in found.items():
        for key, target in targets_of(name).items():
            if key not in figures or is_met(figures[key], target) is not False:
                continue
            label, form = FIGURES[key]
            phases = sorted(figures.get("phases", {}).items(), key=lambda each: -each[1])
            total = math.fsum(share for _, share in phases)
            spent = ", ".join(f"{phase} {share / total:.0%}" for phase, share in phases[:_SHORTFALLS] if share)
            rows.append(
                [
                    *(titled(name, figures), label, spent),
                    *(form.format(figures[key]), target, f"{figures['cpu_per_1000']:.2f} s"),
                    *(f"{figures['core_share']:.0%}", *_undisturbed(name, figures)),
                ]
            )
    headings = ["row", "figure", "CPU went to", "value", "target", "CPU/1,000", "core"]
    headings += ["pods/s with a whole core", "without the server"]
    return Sheet(headings=headings, rows=rows, left=3)


def _undisturbed(name: str, figures: Mapping[str, Any]) -> tuple[str, str]:
    """Return the rate that the CPU time alone allows, and what it were without the server's share in it.

    Over HTTP the server has a process of its own, and both wait for each other.
    """
    if "/cycle/" not in name:
        return "", ""
    phases = figures.get("phases", {})
    own = 1 - phases.get("server", 0.0) / (math.fsum(phases.values()) or 1.0)
    return f"{1000 / figures['cpu_per_1000']:,.0f}", f"{1000 / figures['cpu_per_1000'] / own:,.0f}"


def program_sheet(chosen: Sequence[Row], found: Rows, before: Rows | None = None) -> Sheet:
    """Return what is measured besides the cases, a line a figure."""
    headings = ["measurement", "figure", "value", "target", *(["before", "change"] if before else [])]
    rows = []
    for row in chosen:
        title = titled(row.what, found.get(row.name, {}))
        for key, value in found.get(row.name, {}).items():
            if key not in FIGURES:
                continue
            label, form = FIGURES[key]
            cells = [title, label, form.format(value), row.targets.get(key, "")]
            if before:
                old = before.get(row.name, {}).get(key)
                cells += [form.format(old), f"{value / old - 1:+.0%}" if old else ""] if old is not None else ["", ""]
            rows.append(cells)
            title = ""
    return Sheet(headings=headings, rows=rows, left=2)


def _pair(cells: Iterable[str], unit: str = "") -> str:
    """Return two cells as one; "" where both are empty."""
    told = [cell for cell in cells if cell]
    return ", ".join(told) + unit if told else ""


def _cell(figures: Mapping[str, Any], key: str, form: str) -> str:
    return form.format(figures[key]) if key in figures else ""
