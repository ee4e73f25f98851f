"""Cases from the test suites of KAI-Scheduler and Volcano (see vectors_peers/NOTICE), and which of them differ here."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyscheduler_lab.simulation.batch_cases import kai, volcano

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["DIFFERENCES", "SYSTEMS", "found_differences", "read"]

FOLDER: Final = Path(__file__).parent / "vectors_peers"
#: By system, the number of cases.
SYSTEMS: Final = {"kai": 247, "volcano": 122}
Case = dict[str, Any]

#: By id of a case that is decided differently, why. The parity page has this list.
DIFFERENCES: Final = {
    "volcano-own-predicates-pod-anti-affinity-01": (
        "with `enableTopologyAwarePreemption`, an eviction cures anti-affinity whatever the flags of `predicates` are"
    ),
}


def read(system: str) -> Iterator[Case]:
    """Yield the cases of a system."""
    with gzip.open(FOLDER / f"{system}-own-tests.jsonl.gz", "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def found_differences(system: str, case: Case) -> list[str]:
    """List what differs between the expected outcome of a case and ours."""
    expected = case.pop("expected")
    if system == "kai":
        return [*_differences_of_kai(case, expected, kai.run_case(case)["actual"])]
    return [*_differences_of_volcano(case, expected, volcano.run_case(case)["actual"])]


def _differences_of_kai(case: Case, expected: Case, actual: Case) -> Iterator[str]:
    passes, ends = [actual], [actual]
    if "rounds" in case:
        until = case["rounds"]["until"]
        passes = actual["rounds"]
        ends = [{"tasks": actual["before"][until]}, *passes[until:]]
    for at, end in enumerate(ends):
        for name, wanted in expected["tasks"].items():
            found = end["tasks"].get(name, {})
            if any(found.get(field) != value for field, value in wanted.items()):
                yield f"{at}: {name} is {found}, not {wanted}"
    most = expected.get("atMost")
    for each in passes if most else ():
        binds, evictions = len(each["bindOrder"]), sum(map(len, each["evictions"].values()))
        if binds > most["binds"] or evictions > most["evictions"]:
            yield f"{binds} bindings and {evictions} evictions, more than {most}"


def _differences_of_volcano(case: Case, expected: Case, actual: Case) -> Iterator[str]:
    pods = actual["pods"]
    by_result = {
        result: {name: each.get("node") for name, each in pods.items() if each["result"] == result}
        for result in ("bound", "pipelined", "evicted")
    }
    bound = by_result["bound"]
    if bound != expected.get("bound", bound) or len(bound) != expected.get("boundTotal", len(bound)):
        yield f"bound: {bound}"
    if sorted(by_result["evicted"]) != sorted(expected["evicted"]):
        yield f"evicted: {sorted(by_result['evicted'])}, not {expected['evicted']}"
    of_group = {name: [pod for pod in case["pods"] if pod["group"] == name] for name in actual["podGroups"]}
    for group, allowed in expected.get("pipelinedOn", {}).items():
        promised = {by_result["pipelined"].get(pod["name"]) for pod in of_group[group]} - {None}
        if not promised or not promised <= {*allowed}:
            yield f"{group} is promised {promised}, not {allowed}"
    for group, wanted in expected.get("podGroups", {}).items():
        phase = actual["podGroups"][group]["phase"]
        states = Counter("binding" if pod["name"] in bound else pod["state"].lower() for pod in of_group[group])
        if phase != wanted.get("phase", phase) or states != wanted.get("states", states):
            yield f"{group}: {phase} {dict(states)}, not {wanted}"
