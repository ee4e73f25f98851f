"""InterPodAffinity gives kube-scheduler's recorded answers (see vectors/NOTICE), run by the whole scheduler."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from pyscheduler.simulation.cases import answer_lines

VECTORS = Path(__file__).parent / "vectors"


def cases(family: str) -> list[object]:
    """Return the recorded cases of a family as test parameters."""
    lines = gzip.decompress((VECTORS / f"{family}.jsonl.gz").read_bytes()).splitlines()
    return [pytest.param(line, id=json.loads(line)["id"]) for line in lines]


def told(value: Any) -> Any:
    """Leave out what says nothing: null, empty and absent are one."""
    if isinstance(value, dict):
        return {key: each for key, entry in value.items() if (each := told(entry)) not in (None, {}, [], "")}
    return [told(each) for each in value] if isinstance(value, list) else value


def answer(line: bytes) -> Any:
    """Answer a case."""
    (found,) = answer_lines([line])
    assert not found.error
    return found.actual


@pytest.mark.parametrize("line", cases("interpodaffinity"))
def test_a_pod_is_placed_among_others_as_recorded(line: bytes) -> None:
    """Every field is the recorded one: codes, reasons, skips, scores, totals, choice and message."""
    assert told(answer(line)) == told(json.loads(line)["expected"])


@pytest.mark.parametrize("line", cases("queueing-hints"))
def test_a_change_wakes_pods_as_recorded(line: bytes) -> None:
    """The plugin's hint on each cluster event of a change is the recorded one."""
    expected = json.loads(line)["expected"]["events"]
    asked = [
        {**event, "hints": {name: hint for name, hint in event["hints"].items() if name == "InterPodAffinity"}}
        for event in answer(line)["events"]
    ]
    assert [event for event in asked if event["hints"]] == expected
