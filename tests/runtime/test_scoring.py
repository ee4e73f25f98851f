"""PreScore and Score: raw scores, normalisation, weights, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from pyscheduler.api import Pod
from pyscheduler.framework import (
    Code,
    CycleState,
    NodeInfo,
    Nodes,
    NodeScore,
    Plugin,
    PreScorePlugin,
    ScorePlugin,
    Status,
)
from pyscheduler.testing.builders import make_pod

Scores = Sequence[int]


def number_of(node: NodeInfo) -> int:
    """Read the number in the node's name."""
    return int(node.name.removeprefix("n"))


def scorer(name: str, scores: Scores, *, columnar: bool, normalized: Scores | None = None) -> type[Plugin]:
    """Make a plugin that gives node n<i> the i-th of `scores`, and normalises them to `normalized`."""

    def score(self: Plugin, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return scores[number_of(node)]

    def score_nodes(self: Plugin, state: CycleState, pod: Pod, nodes: Nodes) -> NDArray[np.int64]:
        return np.array([scores[number_of(node)] for node in nodes], dtype=np.int64)

    def normalize(self: Plugin, state: CycleState, pod: Pod, given: Any) -> None:
        assert normalized is not None
        if isinstance(given, list):
            for each in given:
                each.score = normalized[int(each.name.removeprefix("n"))]
        else:
            given[:] = normalized

    members: dict[str, object] = {"score_nodes": score_nodes} if columnar else {"score": score}
    if normalized is not None:
        members["normalize_scores"] = normalize
    return type(name, (ScorePlugin,), members)


def run(kit: Any, *plugins: type[Plugin], nodes: int = 3, details: bool = False, **weights: int) -> Any:
    """Score some nodes."""
    kit.add_nodes(*(f"n{number}" for number in range(nodes)))
    profile = kit.profile(*plugins, weights=weights)
    return profile.run_score(CycleState(), make_pod("p"), kit.snapshot.nodes, details=details)


@pytest.mark.parametrize("columnar", [True, False])
def test_totals_are_weighted_sums(kit: Any, columnar: bool) -> None:
    """Each plugin counts with its weight, whichever form it has."""
    one, two = scorer("One", [1, 2, 3], columnar=columnar), scorer("Two", [100, 0, 50], columnar=not columnar)
    outcome = run(kit, one, two, Two=3)
    assert outcome.status is None
    assert outcome.totals.tolist() == [301, 2, 153]
    assert outcome.totals.dtype == np.int64
    assert outcome.by_plugin["Two"].weighted.tolist() == [300, 0, 150]
    assert outcome.by_plugin["One"].normalized.tolist() == [1, 2, 3]


@pytest.mark.parametrize("columnar", [True, False])
def test_normalisation_comes_before_the_bounds(kit: Any, columnar: bool) -> None:
    """Raw scores may be anything, as long as they lie in 0..100 afterwards."""
    outcome = run(kit, scorer("One", [-5, 2**40, 7], columnar=columnar, normalized=[0, 100, 7]), One=2, details=True)
    assert outcome.totals.tolist() == [0, 200, 14]
    scores = outcome.by_plugin["One"]
    assert scores.raw.tolist() == [-5, 2**40, 7]
    assert scores.normalized.tolist() == [0, 100, 7]
    assert scores.weight == 2


def test_raw_scores_are_kept_only_on_request(kit: Any) -> None:
    """A cycle does not pay for copies that nobody reads."""
    outcome = run(kit, scorer("One", [1, 2, 3], columnar=True))
    assert outcome.by_plugin["One"].raw is None


@pytest.mark.parametrize("columnar", [True, False])
@pytest.mark.parametrize(
    ("scores", "wrong"),
    [
        pytest.param([0, 101, 50], 101, id="too large"),
    ],
)
def test_scores_out_of_bounds_fail_the_attempt(kit: Any, columnar: bool, scores: Scores, wrong: int) -> None:
    """The message names the plugin and the score, in kube-scheduler's words."""
    status = run(kit, scorer("One", scores, columnar=columnar)).status
    assert (status.code, status.plugin) == (Code.ERROR, "One")
    assert status.message == (
        f'applying score defaultWeights on Score plugins: plugin "One" returns an invalid score {wrong}, '
        "it should in the range of [0, 100] after normalizing"
    )


@pytest.mark.slow
@given(
    scores=st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 102), min_size=1, max_size=8),
    columnar=st.booleans(),
)
def test_bounds_hold_for_every_number(new_kit: Any, scores: list[int], columnar: bool) -> None:
    """Exactly the scores from 0 to 100 are taken."""
    outcome = run(new_kit(), scorer("One", scores, columnar=columnar), nodes=len(scores))
    assert (outcome.status is None) == all(0 <= score <= 100 for score in scores)


