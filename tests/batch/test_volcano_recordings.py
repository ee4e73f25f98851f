"""A scheduler on API objects decides as the recorded sessions of the real Volcano scheduler (see NOTICE)."""

from __future__ import annotations

import json
import sys

import pytest

from pyscheduler_lab.simulation.batch_cases.volcano import run_case
from tests.batch.volcano_recordings import FAMILIES, differences, read, stable_fields

CASES_PER_FAMILY = 42


@pytest.mark.sampled(12)
@pytest.mark.parametrize("family", FAMILIES)
def test_each_session_decides_as_recorded(family: str) -> None:
    """Every stable field of every case of the family agrees."""
    differing: dict[str, list[tuple[str, object, object]]] = {}
    cases = fields = 0
    for case, expected, unstable in read(family):
        cases += 1
        fields += stable_fields(expected, unstable)
        answer = json.loads(json.dumps(run_case(case)))
        assert answer["id"] == case["id"]
        if found := differences(expected, answer["actual"], unstable):
            differing[case["id"]] = found
    sys.stdout.write(f"{family}: {cases} cases, {fields} stable fields, {len(differing)} differ\n")
    assert cases == CASES_PER_FAMILY
    assert not differing


def test_the_comparison_notices_a_changed_field() -> None:
    """A wrong decision, a wrong amount and a missing pod are differences; unstable fields are not."""
    recorded = {"pods": {"p": {"result": "bound", "node": "n"}}, "queues": {"q": {"deserved": {"cpu": 100}}}}
    assert not differences(recorded, recorded, set())
    assert differences(recorded, {**recorded, "pods": {}}, set())
    assert not differences(recorded, {**recorded, "pods": {}}, {"pods/p/result"})
    assert differences(recorded, {**recorded, "queues": {"q": {"deserved": {"cpu": 101}}}}, set())
    assert differences(recorded, {**recorded, "queues": {"q": {"deserved": {"cpu": 100, "memory": 1}}}}, set())


def test_there_are_twelve_families() -> None:
    """No family of the recordings is left out."""
    assert len(FAMILIES) == 12
