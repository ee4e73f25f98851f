"""PreScore and Score: rank the feasible nodes.

Each plugin gives each node a score from 0 to 100. The scores of a node are multiplied by the plugins' weights and added
up.
Source: kube-scheduler 1.36, `RunPreScorePlugins` and `RunScorePlugins`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeGuard

import attrs
import numpy as np

from pyscheduler.framework.interfaces import NodeScore
from pyscheduler.framework.status import MAX_SCORE, MAX_TOTAL_SCORE, MIN_SCORE, Code, Status
from pyscheduler.runtime.extension_points.arrays import expected_scores, score_array
from pyscheduler.runtime.extension_points.plugin_calls import error_status
from pyscheduler.runtime.extension_points.run_context import CycleInput, context_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import Pod
    from pyscheduler.framework.cycle_state import CycleState
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.runtime.extension_points.plugin_calls import PluginCalls, PluginMethod

__all__ = [
    "PluginScores",
    "PreScoring",
    "Ranking",
    "ScoreEntry",
    "ScoreOutcome",
    "Scoring",
    "best_of",
    "in_bounds",
    "is_whole",
]

_SKIP: Final = Code.SKIP
_LEAST: Final = -MAX_TOTAL_SCORE - 1


@attrs.define
class PluginScores:
    """The scores of one plugin, int64[n] each; `raw`, before normalisation, only where details were asked for."""

    normalized: NDArray[np.int64]
    weight: int
    raw: NDArray[np.int64] | None = None

    @property
    def weighted(self) -> NDArray[np.int64]:
        """Return int64[n]: what the plugin adds to the totals."""
        return self.normalized * self.weight


class Ranking(Protocol):
    """The result of ranking nodes: the totals, one per row of the view, the rows with the highest, or an error."""

    @property
    def totals(self) -> NDArray[np.int64]:
        """Return int64[n]: the total of each node."""
        ...

    @property
    def best(self) -> NDArray[np.int64]:
        """Return the rows with the highest total, ascending; there is at least one node."""
        ...

    @property
    def status(self) -> Status | None:
        """Return the error that ended it."""
        ...


@attrs.define
class ScoreOutcome:
    """`totals`: int64[n], one per row of the view that was scored. `status`: an error that ended it, else None."""

    totals: NDArray[np.int64]
    by_plugin: dict[str, PluginScores]
    status: Status | None = None

    @property
    def best(self) -> NDArray[np.int64]:
        """Return the rows with the highest total, ascending."""
        return best_of(self.totals)


@attrs.frozen
class ScoreEntry:
    """A Score plugin: its `score_nodes` where it has one, else its `score`; `normalize` where it has that."""

    method: PluginMethod
    columnar: bool
    weight: int
    normalize: PluginMethod | None = None


@attrs.frozen
class PreScoring:
    """The PreScore plugins of a profile, in its order."""

    calls: PluginCalls
    methods: Sequence[PluginMethod]

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Run all plugins and note which skip; return the first failure as an error."""
        began = self.calls.clock.now()
        status = self._run(state, pod, nodes)
        self.calls.point("PreScore", status, began)
        return status

    def _run(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        calls, context = self.calls, context_of(state)
        context.skip_score = set()
        for method in self.methods:
            answer = calls.run(method, pod, state, pod, nodes, sampled=context.sampled)
            status = None if answer is None else calls.status_of(method, pod, answer)
            if status is not None and status.code == _SKIP:
                context.skip_score.add(method.plugin)
                continue
            method.evaluations += 1
            if status is not None:
                return calls.wrapped(method, pod, status)
        return None


@attrs.frozen
class Scoring:
    """The Score plugins of a profile, in its order."""

    calls: PluginCalls
    entries: Sequence[ScoreEntry]

    def score(self, state: CycleState, pod: Pod, nodes: Nodes, *, details: bool = False) -> ScoreOutcome:
        """Score `nodes`; with `details` also keep the scores from before normalisation."""
        began = self.calls.clock.now()
        outcome = ScoreOutcome(np.zeros(len(nodes), dtype=np.int64), {})
        self.add_scores(outcome, self.entries, CycleInput(context_of(state), state, pod, nodes), details=details)
        self.calls.point("Score", outcome.status, began)
        return outcome

    def add_scores(
        self, outcome: ScoreOutcome, entries: Sequence[ScoreEntry], cycle: CycleInput, *, details: bool = False
    ) -> None:
        """Add the scores of those of `entries` that do not skip this cycle; stop at the first error."""
        for entry in entries:
            name = entry.method.plugin
            if name in cycle.context.skip_score:
                continue
            entry.method.evaluations += len(cycle.nodes)
            scores = self._score(entry, cycle, details=details)
            if isinstance(scores, Status):
                outcome.status = scores
                return
            outcome.by_plugin[name] = scores
            outcome.totals += scores.normalized if entry.weight == 1 else scores.weighted

    def _score(self, entry: ScoreEntry, cycle: CycleInput, *, details: bool) -> PluginScores | Status:
        scores = (self._columnar if entry.columnar else self._one_by_one)(entry.method, cycle)
        if isinstance(scores, Status):
            return scores
        raw = scores.copy() if details else None
        if entry.normalize is not None:
            normalized = self._normalize(entry.normalize, cycle, scores, columnar=entry.columnar)
            if isinstance(normalized, Status):
                return normalized
            scores = normalized
        return _out_of_bounds(entry.method.plugin, scores) or PluginScores(scores, entry.weight, raw)

    def _columnar(self, method: PluginMethod, cycle: CycleInput) -> NDArray[np.int64] | Status:
        calls, pod, nodes = self.calls, cycle.pod, cycle.nodes
        answer = calls.run(method, pod, cycle.state, pod, nodes, sampled=cycle.context.sampled)
        scores = score_array(answer, len(nodes))
        if scores is not None:
            return scores
        if isinstance(answer, Status) and answer.is_error:
            return calls.wrapped(method, pod, answer)
        return calls.wrong_type(method, pod, answer, expected_scores(answer, len(nodes)))

    def _one_by_one(self, method: PluginMethod, cycle: CycleInput) -> NDArray[np.int64] | Status:
        """Return the scores from a call for each node."""
        calls, pod = self.calls, cycle.pod
        began = calls.clock.now()
        scores: NDArray[np.int64] = np.empty(len(cycle.nodes), dtype=np.int64)
        for row, node in enumerate(cycle.nodes):
            answer = calls.run(method, pod, cycle.state, pod, node)
            if is_whole(answer):
                scores[row] = answer
            elif isinstance(answer, Status) and answer.is_error:
                return calls.wrapped(method, pod, answer)
            else:
                return calls.wrong_type(method, pod, answer, "int")
        if cycle.context.sampled:
            calls.took(method, None, calls.clock.now() - began, pod)
        return scores

    def _normalize(
        self, method: PluginMethod, cycle: CycleInput, scores: NDArray[np.int64], *, columnar: bool
    ) -> NDArray[np.int64] | Status:
        """Let the plugin change its scores in place, in the form it gave them."""
        calls, pod = self.calls, cycle.pod
        given: NDArray[np.int64] | list[NodeScore] = scores
        if not columnar:
            given = [NodeScore(cycle.nodes.name(row), score) for row, score in enumerate(scores.tolist())]
        answer = calls.run(method, pod, cycle.state, pod, given, sampled=cycle.context.sampled)
        status = calls.status_of(method, pod, answer)
        if status is not None:
            return calls.wrapped(method, pod, status)
        if isinstance(given, list):
            if len(given) != len(scores) or not all(is_whole(each.score) for each in given):
                expected = f"the {len(scores)} scores, whole numbers, that it was given"
                return calls.wrong_type(method, pod, given, expected)
            return np.array([each.score for each in given], dtype=np.int64)
        return given


def best_of(totals: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rows with the highest total, ascending."""
    return np.flatnonzero(totals == totals.max())


def in_bounds(scores: NDArray[np.int64]) -> bool:
    """Return True if all scores are within 0..100."""
    # Seen as unsigned, a negative score is a huge one: one pass instead of two.
    return not len(scores) or bool(scores.view(np.uint64).max() <= MAX_SCORE)


def is_whole(score: object) -> TypeGuard[int]:
    """Return True for an integer that fits into int64; a bool is none."""
    return (type(score) is int or isinstance(score, np.integer)) and _LEAST <= int(score) <= MAX_TOTAL_SCORE


def _out_of_bounds(plugin: str, scores: NDArray[np.int64]) -> Status | None:
    """Return the ERROR for the first score that is not within 0..100, else None."""
    if in_bounds(scores):
        return None
    wrong = int(scores[np.flatnonzero((scores < MIN_SCORE) | (scores > MAX_SCORE))[0]])
    message = (
        f'applying score defaultWeights on Score plugins: plugin "{plugin}" returns an invalid score {wrong}, '
        f"it should in the range of [{MIN_SCORE}, {MAX_SCORE}] after normalizing"
    )
    return error_status(message, plugin=plugin)
