"""Decide the scheduling tests of KAI-Scheduler and Volcano on API objects (see vectors_peers/NOTICE)."""

from __future__ import annotations

import pytest

from tests.batch.peer_cases import DIFFERENCES, SYSTEMS, found_differences, read

#: Cases of one test. Many small tests spread over the workers.
_PART = 25
PARTS = [(system, first) for system, count in SYSTEMS.items() for first in range(0, count, _PART)]


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("system", "first"), PARTS)
def test_tests_of_the_peers_are_decided_alike(system: str, first: int) -> None:
    """Every case has the outcome that the test demands, but for those that the parity page lists, which all differ."""
    cases = [*read(system)][first : first + _PART]
    found = {case["id"]: found_differences(system, case)[:4] for case in cases}
    unexpected = {name: texts for name, texts in found.items() if texts and name not in DIFFERENCES}
    assert not unexpected
    settled = [name for name, texts in found.items() if not texts and name in DIFFERENCES]
    assert not settled, "these agree now: take them out of DIFFERENCES, and write the parity page anew"


def test_every_case_is_compared() -> None:
    """No case is left out, and each listed difference belongs to a case."""
    names = {system: [case["id"] for case in read(system)] for system in SYSTEMS}
    assert {system: len(set(of_system)) for system, of_system in names.items()} == SYSTEMS
    assert {*DIFFERENCES} <= {name for of_system in names.values() for name in of_system}


def test_a_wrong_outcome_is_noticed() -> None:
    """A wrong node, a missing task and an eviction too many are differences."""
    case = next(case for case in read("kai") if case["expected"]["tasks"] and "rounds" not in case)
    for field, value in (("node", "another"), ("state", "failed")):
        changed = {name: {**wanted, field: value} for name, wanted in case["expected"]["tasks"].items()}
        assert found_differences("kai", {**case, "expected": {**case["expected"], "tasks": changed}})
    case = next(case for case in read("volcano") if case["expected"]["evicted"])
    assert found_differences("volcano", {**case, "expected": {**case["expected"], "evicted": []}})
