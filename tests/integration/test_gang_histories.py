"""Whatever happens, in whatever order, under every profile for groups: none is bound in part, nobody is lost.

A run says how often what happened. `HYPOTHESIS_PROFILE=search` searches for longer, at random.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from typing import TYPE_CHECKING, ClassVar

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from pyscheduler_coscheduling.plugin import Coscheduling
from pyscheduler_gang.plugin import Gang
from tests.integration.group_history import EVENTS, OPENINGS, GroupHistory, Way
from tests.integration.groups_checker import Counting

if TYPE_CHECKING:
    from collections.abc import Iterator

#: So long after a thing happened the next one does, in seconds; None is before the scheduler had a turn.
PAUSES = (None, 0, 0, 0.3, 1, 3, 12, 40, 70)
ROLLED_BACK = ("rollbacks", "timeouts", "restart", "bind failures", "held")

WAYS = [
    pytest.param(
        Way(config="coscheduling.yaml", counting=Counting.SIGS, expects=(*ROLLED_BACK, "yields")), id="coscheduling"
    ),
    pytest.param(Way(config="coscheduling-ming.yaml", counting=Counting.MING, expects=ROLLED_BACK), id="ming"),
    pytest.param(Way(config="gang.yaml", counting=Counting.GANG, expects=(*ROLLED_BACK, "yields")), id="gang"),
    pytest.param(
        Way(
            config="coscheduling.yaml",
            counting=Counting.SIGS,
            args={"Coscheduling": {"strategy": "groupCycle"}},
            expects=("rollbacks", "restart", "bind failures"),
        ),
        id="coscheduling in one cycle",
    ),
    pytest.param(
        Way(
            config="coscheduling.yaml",
            counting=Counting.SIGS,
            args={"Coscheduling": {"podGroupRejectPercentage": 100, "permitWaitingTimeSeconds": 10}},
            expects=("timeouts", "restart", "bind failures", "held"),
        ),
        id="coscheduling that rejects nobody",
    ),
    pytest.param(
        Way(
            config="coscheduling.yaml",
            counting=Counting.SIGS,
            args={"Coscheduling": {"podGroupRejectPercentage": 0, "deniedPGExpirationTimeSeconds": 0}},
            expects=("rollbacks", "restart", "bind failures"),
        ),
        id="coscheduling without a window",
    ),
    pytest.param(
        Way(
            config="gang.yaml",
            counting=Counting.GANG,
            args={"Gang": {"strategy": "groupCycle"}},
            expects=("rollbacks", "restart", "bind failures"),
        ),
        id="gang in one cycle",
    ),
    pytest.param(
        Way(
            config="in-tree-gang.yaml",
            counting=Counting.IN_TREE,
            gates="GenericWorkload=true,GangScheduling=true",
            expects=("restart", "bind failures", "members let through"),
        ),
        id="in-tree",
    ),
    pytest.param(
        Way(config="gangsort.yaml", counting=Counting.NOBODY, expects=("restart", "bind failures")), id="gangsort"
    ),
]


#: One history in which everything has its turn that a profile has to show, after each opening.
ORDINARY: list[tuple[str, int, float | None]] = [
    ("nothing", 0, 20),
    ("fail_binds", 3, 0),
    ("create_node", 1, 3),
    ("create_node", 2, 0),
    ("restart", 5, 1),
    ("delete_pod", 6, 0),
    ("create_pods", 7, 70),
    ("complete_pod", 8, 12),
]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Log nothing: what goes wrong here goes wrong on purpose."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class Histories(RuleBasedStateMachine):
    """Everything that can happen, in any order; the world itself looks at each moment, and at the end."""

    way: ClassVar[Way]
    counts: ClassVar[Counter[str]]
    world: GroupHistory | None = None

    @initialize(
        number=st.integers(0, 2**16), opening=st.sampled_from(sorted(OPENINGS)), pause=st.sampled_from((None, 0, 1))
    )
    def begin(self, number: int, opening: str, pause: float | None) -> None:
        self.world = GroupHistory(self.way, number)
        self.world.happen(opening, number, pause)

    @rule(name=st.sampled_from(sorted(EVENTS)), number=st.integers(0, 2**16), pause=st.sampled_from(PAUSES))
    def happen(self, name: str, number: int, pause: float | None) -> None:
        assert self.world is not None
        self.world.happen(name, number, pause)

    def teardown(self) -> None:
        if self.world is not None:
            self.world.end()
            self.counts.update(self.world.counts)


def _play(way: Way, opening: str, number: int, events: list[tuple[str, int, float | None]]) -> Counter[str]:
    """Play one history that was written down."""
    world = GroupHistory(way, number)
    world.happen(opening, number, 0)
    for event in events:
        world.happen(*event)
    world.end()
    return world.counts


@pytest.mark.parametrize("way", WAYS)
def test_no_group_is_ever_bound_in_part_and_no_pod_is_lost(way: Way) -> None:
    """Groups are created, changed, deleted; pods, nodes, the scheduler come and go; bindings fail; all at random."""
    Histories.way, Histories.counts = way, Counter()
    run_state_machine_as_test(
        Histories,
        settings=settings(
            max_examples=settings.default.max_examples // 5,
            stateful_step_count=25,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    counts = Histories.counts
    for number, opening in enumerate(sorted(OPENINGS)):
        counts += _play(way, opening, number, ORDINARY)
    sys.stdout.write(f"{dict(sorted(counts.items()))}\n")
    missing = {name for name in way.expects if not counts[name]}
    assert not missing, f"never happened: {missing}"


@pytest.mark.parametrize("way", [way for way in WAYS if way.id in {"coscheduling", "ming", "gang"}])
def test_a_plugin_that_lets_everybody_through_is_caught(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge sees a group of five of which four are bound."""
    for plugin in (Coscheduling, Gang):
        monkeypatch.setattr(plugin, "permit", lambda *_: None)
    world = GroupHistory(way, 1)
    with pytest.raises(AssertionError, match=r"was let through in part: \d asked to be bound, \d bound, 0 gone"):
        world.happen("open_one_place_short", 1, 20)
    world.checker.close()
    world.runner.run(world.cluster.close())
    world.runner.close()


def test_a_pod_that_nobody_knows_is_caught() -> None:
    """The judge sees a pod that is pending and is not with the scheduler, and a node that is held twice."""
    world = GroupHistory(WAYS[0].values[0], 1)  # type: ignore[arg-type]  # that is what it holds
    world.happen("create_plain_pod", 1, 1)
    world.happen("create_node", 1, None)
    (pod,) = world.server.pods()
    (node,) = world.server.nodes()
    uid, name = pod["metadata"]["uid"], node["metadata"]["name"]
    with pytest.raises(AssertionError, match="is lost"):
        world.checker.judge(lambda _: False)
    with pytest.raises(AssertionError, match=r"gives 0 m, and is held for \d+ m more"):
        world.checker.judge(None, [(uid, name)] * 9)
    world.checker.close()
    world.runner.run(world.cluster.close())
    world.runner.close()
