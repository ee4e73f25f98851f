"""The preset `kai` answers hand-made cases: fair shares of one resource, and whole cycles."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from pyscheduler_lab.simulation.batch_cases.kai_queues import run_queue_case

CASES = [
    json.loads(line)
    for line in (Path(__file__).parent / "queue_cases_kai.jsonl").read_text(encoding="utf-8").splitlines()
]


def _agrees(expected: Any, actual: Any) -> bool:
    """Compare numbers within 1e-6; a missing number is 0."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        return all(_agrees(expected.get(key, 0), actual.get(key, 0)) for key in expected.keys() | actual.keys())
    if isinstance(expected, float | int) and isinstance(actual, float | int):
        return math.isclose(expected, actual, abs_tol=1e-6)
    return bool(expected == actual)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_each_queue_case_is_answered(case: dict[str, Any]) -> None:
    """Each field that the case expects is in the answer, with the expected value."""
    answer = run_queue_case({key: value for key, value in case.items() if key != "expected"})
    assert answer["id"] == case["id"]
    for field, expected in case["expected"].items():
        assert _agrees(expected, answer["actual"].get(field, 0)), field


def test_the_comparison_notices_a_wrong_answer() -> None:
    """Other numbers, and names that only one side has, differ."""
    assert not _agrees({"a": 1}, {"a": 2})
    assert not _agrees({"a": 1}, {})
    assert not _agrees({}, {"a": 1})
    assert _agrees({"a": 0}, {})
    assert len(CASES) == 27
