"""The equivalence cache of one profile: answers of Filter and Score plugins, kept for equal pods.

Pods are equal if `equivalence_key` returns the same key for them. The decisions are the same without the cache.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from pyscheduler.framework.status import Status
from pyscheduler.runtime.equivalence_cache.classes import EquivalenceClass, EquivalenceClasses
from pyscheduler.runtime.equivalence_cache.filter_cache import FilterCache, is_cacheable
from pyscheduler.runtime.equivalence_cache.nominated_filter_cache import NominatedFilterCache, NominatedRejections
from pyscheduler.runtime.equivalence_cache.score_cache import ScoreCache, is_cacheable_score
from pyscheduler.runtime.extension_points.attribution import blank_statuses, merge_statuses
from pyscheduler.runtime.extension_points.filtering import FilterOutcome
from pyscheduler.runtime.extension_points.run_context import CycleInput, context_of
from pyscheduler.runtime.extension_points.scoring import ScoreOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from pyscheduler.api import Pod
    from pyscheduler.cache.snapshot import Snapshot
    from pyscheduler.framework.cycle_state import CycleState
    from pyscheduler.framework.node_statuses import NodeStatuses
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.runtime.assembly.bound_plugins import BoundPlugins
    from pyscheduler.runtime.equivalence_cache.row_cache import CallPlugin
    from pyscheduler.runtime.extension_points.pre_filtering import PreFilterOutcome
    from pyscheduler.runtime.extension_points.scoring import Ranking

__all__ = ["EquivalenceCache"]

_NO_ROWS: Final[NDArray[np.int64]] = np.empty(0, dtype=np.int64)


class EquivalenceCache:
    """Filter and Score, with answers that are reused for pods of one equivalence class."""

    def __init__(self, *, snapshot: Snapshot, key_of: Callable[[Pod], bytes | None], plain: BoundPlugins) -> None:
        self._snapshot = snapshot
        self._key_of = key_of
        self._pre_filtering = plain.pre_filtering
        self._filtering = plain.filtering
        self._scoring = plain.scoring
        self._calls = plain.filtering.calls
        self._uncached = frozenset(method.plugin for _, method in plain.filtering.columnar if not is_cacheable(method))
        self._entries = [(entry, is_cacheable_score(entry)) for entry in plain.scoring.entries]
        self.classes = EquivalenceClasses()

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes, *, sampled: bool) -> PreFilterOutcome:
        """Begin the cycle of `pod`, and find its class."""
        key = self._key_of(pod)
        outcome = self._pre_filtering.pre_filter(state, pod, nodes, sampled=sampled)
        if key is not None:
            context_of(state).equivalence_class = self.classes.of(key)
        return outcome

    def find_feasible(
        self, state: CycleState, pod: Pod, nodes: Nodes, *, limit: int | None = None, start: int = 0
    ) -> FilterOutcome:
        """Search `nodes`; a search of all nodes of the snapshot is answered from the cache where that is possible."""
        context = context_of(state)
        known = context.equivalence_class
        if known is not None and nodes is self._snapshot.nodes and (limit is None or limit >= len(nodes)):
            began = self._calls.clock.now()
            outcome = self._recall_filters(CycleInput(context, state, pod, nodes), known)
            if outcome is not None:
                self._calls.point("Filter", outcome.status, began)
                return outcome
        return self._filtering.find_feasible(state, pod, nodes, limit=limit, start=start)

    def rank(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ranking:
        """Score `nodes` for a caller that needs the totals only; cached scores are not computed again."""
        context = context_of(state)
        if context.equivalence_class is not None:
            began = self._calls.clock.now()
            ranking = self._recall_scores(CycleInput(context, state, pod, nodes), context.equivalence_class)
            if ranking is not None:
                self._calls.point("Score", ranking.status, began)
                return ranking
        return self._scoring.score(state, pod, nodes)

    def _caller(self, cycle: CycleInput) -> CallPlugin:
        """Return a function that calls a plugin for a pod with nodes, or with scores."""
        run, state, pod, sampled = self._calls.run, cycle.state, cycle.pod, cycle.context.sampled
        return lambda method, argument: run(method, pod, state, pod, argument, sampled=sampled)

    # Filter

    def _recall_filters(self, cycle: CycleInput, known: EquivalenceClass) -> FilterOutcome | None:
        """Return the feasible nodes; None where the plain extension point has to search."""
        skipped = cycle.context.skip_filter
        has_uncached = not self._uncached <= skipped
        rejections: NominatedRejections | None = None
        if self._snapshot.nominated_nodes:
            if has_uncached or self._pre_filtering.counts_across_nodes(cycle.state):
                return None
            rejections = self._rejections_with_nominated(cycle, known)
            if rejections is None:
                return None
        filters = known.filters
        if filters is None:
            methods = [each for each in self._filtering.columnar if is_cacheable(each[1])]
            methods = [each for each in methods if each[1].plugin not in skipped]
            filters = known.filters = FilterCache(methods)
        growth = filters.growth
        if not filters.sync(self._caller(cycle), self._snapshot.nodes):
            known.lose()
        if known.is_lost or filters.growth != growth:
            self.classes.settle(known)
        if known.is_lost:
            return None
        return self._join(cycle, filters) if has_uncached else self._recall(cycle, filters, rejections)

    def _rejections_with_nominated(self, cycle: CycleInput, known: EquivalenceClass) -> NominatedRejections | None:
        """Return what nodes answer with their nominated pods on them; None where a filter failed."""
        cache = known.nominated
        if cache is None:
            skipped = cycle.context.skip_filter
            methods = [method for _, method in self._filtering.columnar if method.plugin not in skipped]
            cache = known.nominated = NominatedFilterCache(methods)
        size = cache.size
        answer = cache.answer(
            cycle.pod.uid,
            self._snapshot.nodes,
            self._snapshot.nominated_before(cycle.pod.priority),
            partial(self._filtering.filter_with_nominated, cycle),
        )
        if cache.size != size:
            self.classes.settle(known)
        return answer if isinstance(answer, NominatedRejections) else None

    def _recall(self, cycle: CycleInput, filters: FilterCache, rejections: NominatedRejections | None) -> FilterOutcome:
        """Return the outcome where all answers are cached."""
        total = left = len(cycle.nodes)
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
            cycle.context.feasible = rows
            return FilterOutcome(rows, None, total)
        statuses = filters.statuses(self._snapshot.nodes)
        if rejections is not None:
            # The status of a node with its nominated pods on it comes before the status without them.
            statuses.fail_before(rejections.reason_ids, rejections.table)
        return FilterOutcome.infeasible(statuses)

    def _join(self, cycle: CycleInput, filters: FilterCache) -> FilterOutcome:
        """Join cached answers with those of filters that are called for every pod."""
        total = left = len(cycle.nodes)
        alive: NDArray[np.bool_] | None = None
        found: dict[int, NodeStatuses | None] = {}
        for position, method in self._filtering.columnar:
            if method.plugin in cycle.context.skip_filter:
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
                answer = self._filtering.ask(position, method, cycle, alive)
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
        cycle.context.feasible = rows
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

    def _recall_scores(self, cycle: CycleInput, known: EquivalenceClass) -> Ranking | None:
        """Add cached scores and those of plugins that are called for every pod; None where nothing is cached."""
        rows, view, nodes = cycle.context.feasible, self._snapshot.nodes, cycle.nodes
        if rows is None:
            return None
        if len(nodes) != len(rows) or (nodes is not view and nodes.rows is not rows):
            return None
        skipped = cycle.context.skip_score
        scores = known.scores
        if scores is None:
            entries = [entry for entry, cacheable in self._entries if cacheable and entry.method.plugin not in skipped]
            scores = known.scores = ScoreCache(entries)
        growth = scores.growth
        if not scores.recall(self._caller(cycle), view, rows):
            known.lose()
        if known.is_lost or scores.growth != growth:
            self.classes.settle(known)
        if known.is_lost:
            return None
        outcome: ScoreOutcome | None = None
        for entry, cacheable in self._entries:
            if entry.method.plugin in skipped:
                continue
            if cacheable:
                entry.method.evaluations += len(rows)
                continue
            if outcome is None:
                outcome = ScoreOutcome(scores.totals, {})
            self._scoring.add_scores(outcome, (entry,), cycle)
            if outcome.status is not None:
                break
        return outcome or scores
