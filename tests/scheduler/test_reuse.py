"""What is kept of earlier pods changes nothing but the time that a decision takes."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.scheduler.twins import CONFIGS, EVENTS, Twins

#: The events that come more often than others.
WEIGHTS = {"add_pods": 12.0, "search_in_a_statement": 3.0, "delete_placed_pods": 6.0, "nominate": 4.0}


class Histories(RuleBasedStateMachine):
    """Everything that can happen, in any order; each decision is made twice."""

    twins: Twins | None = None
    patches: pytest.MonkeyPatch

    @initialize(seed=st.integers(0, 2**16), config=st.sampled_from(range(len(CONFIGS))))
    def begin(self, seed: int, config: int) -> None:
        self.patches = pytest.MonkeyPatch()
        self.twins = Twins(seed, self.patches, config)

    @rule(count=st.integers(1, 3))
    def add_pods(self, count: int) -> None:
        assert self.twins is not None
        for _ in range(count):
            self.twins.happen("add_pods")

    @rule(name=st.sampled_from(sorted(EVENTS)))
    def happen(self, name: str) -> None:
        assert self.twins is not None
        self.twins.happen(name)

    def teardown(self) -> None:
        if self.twins is not None:
            self.twins.end()
            self.patches.undo()


@pytest.mark.long
def test_no_history_leads_to_another_decision() -> None:
    """Whatever hypothesis comes up with, what is kept says what the plugins would say."""
    run_state_machine_as_test(Histories, settings=settings(max_examples=8, stateful_step_count=25, deadline=None))


@pytest.mark.slow
def test_decisions_are_the_same_while_everything_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four long histories, the same at every run: each event happens, and all the while use is made of what is kept."""
    counts: Counter[str] = Counter()
    names = sorted(EVENTS)
    weights = [WEIGHTS.get(name, 1.0) for name in names]
    for seed in range(4):
        with monkeypatch.context() as patches:
            twins = Twins(seed, patches, seed % len(CONFIGS))
            for name in random.Random(seed).choices(names, weights, k=200):
                twins.happen(name)
            twins.end()
            counts += twins.counts
    print(dict(sorted(counts.items())))  # noqa: T201 - how often each event had its turn
    assert not [name for name in EVENTS if not counts[name]]
    assert counts["recalled filters"] > 100
    assert counts["recalled scores"] > 50
    assert counts["recalled nominated"] > 10
    assert counts["recalled a failure"] > 200
    assert counts["hints"]
