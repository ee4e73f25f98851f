"""Policies of the presets `volcano` and `kube-batch` answer hand-made cases of queues and fairness."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from pyscheduler_lab.simulation.batch_cases.volcano import run_queue_case

CASES = [
    json.loads(line)
    for line in (Path(__file__).parent / "queue_cases_volcano.jsonl").read_text(encoding="utf-8").splitlines()
]


def _agrees(expected: Any, actual: Any, tolerance: float) -> bool:
    if isinstance(expected, dict):
        return expected.keys() == actual.keys() and all(
            _agrees(value, actual[key], tolerance) for key, value in expected.items()
        )
    if isinstance(expected, float | int) and not isinstance(expected, bool):
        return math.isclose(expected, actual, abs_tol=tolerance)
    return bool(expected == actual)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_each_queue_case_is_answered(case: dict[str, Any]) -> None:
    """The answer has the fields and, within the case's tolerance, the values that the case expects."""
    asked = {key: value for key, value in case.items() if key != "expected"}
    answer = run_queue_case(asked)
    assert answer["id"] == case["id"]
    assert _agrees(case["expected"], answer["actual"], case.get("tolerance", 1e-6))


def test_the_comparison_notices_a_wrong_answer() -> None:
    """Wrong numbers, missing keys and wrong orders differ."""
    assert not _agrees({"a": 1.0}, {"a": 1.1}, 1e-6)
    assert not _agrees({"a": 1.0}, {}, 1e-6)
    assert not _agrees({"a": ["x", "y"]}, {"a": ["y", "x"]}, 1e-6)
    assert len(CASES) == 19
