"""PreScore and Score: rank the feasible nodes.

Each plugin gives int64 scores, normalises them to 0..100, and counts with the weight of the profile; the totals are the
sum. A columnar plugin is called twice in all, a one-node plugin once per node. Source: kube-scheduler 1.36,
`RunPreScorePlugins` and `RunScorePlugins`.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Final, Protocol, TypeGuard

import attrs
import numpy as np

from pyscheduler.cache.view import NodeSubset, NodeView
from pyscheduler.framework.interfaces import NodeScore
from pyscheduler.framework.reuse import Reuse
from pyscheduler.framework.status import MAX_SCORE, MIN_SCORE, Code, Status
from pyscheduler.runtime.equivalence_cache.classes import PluginTrace
from pyscheduler.runtime.equivalence_cache.score_cache import ScoreCache
from pyscheduler.runtime.plugin_calls import error_status
from pyscheduler.runtime.run_context import context_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import Pod
    from pyscheduler.framework.cycle_state import CycleState
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.runtime.equivalence_cache.classes import CachedResult, EquivalenceClass, EquivalenceClasses
    from pyscheduler.runtime.plugin_calls import PluginCalls, PluginMethod
    from pyscheduler.runtime.run_context import RunContext

__all__ = ["PluginScores", "PreScoring", "Ranking", "ScoreEntry", "ScoreOutcome", "Scoring", "best_of"]

_SKIP: Final = Code.SKIP


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
    """What ranking nodes came to: the totals, one per row of the view, which of them are highest, or an error."""

    @property
    def totals(self) -> NDArray[np.int64]:
        """Return int64[n]: the total of each node."""
        ...

    @property
    def best(self) -> Sequence[int] | NDArray[np.int64]:
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
    by_plugin: Mapping[str, PluginScores]
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
    #: Whether its scores can be kept. Those that move and are normalised are asked for anew.
    is_kept: bool = attrs.field(init=False)

    @is_kept.default
    def _can_be_kept(self) -> bool:
        reuse = self.method.reuse
        if not self.columnar or reuse is Reuse.NEVER:
            return False
        return self.normalize is None or reuse not in {Reuse.WHILE_PODS_STAY, Reuse.WHILE_AMOUNTS_STAY}


@attrs.frozen
class PreScoring:
    """The PreScore plugins of a profile, in its order."""

    calls: PluginCalls
    methods: Sequence[PluginMethod]

    def run(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Run all plugins, note who skips; return the first failure as an error."""
        began = self.calls.clock.now()
        context = context_of(state)
        skipped: set[str] = set()
        memory = context.memory
        known = memory.pre_score if memory is not None else None
        lesson = PluginTrace(self.calls, state) if memory is not None and known is None else None
        status = self._run(context, state, pod, nodes, skipped, known, lesson)
        context.skip_score = skipped
        if memory is not None and lesson is not None:
            memory.pre_score = lesson.learned(memory, self.methods)
        self.calls.point("PreScore", status, began)
        return status

    def _run(
        self,
        context: RunContext,
        state: CycleState,
        pod: Pod,
        nodes: Nodes,
        skipped: set[str],
        known: Sequence[CachedResult | None] | None,
        lesson: PluginTrace | None,
    ) -> Status | None:
        """Ask the plugins, but for those of which it is `known` what they do; tell the `lesson` what they did."""
        calls = self.calls
        ask = calls.run if lesson is None else lesson.run
        for method, step in zip(self.methods, known or repeat(None)):  # noqa: B905 - the one that repeats has no end
            if step is not None:
                step.repeat(method, state, skipped)
                continue
            answer = ask(method, pod, state, pod, nodes, sampled=context.sampled)
            status = None if answer is None else calls.status_of(method, pod, answer)
            if status is not None and status.code == _SKIP:
                skipped.add(method.plugin)
                continue
            method.evaluations += 1
            if status is not None:
                return calls.wrapped(method, status)
        return None


