"""The equivalence cache of one profile: it stands in for PreFilter, Filter, PreScore and Score.

Each method calls the plain extension point where the cache cannot answer. Plugins whose answers depend on other pods,
on objects of other kinds or on the time are called for every pod; their answers are joined with the cached ones. The
decision is the same with and without the cache, to the last random draw, and evaluations are counted alike.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from pyscheduler.framework.status import Status
from pyscheduler.runtime.attribution import blank_statuses, merge_statuses
from pyscheduler.runtime.equivalence_cache.classes import EquivalenceClass, EquivalenceClasses
from pyscheduler.runtime.equivalence_cache.filter_cache import FilterCache, is_cacheable
from pyscheduler.runtime.equivalence_cache.nominated_filter_cache import NominatedFilterCache, NominatedRejections
from pyscheduler.runtime.equivalence_cache.plugin_trace import PluginTrace
from pyscheduler.runtime.equivalence_cache.score_cache import ScoreCache, is_cacheable_score
from pyscheduler.runtime.filtering import FilterOutcome, FilterQuestion
from pyscheduler.runtime.run_context import context_of
from pyscheduler.runtime.scoring import ScoreOutcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from pyscheduler.api import Pod
    from pyscheduler.cache.snapshot import Snapshot
    from pyscheduler.framework.cycle_state import CycleState
    from pyscheduler.framework.node_statuses import NodeStatuses
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.runtime.equivalence_cache.equivalence_key import EquivalenceKeys
    from pyscheduler.runtime.filtering import Filtering
    from pyscheduler.runtime.pre_filtering import PreFiltering, PreFilterOutcome
    from pyscheduler.runtime.scoring import PreScoring, Ranking, Scoring

__all__ = ["EquivalenceCache"]

_NO_ROWS: Final[NDArray[np.int64]] = np.empty(0, dtype=np.int64)


class EquivalenceCache:
    """The four extension points, with answers that are reused for pods of one equivalence class."""

    __slots__ = (
        "_calls",
        "_entries",
        "_filtering",
        "_keys",
        "_pre_filtering",
        "_pre_scoring",
        "_scoring",
        "_snapshot",
        "_uncached",
        "classes",
    )

    def __init__(
        self,
        *,
        snapshot: Snapshot,
        keys: EquivalenceKeys,
        pre_filtering: PreFiltering,
        filtering: Filtering,
        pre_scoring: PreScoring,
        scoring: Scoring,
    ) -> None:
        self._snapshot = snapshot
        self._keys = keys
        self._pre_filtering = pre_filtering
        self._filtering = filtering
        self._pre_scoring = pre_scoring
        self._scoring = scoring
        self._calls = filtering.calls
        self._uncached = [each for each in filtering.columnar if not is_cacheable(each[1])]
        self._entries = [(entry, is_cacheable_score(entry)) for entry in scoring.entries]
        self.classes = EquivalenceClasses()

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes, *, sampled: bool) -> PreFilterOutcome:
        """Begin the cycle of `pod`; plugins whose answers are cached are not called."""
        plain = self._pre_filtering
        key = self._keys.of(pod)
        known = self.classes.of(key) if key is not None else None
        if known is None:
            return plain.pre_filter(state, pod, nodes, sampled=sampled)
        if known.pre_filter is not None:
            outcome = plain.pre_filter(state, pod, nodes, sampled=sampled, call=known.pre_filter.call)
        else:
            trace = PluginTrace(self._calls, state)
            outcome = plain.pre_filter(state, pod, nodes, sampled=sampled, call=trace.call)
            known.pre_filter = trace.replay(plain.methods)
            if not trace.is_reusable:
                known.lose()
        context_of(state).equivalence_class = known
        return outcome

    def find_feasible(
        self, state: CycleState, pod: Pod, nodes: Nodes, *, limit: int | None = None, start: int = 0
    ) -> FilterOutcome:
        """Search `nodes`; a search of all nodes of the snapshot is answered from the cache where that is possible."""
        context = context_of(state)
        known = context.equivalence_class
        if known is not None and nodes is self._snapshot.nodes and (limit is None or limit >= len(nodes)):
            began = self._calls.clock.now()
            outcome = self._recall_filters(FilterQuestion(context, state, pod, nodes), known)
            if outcome is not None:
                self._calls.point("Filter", outcome.status, began)
                return outcome
        return self._filtering.find_feasible(state, pod, nodes, limit=limit, start=start)

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Run PreScore; plugins whose answers are cached are not called."""
        known = context_of(state).equivalence_class
        if known is None or known.is_lost:
            return self._pre_scoring.pre_score(state, pod, nodes)
        if known.pre_score is not None:
            return self._pre_scoring.pre_score(state, pod, nodes, call=known.pre_score.call)
        trace = PluginTrace(self._calls, state)
        status = self._pre_scoring.pre_score(state, pod, nodes, call=trace.call)
        known.pre_score = trace.replay(self._pre_scoring.methods)
        if not trace.is_reusable:
            known.lose()
        return status

    def rank(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ranking:
        """Score `nodes` for a caller that needs the totals only; cached scores are not computed again."""
        known = context_of(state).equivalence_class
        if known is not None:
            began = self._calls.clock.now()
            ranking = self._recall_scores(known, state, pod, nodes)
            if ranking is not None:
                self._calls.point("Score", ranking.status, began)
                return ranking
        return self._scoring.score(state, pod, nodes)

    # Filter

    def _recall_filters(self, question: FilterQuestion, known: EquivalenceClass) -> FilterOutcome | None:
        """Return the feasible nodes; None where the plain extension point has to search."""
        if known.pre_filter is None or self._filtering.one_node:
            return None
        skipped = question.context.skip_filter
        has_uncached = any(method.plugin not in skipped for _, method in self._uncached)
        rejections: NominatedRejections | None = None
        if self._snapshot.nominated_nodes:
            if has_uncached or self._pre_filtering.follows(question.state):
                return None
            rejections = self._rejections_with_nominated(question, known)
            if rejections is None:
                return None
        filters = known.filters
        if filters is None:
            methods = [each for each in self._filtering.columnar if is_cacheable(each[1])]
            methods = [each for each in methods if each[1].plugin not in skipped]
            filters = known.filters = FilterCache(self._calls, methods)
        growth = filters.growth
        if not filters.sync(question.state, question.pod, self._snapshot.nodes, sampled=question.context.sampled):
            known.lose()
        if known.is_lost or filters.growth != growth:
            self.classes.settle(known)
        if known.is_lost:
            return None
        return self._join(question, filters) if has_uncached else self._recall(question, filters, rejections)

    def _rejections_with_nominated(
        self, question: FilterQuestion, known: EquivalenceClass
    ) -> NominatedRejections | None:
        """Return what nodes answer with their nominated pods on them; None where a filter failed."""
        cache = known.nominated
        if cache is None:
            skipped = question.context.skip_filter
            methods = [method for _, method in self._filtering.columnar if method.plugin not in skipped]
            cache = known.nominated = NominatedFilterCache(methods)
        size = cache.size
        answer = cache.answer(
            question.pod.uid,
            self._snapshot.nodes,
            self._snapshot.nominated_before(question.pod.priority),
            partial(self._filtering.filter_with_nominated, question),
        )
        if cache.size != size:
            self.classes.settle(known)
        return answer if isinstance(answer, NominatedRejections) else None

    def _recall(
        self, question: FilterQuestion, filters: FilterCache, rejections: NominatedRejections | None
    ) -> FilterOutcome:
        """Return the outcome where all answers are cached."""
        total = left = len(question.nodes)
        for position, method in filters.methods:
            method.evaluations += left
            left -= filters.rejections.get(position, 0)
            if not left:
                break
        rows = filters.rows() if left else _NO_ROWS
        if rejections is not None:
            free = rejections.reason_ids[rows] == 0
            rows = rows if free.all() else rows[free]
            rejections.count([method for _, method in filters.methods], filters.rows() if len(rows) else None)
        if len(rows):
            question.context.feasible = rows
            return FilterOutcome(rows, None, total)
        statuses = filters.statuses(self._snapshot.nodes)
        if rejections is not None:
            # The status of a node with its nominated pods on it comes before the status without them.
            statuses.fail_before(rejections.reason_ids, rejections.table)
        return FilterOutcome.infeasible(statuses)

    def _join(self, question: FilterQuestion, filters: FilterCache) -> FilterOutcome:
        """Join cached answers with those of filters that are called for every pod."""
        total = left = len(question.nodes)
        alive: NDArray[np.bool_] | None = None
        found: dict[int, NodeStatuses | None] = {}
        for position, method in self._filtering.columnar:
            if method.plugin in question.context.skip_filter:
                continue
            method.evaluations += left
            if is_cacheable(method):
                rejected = filters.rejections.get(position)
                if not rejected:
                    continue
                found[position] = None
                if alive is None and rejected == left:
                    return FilterOutcome.infeasible(self._attribute(filters, found))
                passed = ~filters.rejected_by(position)
            else:
                answer = self._filtering.ask(method, question, alive)
                if isinstance(answer, Status):
                    return FilterOutcome.failed(answer)
                if answer is None:
                    continue
                found[position] = answer
                passed = answer.passed()
            alive = passed if alive is None else np.logical_and(alive, passed, out=passed)
            left = int(np.count_nonzero(alive))
            if not left:
                return FilterOutcome.infeasible(self._attribute(filters, found))
        # All that is left passed all cached filters: as many rows are the same rows.
        rows = filters.rows() if alive is None or left == filters.passed else np.flatnonzero(alive)
        question.context.feasible = rows
        return FilterOutcome(rows, None, total)

    def _attribute(self, filters: FilterCache, found: Mapping[int, NodeStatuses | None]) -> NodeStatuses:
        """Give every node the status of its first failing plugin; None in `found` stands for a cached answer."""
        if all(answer is None for answer in found.values()):
            return filters.statuses(self._snapshot.nodes)
        statuses = blank_statuses(self._snapshot.nodes)
        for position, method in self._filtering.columnar:
            if position in found:
                answer = found[position]
                merge_statuses(statuses, filters.statuses_by(position) if answer is None else answer, method.plugin)
        return statuses

    # Score

    def _recall_scores(self, known: EquivalenceClass, state: CycleState, pod: Pod, nodes: Nodes) -> Ranking | None:
        """Add cached scores and those of plugins that are called for every pod; None where nothing is cached."""
        context = context_of(state)
        rows, view = context.feasible, self._snapshot.nodes
        if rows is None or known.pre_score is None or (nodes is not view and nodes.rows is not rows):
            return None
        skipped = context.skip_score
        scores = known.scores
        if scores is None:
            entries = [entry for entry, cacheable in self._entries if cacheable and entry.method.plugin not in skipped]
            scores = known.scores = ScoreCache(self._calls, entries)
        growth = scores.growth
        ranking = scores.recall(state, pod, view, rows, sampled=context.sampled)
        if ranking is None:
            known.lose()
        if known.is_lost or scores.growth != growth:
            self.classes.settle(known)
        if ranking is None:
            return None
        outcome: ScoreOutcome | None = None
        for entry, cacheable in self._entries:
            if cacheable:
                entry.method.evaluations += 0 if entry.method.plugin in skipped else len(rows)
                continue
            if entry.method.plugin in skipped:
                continue
            if outcome is None:
                outcome = ScoreOutcome(ranking.totals, {})
            self._scoring.add_scores(outcome, (entry,), state, pod, nodes)
            if outcome.status is not None:
                break
        return outcome or ranking
