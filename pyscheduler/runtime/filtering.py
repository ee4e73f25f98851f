"""Filter: which nodes can take the pod, and for those that cannot, which plugin said so first.

Columnar plugins come first, each asked once about all nodes. One-node plugins are then asked about the nodes still
alive, one after the other from `start` on, until `limit` were found. That is enough to place a pod. Only when no node
is left (or a plugin asks, through `run_filters`) is every node's first failing plugin in profile order worked out,
which may mean asking a one-node plugin about nodes that a later columnar one has refused already.

Nodes with nominated pods of the same or a higher priority must be able to take the pod both with and without them;
only those nodes are looked at twice. Source: kube-scheduler 1.36, `findNodesThatPassFilters`, `RunFilterPlugins` and
`RunFilterPluginsWithNominatedPods`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs
import numpy as np

from pyscheduler.cache.nominated_rows import before
from pyscheduler.cache.snapshot import Snapshot as CacheSnapshot
from pyscheduler.cache.view import NodeView
from pyscheduler.framework.node_statuses import NodeStatuses
from pyscheduler.framework.reuse import Reuse
from pyscheduler.framework.status import Status
from pyscheduler.runtime.attribution import all_failing, blank_statuses, fail_rows, first_error, merge_statuses
from pyscheduler.runtime.equivalence_cache.filter_cache import FilterCache, is_kept
from pyscheduler.runtime.equivalence_cache.nominated_filter_cache import NominatedFilterCache, NominatedRefusals
from pyscheduler.runtime.run_context import context_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import Pod
    from pyscheduler.cache.nominated_rows import NominatedRows
    from pyscheduler.framework.cycle_state import CycleState
    from pyscheduler.framework.node_info import NodeInfo
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.framework.snapshot import Snapshot
    from pyscheduler.runtime.equivalence_cache.classes import EquivalenceClass
    from pyscheduler.runtime.plugin_calls import PluginCalls, PluginMethod
    from pyscheduler.runtime.pre_filtering import PreFiltering
    from pyscheduler.runtime.run_context import RunContext

__all__ = ["FilterEntry", "FilterOutcome", "Filtering"]

_POINT: Final = "Filter"
_NO_ROWS: Final[NDArray[np.int64]] = np.empty(0, dtype=np.int64)

#: Row -> what the one-node filters said: the position of the first that refused, and its status; None: all passed.
_Walked: TypeAlias = "dict[int, tuple[int, Status] | None]"


@attrs.define
class FilterOutcome:
    """What the search for feasible nodes came to.

    `rows`: int64[k], ascending rows of the view that was searched. `processed`: how many of its rows the search went
    over, from `start` up to the first that still had to be looked at. `statuses`, complete, only when `rows` is empty.
    `status`: an error that ended the search, else None.
    """

    rows: NDArray[np.int64]
    statuses: NodeStatuses | None
    processed: int
    status: Status | None = None


@attrs.frozen
class FilterEntry:
    """A Filter plugin: its `filter_nodes` where it has one, else its `filter`."""

    method: PluginMethod
    columnar: bool


@attrs.define
class _Question:
    """What is asked: which of `nodes` can take `pod`."""

    context: RunContext
    state: CycleState
    pod: Pod
    nodes: Nodes
    #: By row, the nominated pods that come before the pod, once somebody has looked.
    nominated: Mapping[int, Sequence[PodInfo]] | None = None


@attrs.define
class _Sweep:
    """The answers of the columnar filters, by position in the profile; `alive` None means every row."""

    found: dict[int, NodeStatuses]
    alive: NDArray[np.bool_] | None

    def is_alive(self, row: int) -> bool:
        return self.alive is None or bool(self.alive[row])

    def kill(self, row: int, total: int) -> None:
        if self.alive is None:
            self.alive = np.ones(total, dtype=np.bool_)
        self.alive[row] = False


class Filtering:
    """The Filter plugins of a profile, in its order."""

    __slots__ = ("_calls", "_columnar", "_entries", "_memories", "_pre_filtering", "_scalar", "_snapshot")

    def __init__(
        self, *, calls: PluginCalls, snapshot: Snapshot, pre_filtering: PreFiltering, entries: Sequence[FilterEntry]
    ) -> None:
        self._memories = pre_filtering.memories
        self._calls = calls
        self._snapshot = snapshot
        self._pre_filtering = pre_filtering
        self._entries = tuple(entries)
        numbered = [(position, entry.method, entry.columnar) for position, entry in enumerate(entries)]
        self._columnar = tuple((position, method) for position, method, columnar in numbered if columnar)
        self._scalar = tuple((position, method) for position, method, columnar in numbered if not columnar)

    @property
    def methods(self) -> Sequence[PluginMethod]:
        """Return the method of every plugin, in profile order."""
        return [entry.method for entry in self._entries]

    def active(self, state: CycleState) -> Sequence[PluginMethod]:
        """Return the method of every plugin that takes part in this cycle, in profile order."""
        skipped = context_of(state).skip_filter
        return [entry.method for entry in self._entries if entry.method.plugin not in skipped]

    def others_may_help(self, statuses: NodeStatuses) -> bool:
        """Tell whether a node may take a pod that it refused alone, once other pods are placed, there or elsewhere.

        It may where a filter refused that goes by more than the node and what is on it.
        """
        by_node = {method.plugin for method in self.methods if method.reuse is not Reuse.NEVER}
        return any(status.plugin not in by_node for status, _ in statuses.counts())

    def find_feasible(
        self, state: CycleState, pod: Pod, nodes: Nodes, *, limit: int | None, start: int
    ) -> FilterOutcome:
        """Search `nodes` from row `start` on, round the end, until `limit` feasible ones were found."""
        began = self._calls.clock.now()
        total = len(nodes)
        question = _Question(context_of(state), state, pod, nodes)
        limit = total if limit is None else min(limit, total)
        recalled = self._recall(question) if question.context.memory is not None and limit == total else None
        outcome = recalled if recalled is not None else self._find(question, limit, start)
        self._calls.point(_POINT, outcome.status, began)
        return outcome

    def run_filters(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses:
        """Return the complete statuses of `nodes`; where a plugin fails, its ERROR stands for every node."""
        question = _Question(context_of(state), state, pod, nodes)
        sweep = self._sweep(question)
        if isinstance(sweep, Status):
            return all_failing(nodes, sweep)
        crowded = self._crowded(question, self._nominated(question))
        if isinstance(crowded, Status):
            return all_failing(nodes, crowded)
        statuses = self._attribute(question, sweep.found, crowded, {})
        return all_failing(nodes, statuses) if isinstance(statuses, Status) else statuses

    def _recall(self, question: _Question) -> FilterOutcome | None:
        """Search by what is kept for pods like this one; None where it has to be done from the beginning."""
        context = question.context
        memory = context.memory
        nodes = question.nodes
        if memory is None or memory.pre_filter is None or self._scalar or not isinstance(nodes, NodeView):
            return None
        crowds: NominatedRefusals | None = None
        if self._snapshot.nominated_nodes:
            crowds = self._recall_crowds(question, memory, nodes)
            if crowds is None:
                return None
        kept = memory.filters
        if kept is None:
            methods = [
                each for each in self._columnar if is_kept(each[1]) and each[1].plugin not in context.skip_filter
            ]
            kept = memory.filters = FilterCache(self._calls, methods)
        before = kept.growth
        if not kept.sync(question.state, question.pod, nodes, sampled=context.sampled):
            memory.lose()
        if self._memories is not None and (memory.is_lost or kept.growth != before):
            self._memories.settle(memory)
        if memory.is_lost:
            return None
        return self._join(question, nodes, kept) if crowds is None else self._join_crowded(question, kept, crowds)

    def _recall_crowds(
        self, question: _Question, memory: EquivalenceClass, nodes: NodeView
    ) -> NominatedRefusals | None:
        """Return what nodes say with their nominated pods on them; None where that cannot be kept, or some fail."""
        nominated = self._nominated_rows(question)
        if nominated is None or self._pre_filtering.follows(question.state):
            return None
        kept = memory.crowds
        if kept is None:
            skipped = question.context.skip_filter
            kept = memory.crowds = NominatedFilterCache(
                [each for _, each in self._columnar if each.plugin not in skipped]
            )
        if not kept.is_possible:
            return None
        before = kept.size
        answer = kept.answer(question.pod.uid, nodes, nominated, partial(self._with_nominated, question))
        if kept.size != before and self._memories is not None:
            self._memories.settle(memory)
        return answer if isinstance(answer, NominatedRefusals) else None

    def _join_crowded(self, question: _Question, kept: FilterCache, crowds: NominatedRefusals) -> FilterOutcome:
        """Join what is kept of nodes as they are with what is kept of them with their nominated pods on them."""
        left = total = len(crowds.reason_ids)
        active = [each for each in self._columnar if each[1].plugin not in question.context.skip_filter]
        for position, method in active:
            if not left:
                break
            method.evaluations += left
            left -= kept.refusals.get(position, 0)
        rows = kept.rows()
        free = crowds.reason_ids[rows] == 0
        found = bool(free.any())
        crowds.count([method for _, method in active], rows if found else None)
        if found:
            rows = rows if free.all() else rows[free]
            question.context.feasible = rows
            return FilterOutcome(rows, None, total)
        # What a node says with its nominated pods on it comes before what it says without them.
        statuses = kept.statuses()
        statuses.fail_before(crowds.reason_ids, crowds.table)
        statuses.bind_names(question.nodes.name, question.nodes.index)
        return FilterOutcome(_NO_ROWS, statuses, total)

    def _join(self, question: _Question, nodes: NodeView, kept: FilterCache) -> FilterOutcome:
        """Join what is kept with the answers of those who are asked anew."""
        total = left = len(nodes)
        alive: NDArray[np.bool_] | None = None
        found: dict[int, NodeStatuses | None] = {}
        for position, method in self._columnar:
            if method.plugin in question.context.skip_filter:
                continue
            method.evaluations += left
            if is_kept(method):
                refused = kept.refusals.get(position)
                if not refused:
                    continue
                found[position] = None
                if alive is None and refused == left:
                    left = 0
                    break
                passed = ~kept.refused_at(position)
            else:
                answer = self._answer(method, question, alive)
                if isinstance(answer, Status):
                    return _failed(answer)
                if answer is None:
                    continue
                found[position] = answer
                passed = answer.passed()
            alive = passed if alive is None else np.logical_and(alive, passed, out=passed)
            left = int(np.count_nonzero(alive))
            if not left:
                break
        if left:
            # What is left passed all filters that are kept: as many rows are the same rows.
            rows = kept.rows() if alive is None or left == kept.passed else np.flatnonzero(alive)
            question.context.feasible = rows
            return FilterOutcome(rows, None, total)
        return FilterOutcome(_NO_ROWS, self._explain(nodes, kept, found), total)

    def _explain(self, nodes: NodeView, kept: FilterCache, found: Mapping[int, NodeStatuses | None]) -> NodeStatuses:
        """Return why each node is refused: by filters that were asked, or where that is None by what is kept."""
        if all(answer is None for answer in found.values()):
            # The order of the profile is kept, too.
            statuses = kept.statuses()
            statuses.bind_names(nodes.name, nodes.index)
            return statuses
        statuses = blank_statuses(nodes)
        for position, method in self._columnar:
            if position in found:
                answer = found[position]
                merge_statuses(statuses, kept.statuses(position) if answer is None else answer, method.plugin)
        return statuses

    def _find(self, question: _Question, limit: int, start: int) -> FilterOutcome:
        sweep = self._sweep(question)
        if isinstance(sweep, Status):
            return _failed(sweep)
        total = len(question.nodes)
        nominated = self._nominated(question)
        crowded: dict[int, Status] = {}
        if nominated:
            # Nodes refused already need not be looked at with their nominated pods, unless all are refused.
            answers = self._crowded(question, {row: pods for row, pods in nominated.items() if sweep.is_alive(row)})
            if isinstance(answers, Status):
                return _failed(answers)
            crowded = answers
            for row in crowded:
                sweep.kill(row, total)
        candidates = _walk_order(sweep.alive, start, total)
        walked: _Walked = {}
        scalars = self._active_scalars(question.context)
        if scalars and len(candidates):
            went = self._walk(question, scalars, candidates.tolist(), limit, walked)
            if isinstance(went, Status):
                return _failed(went, len(walked))
            rows = np.array(sorted(row for row, said in walked.items() if said is None), dtype=np.int64)
        else:
            went = min(limit, len(candidates))
            rows = candidates if went == len(candidates) and not start else np.sort(candidates[:went])
        if len(rows):
            processed = total if went == len(candidates) else (int(candidates[went]) - start) % total
            return FilterOutcome(rows, None, processed)
        # What a node says with its nominated pods on it comes before what it says without them.
        rest = self._crowded(
            question, {row: pods for row, pods in nominated.items() if row not in crowded and row not in walked}
        )
        if isinstance(rest, Status):
            return _failed(rest, total)
        statuses = self._attribute(question, sweep.found, crowded | rest, walked)
        if isinstance(statuses, Status):
            return _failed(statuses, total)
        return FilterOutcome(_NO_ROWS, statuses, total)

    # Columnar filters

    def _sweep(self, question: _Question) -> _Sweep | Status:
        """Ask the columnar filters; stop as soon as no node is left. Returns an ERROR where one failed."""
        nodes = question.nodes
        skipped = question.context.skip_filter
        found: dict[int, NodeStatuses] = {}
        alive: NDArray[np.bool_] | None = None
        for position, method in self._columnar:
            if method.plugin in skipped:
                continue
            # Only the nodes that nobody has refused yet count as judged.
            method.evaluations += len(nodes) if alive is None else int(np.count_nonzero(alive))
            answer = self._answer(method, question, alive)
            if answer is None:
                continue
            if isinstance(answer, Status):
                return answer
            found[position] = answer
            passed = answer.passed()
            alive = passed if alive is None else np.logical_and(alive, passed, out=passed)
            if not alive.any():
                break
        return _Sweep(found, alive)

    def _answer(
        self, method: PluginMethod, question: _Question, alive: NDArray[np.bool_] | None
    ) -> NodeStatuses | Status | None:
        """Ask a columnar filter; an ERROR where it failed, or does so about a node in `alive` (None: any)."""
        calls, pod, nodes = self._calls, question.pod, question.nodes
        answer = calls.run(method, pod, question.state, pod, nodes, sampled=question.context.sampled)
        if answer is None:
            return None
        if not isinstance(answer, NodeStatuses):
            if isinstance(answer, Status) and answer.is_error:
                return calls.wrapped(method, answer)
            return calls.wrong_type(method, pod, answer, "NodeStatuses or None")
        if len(answer) != len(nodes):
            expected = f"one status for each of {len(nodes)} nodes, not {len(answer)}"
            return calls.wrong_type(method, pod, answer, expected)
        error = first_error(answer, alive)
        return calls.wrapped(method, error) if error is not None else answer

    # One-node filters

    def _active_scalars(self, context: RunContext) -> Sequence[tuple[int, PluginMethod]]:
        if not self._scalar or not context.skip_filter:
            return self._scalar
        return [each for each in self._scalar if each[1].plugin not in context.skip_filter]

    def _walk(
        self,
        question: _Question,
        scalars: Sequence[tuple[int, PluginMethod]],
        candidates: Sequence[int],
        limit: int,
        walked: _Walked,
    ) -> int | Status:
        """Ask the one-node filters about node after node, noting it in `walked`; return how many were asked about.

        Ends at `limit` feasible nodes, or with the ERROR of a plugin.
        """
        seconds = {method.plugin: 0.0 for _, method in scalars} if question.context.sampled else None
        feasible = 0
        for row in candidates:
            if feasible == limit:
                break
            node = question.nodes[row]
            walked[row] = None
            for position, method in scalars:
                status = self._ask(method, question, node, seconds)
                if status is not None:
                    if not status.is_rejected:
                        return status
                    walked[row] = (position, status)
                    break
            else:
                feasible += 1
        if seconds is not None:
            for _, method in scalars:
                self._calls.took(method, None, seconds[method.plugin])
        return len(walked)

    def _ask(
        self, method: PluginMethod, question: _Question, node: NodeInfo, seconds: dict[str, float] | None = None
    ) -> Status | None:
        """Ask a one-node filter about one node; None: it passes. `seconds` sums up the time, by plugin."""
        calls = self._calls
        began = calls.clock.now() if seconds is not None else 0.0
        method.evaluations += 1
        answer = calls.run(method, question.pod, question.state, question.pod, node)
        if seconds is not None:
            seconds[method.plugin] += calls.clock.now() - began
        status = calls.status_of(method, question.pod, answer)
        if status is None:
            return None
        return status.with_plugin(method.plugin) if status.is_rejected else calls.wrapped(method, status)

    # Who was first

    def _attribute(
        self,
        question: _Question,
        found: Mapping[int, NodeStatuses],
        crowded: Mapping[int, Status],
        walked: _Walked,
    ) -> NodeStatuses | Status:
        """Give every node that fails the status of its first failing plugin in profile order."""
        nodes = question.nodes
        statuses = blank_statuses(nodes)
        fail_rows(statuses, crowded)
        for position, entry in enumerate(self._entries):
            method = entry.method
            if entry.columnar:
                if position in found:
                    merge_statuses(statuses, found[position], method.plugin)
                continue
            if method.plugin in question.context.skip_filter:
                continue
            for row in np.flatnonzero(statuses.passed()).tolist():
                if row in walked:
                    said = walked[row]
                    refusal = said[1] if said is not None and said[0] == position else None
                else:
                    refusal = self._ask(method, question, nodes[row])
                if refusal is None:
                    continue
                if not refusal.is_rejected:
                    return refusal
                statuses.fail_row(row, refusal)
        return statuses

    # Nominated pods

    def _nominated(self, question: _Question) -> Mapping[int, Sequence[PodInfo]]:
        """Return the rows on which nominated pods come before the pod in question, and those pods."""
        if question.nominated is None:
            question.nominated = self._find_nominated(question)
        return question.nominated

    def _nominated_rows(self, question: _Question) -> NominatedRows | None:
        """Return what is kept of who is nominated where; None where statements have a say in it."""
        snapshot = self._snapshot
        return snapshot.nominated_before(question.pod.priority) if isinstance(snapshot, CacheSnapshot) else None

    def _find_nominated(self, question: _Question) -> Mapping[int, Sequence[PodInfo]]:
        names = self._snapshot.nominated_nodes
        if not names:
            return {}
        pod, nodes = question.pod, question.nodes
        kept = self._nominated_rows(question) if isinstance(nodes, NodeView) else None
        if kept is not None:
            return kept.others_than(pod.uid)
        if len(nodes) < len(names):
            rows = {name: row for row in range(len(nodes)) if (name := nodes.name(row)) in names}
        else:
            rows = {name: row for name in names if (row := nodes.index(name)) is not None}
        return {row: ahead for name, row in rows.items() if (ahead := before(self._snapshot.nominated_pods(name), pod))}

    def _crowded(self, question: _Question, nominated: Mapping[int, Sequence[PodInfo]]) -> dict[int, Status] | Status:
        """Return by row why nodes cannot take the pod once their nominated pods are on them; an ERROR ends it.

        Where a plugin that is active keeps an account of pods across nodes, each node is looked at alone: the promises
        of one are nothing to another.
        """
        if not nominated:
            return {}
        if not self._pre_filtering.follows(question.state):
            return self._with_nominated(question, nominated)
        crowded: dict[int, Status] = {}
        for row, infos in nominated.items():
            answer = self._with_nominated(question, {row: infos})
            if isinstance(answer, Status):
                return answer
            crowded |= answer
        return crowded

    def _with_nominated(
        self, question: _Question, nominated: Mapping[int, Sequence[PodInfo]]
    ) -> dict[int, Status] | Status:
        snapshot = self._snapshot
        pod = question.pod
        with snapshot.what_if():
            state = question.state.clone()
            for row, infos in nominated.items():
                name = question.nodes.name(row)
                for info in infos:
                    snapshot.place(info, name)
                    node = snapshot.get(name)
                    assert node is not None, f"node {name} vanished within a statement"
                    status = self._pre_filtering.add_pod(state, pod, info, node)
                    if status is not None:
                        return status
            rows = [snapshot.nodes.index(question.nodes.name(row)) for row in nominated]
            view = snapshot.nodes.take(np.array(rows, dtype=np.int64))
            crowd = _Question(question.context, state, pod, view)
            sweep = self._sweep(crowd)
            if isinstance(sweep, Status):
                return sweep
            statuses = self._attribute(crowd, sweep.found, {}, {})
            if isinstance(statuses, Status):
                return statuses
            answers = {row: statuses.status(position) for position, row in enumerate(nominated)}
            return {row: status for row, status in answers.items() if status is not None}


def _failed(status: Status, processed: int = 0) -> FilterOutcome:
    return FilterOutcome(_NO_ROWS, None, processed, status)


def _walk_order(alive: NDArray[np.bool_] | None, start: int, total: int) -> NDArray[np.int64]:
    """Return the rows still alive, from `start` on and round the end."""
    rows: NDArray[np.int64] = np.arange(total, dtype=np.int64) if alive is None else np.flatnonzero(alive)
    if not start:
        return rows
    split = int(np.searchsorted(rows, start))
    return np.concatenate((rows[split:], rows[:split]))
