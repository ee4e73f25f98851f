"""The targets of benchmarks: required figures, such as a minimum number of pods per second."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ORDER", "ROWS", "derive", "is_met", "targets_of"]

_RATE: Final = "pods_per_second"
_FAST: Final = (
    "SchedulingNodeAffinity",
    "SchedulingPodAffinity",
    "SchedulingPodAntiAffinity",
    "SchedulingPreferredPodAffinity",
    "SchedulingRequiredPodAntiAffinityWithNSSelector",
    "SchedulingPreferredAntiAffinityWithNSSelector",
    "SchedulingRequiredPodAffinityWithNSSelector",
    "SchedulingPreferredAffinityWithNSSelector",
    "TopologySpreading",
)
#: By row and figure.
ROWS: Final[Mapping[str, Mapping[str, str]]] = {
    "SchedulingBasic/5000/cycle/equal": {_RATE: ">= 5,000 pods/s", "attempt_p99_ms": "<= 2 ms"},
    **{f"{name}/5000/cycle/equal": {_RATE: ">= 1,500 pods/s"} for name in _FAST},
    "Unschedulable/5000/cycle/equal": {_RATE: ">= 3,000 pods/s"},
    "SchedulingWithMixedChurn/5000/cycle/equal": {_RATE: ">= 3,000 pods/s"},
    "PreemptionBasic/5000x2000/cycle/equal": {_RATE: ">= 300 pods/s"},
    "Gangs/1000/cycle/equal": {_RATE: ">= 2,000 pods/s"},
    "Gangs/1000/http/equal": {_RATE: ">= 500 pods/s"},
    "GangsInQueues/1000/http/equal": {"of_coscheduling": ">= 75 %"},
    "GangsInVolcanoQueues/1000/http/equal": {"of_coscheduling": ">= 75 %"},
    "OneGang/1000/cycle/equal": {"round_seconds": "<= 10 s"},
    "SchedulingBasic/1000/http/equal": {_RATE: ">= 600 pods/s", "cpu_with_list_per_1000": "<= 0.8 s"},
    "SchedulingBasic/5000/http/equal": {
        _RATE: ">= 500 pods/s",
        "cpu_with_list_per_1000": "<= 0.8 s",
        "peak_mib": "<= 250 MiB",
        "first_bind_seconds": "<= 3 s",
    },
    "SchedulingBasic/5000/https/equal": {_RATE: ">= 500 pods/s", "cpu_with_list_per_1000": "<= 0.8 s"},
}

#: Rows of cases that are not held to a figure of their own, but have to be shown beside those that are.
_SHOWN: Final = ("PreemptionBesidePerNodeFilter/5000x500/cycle/equal",)
_BATCH: Final = (
    "batch-reclaim-many-100",
    "batch-reclaim-many-500",
    "batch-reclaim-large-500",
    "batch-reclaim-impossible-100",
    "batch-reclaim-impossible-500",
    "batch-four-queues",
    "batch-four-queues-consolidation",
    "batch-four-queues-gang",
    "batch-shares",
    "batch-many-queues",
    "batch-one-reclaim",
    "batch-reclaim-impossible-apart-100",
    "batch-reclaim-impossible-apart-500",
    "batch-topology-gangs",
    "topology-groups",
    "batch-topology-reclaim",
    "batch-topology-impossible",
    "batch-topology-http",
    "batch-beside",
    "batch-large-gang",
    "batch-grouped",
    "batch-philly",
    "batch-full",
    "batch-idle",
    "batch-memory",
)
#: In real time: these take minutes, whatever the machine.
_COHORTS: Final = ("batch-cohorts", "batch-cohorts-large")
_DISTINCT: Final = ("SchedulingBasic", *_FAST, "Unschedulable", "SchedulingWithMixedChurn")
#: Every row with a target that is about cases, and the two besides, the most important first: a run of them may be
#: broken off. Distinct pods come after equal ones, and 15,000 nodes after 5,000, whose shares they are.
ORDER: Final = tuple(
    dict.fromkeys(
        [
            "SchedulingBasic/5000/http/equal",
            "SchedulingBasic/5000/https/equal",
            "SchedulingBasic/1000/http/equal",
            "SchedulingBasic/5000/cycle/equal",
            "Gangs/1000/http/equal",
            "GangsInQueues/1000/http/equal",
            "GangsInVolcanoQueues/1000/http/equal",
            "Gangs/1000/cycle/equal",
            "PreemptionBasic/5000x2000/cycle/equal",
            "SchedulingBasic/15000/cycle/equal",
            *ROWS,
            *_SHOWN,
            "waiting",
            "backlog",
            "replay",
            "simulation",
            "simulation-decisions",
            "sweep",
            "packing",
            *_BATCH,
            *(f"{name}/5000/cycle/distinct" for name in _DISTINCT),
            *_COHORTS,
        ]
    )
)
_TARGET: Final = re.compile(r"(>=|<=|<|)\s*([\d,.]+)\s*(%?).*")


def is_met(value: float, target: str) -> bool | None:
    """Return whether a figure meets its target; None where the target is no number to compare with."""
    found = _TARGET.fullmatch(target)
    if found is None:
        return None
    limit = float(found[2].replace(",", "")) / (100 if found[3] else 1)
    return {">=": value >= limit, "<=": value <= limit, "<": value < limit, "": value == limit}[found[1]]


def targets_of(name: str) -> Mapping[str, str]:
    """Return the targets of a row, by figure."""
    targets = dict(ROWS.get(name, {}))
    parts = name.split("/")
    if len(parts) == 4 and parts[2] == "cycle" and parts[1] == "15000":
        targets["of_5000"] = ">= 70 %"
    if len(parts) == 4 and parts[2] == "cycle" and parts[3] == "distinct":
        targets["of_equal"] = ">= 40 %"
    return targets


def derive(found: Mapping[str, dict[str, Any]]) -> None:
    """Add to rows what share they have of another's rate: 15,000 nodes of 5,000, distinct pods of equal ones."""
    for name, figures in found.items():
        parts = name.split("/")
        if len(parts) != 4:
            continue
        case, size, mode, specs = parts
        is_queued = case in {"GangsInQueues", "GangsInVolcanoQueues"}
        for figure, applies, other in (
            ("of_5000", size == "15000", f"{case}/5000/{mode}/{specs}"),
            ("of_equal", specs == "distinct", f"{case}/{size}/{mode}/equal"),
            ("of_coscheduling", is_queued, f"Gangs/{size}/{mode}/{specs}"),
        ):
            # A row that could not be measured has no rate.
            if applies and _RATE in figures and _RATE in found.get(other, {}):
                figures[figure] = figures[_RATE] / found[other][_RATE]
