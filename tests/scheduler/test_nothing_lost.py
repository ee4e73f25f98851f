"""Whatever happens, in whatever order: no pod is lost, none bound twice, no node overcommitted."""

from __future__ import annotations

import logging
import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.scheduler.random_history import EVENTS, FAULTS, RandomHistory
from tests.scheduler.trouble import POINTS, Trouble

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Log nothing: what goes wrong here goes wrong on purpose, and thousands of times."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class Histories(RuleBasedStateMachine):
    """Everything that can happen, in any order; each step and the end are checked by the world itself."""

    world: RandomHistory | None = None

    @initialize(seed=st.integers(0, 2**16), nodes=st.integers(0, 3))
    def begin(self, seed: int, nodes: int) -> None:
        self.world = RandomHistory(seed)
        for _ in range(nodes):
            self.world.happen("create_node")

    @rule(count=st.integers(1, 4))
    def create_pods(self, count: int) -> None:
        assert self.world is not None
        for _ in range(count):
            self.world.happen("create_pod")

    @rule(name=st.sampled_from(sorted(EVENTS)))
    def happen(self, name: str) -> None:
        assert self.world is not None
        self.world.happen(name)

    def teardown(self) -> None:
        if self.world is not None:
            self.world.end()


@pytest.mark.long
def test_no_history_loses_a_pod() -> None:
    """Whatever hypothesis comes up with, in the end every pod has its node, and nothing is held for nobody."""
    run_state_machine_as_test(Histories, settings=settings(max_examples=13, stateful_step_count=30, deadline=None))


@pytest.mark.slow
def test_a_long_history_with_all_faults_loses_no_pod() -> None:
    """A few long histories, the same at every run, in which each event, each fault and each failure happens."""
    counts: Counter[str] = Counter()
    for seed in range(1, 3 + settings.default.max_examples // 10):
        rng = random.Random(seed)
        world = RandomHistory(seed)
        names = sorted(EVENTS)
        weights = [{"create_pod": 8.0, "create_node": 2.0, "arm_fault": 3.0}.get(name, 1.0) for name in names]
        for name in rng.choices(names, weights, k=300):
            world.happen(name)
        world.end()
        counts += world.counts + world.hits + Trouble.counts
    expected = {*EVENTS, *FAULTS, "a binding was cut short", "a victim was deleted", "a victim was turned away"}
    expected |= {f"{point} {kind}" for point, kinds in POINTS.items() for kind in kinds}
    assert not {name for name in expected if not counts[name]}
