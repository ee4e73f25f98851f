"""A scheduler on API objects decides recorded cycles of KAI-Scheduler alike (see vectors_kai/NOTICE)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from pyscheduler_lab.simulation.batch_cases.kai import run_case

FOLDER = Path(__file__).parent / "vectors_kai"
#: Number of recorded cycles by family.
CASES = {
    "allocate": 70,
    "binpack": 60,
    "consolidation": 60,
    "fairshare": 70,
    "minruntime": 60,
    "mixed": 64,
    "preempt": 62,
    "reclaim": 80,
    "stale": 60,
    "subgroups": 64,
}
_TOLERANCE = 1e-9


def differences(expected: Any, actual: Any, unstable: set[str], path: str = "") -> list[str]:
    """List the paths at which an answer differs; what was not stable in the recordings is left out."""
    if path in unstable:
        return []
    if isinstance(expected, dict) and isinstance(actual, dict):
        found = []
        for key in sorted(expected.keys() | actual.keys()):
            below = f"{path}.{key}" if path else key
            # An object whose fields were all unstable is not in the recording.
            if key not in expected and any(each == below or each.startswith(f"{below}.") for each in unstable):
                continue
            found += differences(expected.get(key), actual.get(key), unstable, below)
        return found
    if isinstance(expected, int | float) and isinstance(actual, int | float):
        equal = abs(expected - actual) <= _TOLERANCE * max(1.0, abs(expected), abs(actual))
    else:
        equal = expected == actual
    return [] if equal else [f"{path}: {expected} expected, {actual} found"]


def compare(case: dict[str, Any]) -> list[str]:
    """List what differs between a recorded answer and ours; ties between nodes go by name in both."""
    expected = case.pop("expected")
    unstable = {path for field in case["unstable"] for path in (field, _section(field))}
    actual = run_case(case)["actual"]
    sections = {name: actual.get(name) for name in expected}
    return differences(expected, sections, unstable)


def _section(path: str) -> str:
    """Return the path of a field that is a section of its own, such as `movedTotal.movedTotal`."""
    section, _, field = path.partition(".")
    return section if section == field else path


@pytest.mark.sampled(10)
@pytest.mark.parametrize("family", sorted(CASES))
def test_recorded_cycles_of_kai_are_decided_alike(family: str) -> None:
    """Every stable field of every recorded cycle equals the decision of a session with the preset kai."""
    lines = gzip.decompress((FOLDER / f"kai-{family}.jsonl.gz").read_bytes()).splitlines()
    assert len(lines) == CASES[family]
    differing = {}
    for line in lines:
        case = json.loads(line)
        found = compare(case)
        if found:
            differing[case["id"]] = found[:5]
    assert not differing


def test_every_recorded_family_is_compared() -> None:
    """No file of recordings is left out, and 650 cycles are compared in all."""
    assert sorted(CASES) == sorted(path.name.removeprefix("kai-").partition(".")[0] for path in FOLDER.glob("*.gz"))
    assert sum(CASES.values()) == 650


def test_a_wrong_answer_is_noticed() -> None:
    """The comparison reports a changed, a missing and an additional field, but none that was unstable."""
    expected = {"tasks": {"a": {"state": "pending"}}, "evictedTotal": 1}
    actual = {"tasks": {"a": {"state": "running", "node": "n1"}, "b": {"state": "pending"}}, "evictedTotal": 2}
    assert len(differences(expected, actual, set())) == 4
    assert not differences(expected, actual, {"tasks.a", "tasks.b.state", "evictedTotal"})