class Skipper(PreScorePlugin, ScorePlugin):
    """Leaves itself out when told so."""

    answer: Status | None = Status.skip()

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        return self.answer

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 7


def test_a_plugin_that_skips_is_left_out_of_scoring(kit: Any) -> None:
    """After Skip at PreScore a plugin adds nothing; another cycle starts afresh."""
    kit.add_nodes("n0", "n1")
    profile = kit.profile(Skipper)
    state, pod, nodes = CycleState(), make_pod("p"), kit.snapshot.nodes
    assert profile.run_pre_score(state, pod, nodes) is None
    outcome = profile.run_score(state, pod, nodes)
    assert outcome.totals.tolist() == [0, 0]
    assert not outcome.by_plugin
    assert profile.run_score(CycleState(), pod, nodes).totals.tolist() == [7, 7]


def test_a_rejection_at_pre_score_is_an_error(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once nodes are feasible nobody may refuse the pod any more."""
    monkeypatch.setattr(Skipper, "answer", Status.unschedulable("too late"))
    status = kit.profile(Skipper).run_pre_score(CycleState(), make_pod("p"), kit.snapshot.nodes)
    assert (status.code, status.message) == (Code.ERROR, 'running PreScore plugin "Skipper": too late')


@pytest.mark.parametrize("answer", [pytest.param(1.5, id="a fraction"), pytest.param(True, id="a bool"), "7"])
def test_a_score_must_be_a_whole_number(kit: Any, answer: Any) -> None:
    """A one-node plugin that returns no int has made a mistake."""
    status = run(kit, type("One", (ScorePlugin,), {"score": lambda *_: answer})).status
    assert f"Score returned {type(answer).__name__}; expected int" in status.message


def test_normalisation_must_leave_whole_numbers(kit: Any) -> None:
    """A one-node plugin that divides with `/` is told so."""

    def halve(self: Plugin, state: CycleState, pod: Pod, given: list[NodeScore]) -> None:
        for each in given:
            each.score /= 2  # type: ignore[assignment]  # the mistake

    cls = type("One", (ScorePlugin,), {"score": lambda *_: 50, "normalize_scores": halve})
    assert "expected the 3 scores, whole numbers, that it was given" in run(kit, cls).status.message


def test_normalisation_must_leave_all_scores(kit: Any) -> None:
    """A one-node plugin that drops nodes from the list has misunderstood."""
    members = {"score": lambda *_: 50, "normalize_scores": lambda _self, _state, _pod, given: given.clear()}
    assert "expected the 3 scores" in run(kit, type("One", (ScorePlugin,), members)).status.message


def test_a_failing_plugin_stops_the_scoring(kit: Any) -> None:
    """Totals of which a part is missing decide nothing; no further plugin is asked."""
    asked: list[str] = []

    def fail(*_: object) -> int:
        return 3 // 0

    def note(*_: object) -> int:
        asked.append("Two")
        return 1

    first, second = type("One", (ScorePlugin,), {"score": fail}), type("Two", (ScorePlugin,), {"score": note})
    status = run(kit, first, second).status
    assert status.message.startswith('running Score plugins: plugin "One" failed with: ZeroDivisionError')
    assert not asked


def test_without_score_plugins_all_nodes_are_equal(kit: Any) -> None:
    """Nobody ranks, so nobody is ahead."""
    outcome = run(kit)
    assert outcome.totals.tolist() == [0, 0, 0]
    assert outcome.status is None
