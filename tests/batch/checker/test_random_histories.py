"""Random histories of a correct scheduler pass, and a random fault in one of them is reported."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings, strategies as st

from pyscheduler_lab.audit import Options, check
from tests.batch.checker.toy_scheduler import FAULTS, ToyScheduler

if TYPE_CHECKING:
    from collections.abc import Callable

#: For each kind of fault, the number of histories with the fault after which no other is judged.
ENOUGH = settings.default.max_examples // 2
OPTIONS = Options(schedulers=frozenset({"batch"}))

pytestmark = pytest.mark.slow


def toy_after(seed: int, steps: int) -> ToyScheduler:
    """Return a toy scheduler after a random history."""
    toy = ToyScheduler(seed)
    toy.run(steps)
    return toy


@settings(deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(0, 25))
def test_a_correct_scheduler_passes(seed: int, steps: int) -> None:
    """No rule is broken, whatever the history."""
    toy = toy_after(seed, steps)
    toy.log.wait(100.0)
    verdict = check(toy.log.history(), OPTIONS)
    assert verdict.ok, [str(one) for one in verdict.violations]


def test_every_rule_has_its_turn() -> None:
    """In fifty histories each rule is applied, and each kind of eviction happens."""
    judged: Counter[int] = Counter()
    writes: Counter[str] = Counter()
    for seed in range(50):
        toy = toy_after(seed, 20)
        toy.log.wait(100.0)
        verdict = check(toy.log.history(), OPTIONS)
        assert verdict.ok, [seed, *map(str, verdict.violations)]
        judged += verdict.judged
        writes += toy.counts
    print(dict(sorted(judged.items())), dict(writes))  # noqa: T201 - how often each rule had its turn
    assert all(judged[rule] >= 10 for rule in range(1, 10)), judged
    assert all(writes[action] >= 5 for action in ("reclaim", "preempt", "stalegangeviction")), writes


@pytest.mark.parametrize("fault", FAULTS, ids=lambda one: one.__name__)
def test_a_fault_is_reported(fault: Callable[[ToyScheduler], bool]) -> None:
    """A fault at the end of a correct history breaks its rule in each history that has an object for it."""
    hits = 0
    for seed in range(60):
        toy = toy_after(seed, 12)
        if not fault(toy):
            continue
        toy.log.wait(100.0)
        verdict = check(toy.log.history(), OPTIONS)
        assert FAULTS[fault] in verdict.rules, [seed, *verdict.table(), *map(str, verdict.violations)]
        hits += 1
        if hits >= ENOUGH:
            break
    print(fault.__name__, hits)  # noqa: T201 - how often the fault was made
    assert hits >= 3