@attrs.frozen
class Scoring:
    """The Score plugins of a profile, in its order."""

    calls: PluginCalls
    entries: Sequence[ScoreEntry]
    #: All nodes of the snapshot, and what is kept between pods that ask the same; None where nothing is.
    view: Nodes | None = None
    memories: EquivalenceClasses | None = None

    def run(self, state: CycleState, pod: Pod, nodes: Nodes, *, details: bool) -> ScoreOutcome:
        """Score `nodes`; with `details` also keep what normalisation started from."""
        began = self.calls.clock.now()
        outcome = self._run(context_of(state), state, pod, nodes, details=details)
        self.calls.point("Score", outcome.status, began)
        return outcome

    def rank(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ranking:
        """Score `nodes` for who does not ask what single plugins gave: scores that are kept will do."""
        began = self.calls.clock.now()
        context = context_of(state)
        ranking: Ranking | None = None
        if context.memory is not None:
            ranking = self._recall(context, context.memory, state, pod, nodes)
        if ranking is None:
            ranking = self._run(context, state, pod, nodes, details=False)
        self.calls.point("Score", ranking.status, began)
        return ranking

    def _run(self, context: RunContext, state: CycleState, pod: Pod, nodes: Nodes, *, details: bool) -> ScoreOutcome:
        """Ask all plugins."""
        totals: NDArray[np.int64] = np.zeros(len(nodes), dtype=np.int64)
        by_plugin: dict[str, PluginScores] = {}
        outcome = ScoreOutcome(totals, by_plugin)
        for entry in self.entries:
            name = entry.method.plugin
            if name in context.skip_score:
                continue
            entry.method.evaluations += len(nodes)
            scores = self._score(entry, context, state, pod, nodes, details=details)
            if isinstance(scores, Status):
                outcome.status = scores
                break
            by_plugin[name] = scores
            totals += scores.normalized if entry.weight == 1 else scores.weighted
        return outcome

    def _recall(
        self, context: RunContext, memory: EquivalenceClass, state: CycleState, pod: Pod, nodes: Nodes
    ) -> Ranking | None:
        """Add what is kept for pods like this one and what is scored anew; None where all has to be scored."""
        rows, view = context.feasible, self.view
        if rows is None or memory.pre_score is None or not isinstance(view, NodeView):
            return None
        if nodes is not view and not (isinstance(nodes, NodeSubset) and nodes.rows is rows):
            return None
        skipped = context.skip_score
        kept = memory.scores
        if kept is None:
            entries = [entry for entry in self.entries if entry.is_kept and entry.method.plugin not in skipped]
            kept = memory.scores = ScoreCache(self.calls, entries)
        before = kept.growth
        ranking = kept.recall(state, pod, view, rows, sampled=context.sampled)
        if ranking is None:
            memory.lose()
        if self.memories is not None and (memory.is_lost or kept.growth != before):
            self.memories.settle(memory)
        if ranking is None:
            return None
        outcome: ScoreOutcome | None = None
        for entry in self.entries:
            if entry.method.plugin in skipped:
                continue
            entry.method.evaluations += len(rows)
            if entry.is_kept:
                continue
            if outcome is None:
                outcome = ScoreOutcome(ranking.totals, {})
            scores = self._score(entry, context, state, pod, nodes, details=False)
            if isinstance(scores, Status):
                outcome.status = scores
                break
            outcome.totals += scores.normalized if entry.weight == 1 else scores.weighted
        return outcome if outcome is not None else ranking

    def _score(
        self, entry: ScoreEntry, context: RunContext, state: CycleState, pod: Pod, nodes: Nodes, *, details: bool
    ) -> PluginScores | Status:
        ask = self._columnar if entry.columnar else self._scalar
        scores = ask(entry.method, context, state, pod, nodes)
        if isinstance(scores, Status):
            return scores
        raw = scores.copy() if details else None
        if entry.normalize is not None:
            normalized = self._normalize(entry.normalize, context, state, pod, nodes, scores, columnar=entry.columnar)
            if isinstance(normalized, Status):
                return normalized
            scores = normalized
        return _out_of_bounds(entry.method.plugin, scores) or PluginScores(scores, entry.weight, raw)

    def _columnar(
        self, method: PluginMethod, context: RunContext, state: CycleState, pod: Pod, nodes: Nodes
    ) -> NDArray[np.int64] | Status:
        """Ask for all scores at once."""
        calls = self.calls
        answer = calls.run(method, pod, state, pod, nodes, sampled=context.sampled)
        if isinstance(answer, np.ndarray) and answer.shape == (len(nodes),) and answer.dtype.kind in "iu":
            return answer.astype(np.int64, copy=False)
        if isinstance(answer, Status) and answer.is_error:
            return calls.wrapped(method, answer)
        if isinstance(answer, np.ndarray):
            found = f"{answer.dtype}{list(answer.shape)}"
            return calls.wrong_type(method, pod, answer, f"int64[{len(nodes)}], not {found}")
        return calls.wrong_type(method, pod, answer, f"int64[{len(nodes)}]")

    def _scalar(
        self, method: PluginMethod, context: RunContext, state: CycleState, pod: Pod, nodes: Nodes
    ) -> NDArray[np.int64] | Status:
        """Ask for the score of node after node."""
        calls = self.calls
        began = calls.clock.now()
        scores: NDArray[np.int64] = np.empty(len(nodes), dtype=np.int64)
        for row, node in enumerate(nodes):
            answer = calls.run(method, pod, state, pod, node)
            if _is_whole(answer):
                scores[row] = answer
            elif isinstance(answer, Status) and answer.is_error:
                return calls.wrapped(method, answer)
            else:
                return calls.wrong_type(method, pod, answer, "int")
        if context.sampled:
            calls.took(method, None, calls.clock.now() - began)
        return scores

    def _normalize(
        self,
        method: PluginMethod,
        context: RunContext,
        state: CycleState,
        pod: Pod,
        nodes: Nodes,
        scores: NDArray[np.int64],
        *,
        columnar: bool,
    ) -> NDArray[np.int64] | Status:
        """Let the plugin change its scores in place, in the form it gave them."""
        calls = self.calls
        given: NDArray[np.int64] | list[NodeScore] = scores
        if not columnar:
            given = [NodeScore(nodes.name(row), score) for row, score in enumerate(scores.tolist())]
        answer = calls.run(method, pod, state, pod, given, sampled=context.sampled)
        status = calls.status_of(method, pod, answer)
        if status is not None:
            return calls.wrapped(method, status)
        if isinstance(given, list):
            if len(given) != len(scores) or not all(_is_whole(each.score) for each in given):
                return calls.wrong_type(
                    method, pod, given, f"the {len(scores)} scores, whole numbers, that it was given"
                )
            return np.array([each.score for each in given], dtype=np.int64)
        return given


def best_of(totals: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rows with the highest total, ascending."""
    return np.flatnonzero(totals == totals.max())


def _is_whole(score: object) -> TypeGuard[int]:
    return type(score) is int or isinstance(score, np.integer)


def _out_of_bounds(plugin: str, scores: NDArray[np.int64]) -> Status | None:
    """Return the ERROR for the first score that is not within 0..100, else None."""
    # Seen as unsigned, a negative score is a huge one: one pass instead of two.
    if not len(scores) or scores.view(np.uint64).max() <= MAX_SCORE:
        return None
    wrong = int(scores[np.flatnonzero((scores < MIN_SCORE) | (scores > MAX_SCORE))[0]])
    message = (
        f'applying score defaultWeights on Score plugins: plugin "{plugin}" returns an invalid score {wrong}, '
        f"it should in the range of [{MIN_SCORE}, {MAX_SCORE}] after normalizing"
    )
    return error_status(message, plugin=plugin)
