"""Filter: find the nodes that can take the pod. If none can, find for each node the first plugin that rejects it.

Columnar plugins, which answer for all nodes in one call, run first. One-node plugins then run on the nodes that are
left, until enough nodes are feasible.

If a node has nominated pods of the same or a higher priority, the pod must fit both with and without them.
Source: kube-scheduler 1.36, `findNodesThatPassFilters`, `RunFilterPlugins` and `RunFilterPluginsWithNominatedPods`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import attrs
import numpy as np

from pyscheduler.cache.nominated_rows import before
from pyscheduler.framework.node_statuses import NodeStatuses
from pyscheduler.framework.reuse import Reuse
from pyscheduler.framework.status import Code, Status
from pyscheduler.runtime.extension_points.arrays import statuses_problem
from pyscheduler.runtime.extension_points.attribution import (
    all_failing,
    blank_statuses,
    fail_rows,
    first_error,
    merge_statuses,
)
from pyscheduler.runtime.extension_points.run_context import CycleInput, context_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import Pod
    from pyscheduler.cache.snapshot import Snapshot
    from pyscheduler.framework.cycle_state import CycleState
    from pyscheduler.framework.node_info import NodeInfo
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.runtime.extension_points.plugin_calls import PluginCalls, PluginMethod
    from pyscheduler.runtime.extension_points.pre_filtering import PreFiltering
    from pyscheduler.runtime.extension_points.run_context import RunContext

__all__ = ["FilterEntry", "FilterOutcome", "Filtering"]

_POINT: Final = "Filter"
_NO_ROWS: Final[NDArray[np.int64]] = np.empty(0, dtype=np.int64)

#: Row -> what the one-node filters said: the position of the first that refused, and its status; None: all passed.
_Walked: TypeAlias = "dict[int, tuple[int, Status] | None]"


@attrs.define
class FilterOutcome:
    """The result of the search for feasible nodes.

    `rows`: int64[k], ascending rows of the view that was searched. `processed`: how many of its rows the search went
    over, from `start` up to the first that still had to be looked at. `statuses`, complete, only when `rows` is empty.
    `status`: an error that ended the search, else None.
    """

    rows: NDArray[np.int64]
    statuses: NodeStatuses | None
    processed: int
    status: Status | None = None

    @classmethod
    def failed(cls, status: Status, processed: int = 0) -> FilterOutcome:
        """Return the outcome of a search that an error ended."""
        return cls(_NO_ROWS, None, processed, status)

    @classmethod
    def infeasible(cls, statuses: NodeStatuses) -> FilterOutcome:
        """Return the outcome of a search that found no node."""
        return cls(_NO_ROWS, statuses, len(statuses))


@attrs.frozen
class FilterEntry:
    """A Filter plugin: its `filter_nodes` where it has one, else its `filter`."""

    method: PluginMethod
    columnar: bool


@attrs.define
class _Sweep:
    """The answers of the columnar filters, by position; `alive`: bool[n], the rows left, None for all."""

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

    __slots__ = ("_entries", "_pre_filtering", "_snapshot", "calls", "columnar", "one_node")

    def __init__(
        self, *, calls: PluginCalls, snapshot: Snapshot, pre_filtering: PreFiltering, entries: Sequence[FilterEntry]
    ) -> None:
        self.calls = calls
        self._snapshot = snapshot
        self._pre_filtering = pre_filtering
        self._entries = tuple(entries)
        numbered = [(position, entry.method, entry.columnar) for position, entry in enumerate(entries)]
        #: The methods that take all nodes, and those that take one node, each with its position in the profile.
        self.columnar = tuple((position, method) for position, method, columnar in numbered if columnar)
        self.one_node = tuple((position, method) for position, method, columnar in numbered if not columnar)

    @property
    def methods(self) -> Sequence[PluginMethod]:
        """Return the method of every plugin, in profile order."""
        return [entry.method for entry in self._entries]

    def active(self, state: CycleState) -> Sequence[PluginMethod]:
        """Return the method of every plugin that takes part in this cycle, in profile order."""
        skipped = context_of(state).skip_filter
        return [entry.method for entry in self._entries if entry.method.plugin not in skipped]

    def others_may_help(self, statuses: NodeStatuses) -> bool:
        """Return True if a node that rejects a pod now may accept it once other pods are placed, there or elsewhere.

        That is so where a filter rejects the pod whose answers depend on more than the node and its pods.
        """
        by_node = {method.plugin for method in self.methods if method.reuse is not Reuse.NEVER}
        return any(status.plugin not in by_node for status, _ in statuses.counts())

    def find_feasible(
        self, state: CycleState, pod: Pod, nodes: Nodes, *, limit: int | None = None, start: int = 0
    ) -> FilterOutcome:
        """Search `nodes` from row `start` on, round the end, until `limit` feasible ones were found (None: all)."""
        began = self.calls.clock.now()
        total = len(nodes)
        cycle = CycleInput(context_of(state), state, pod, nodes)
        outcome = self._find(cycle, total if limit is None else min(limit, total), start)
        self.calls.point(_POINT, outcome.status, began)
        return outcome

    def run_filters(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses:
        """Return the complete statuses of `nodes`; where a plugin fails, its ERROR stands for every node."""
        cycle = CycleInput(context_of(state), state, pod, nodes)
        sweep = self._sweep(cycle)
        if isinstance(sweep, Status):
            return all_failing(nodes, sweep)
        with_nominated = self._rejections_with_nominated(cycle, self._nominated(cycle))
        if isinstance(with_nominated, Status):
            return all_failing(nodes, with_nominated)
        statuses = self._attribute(cycle, sweep.found, with_nominated, {})
        return all_failing(nodes, statuses) if isinstance(statuses, Status) else statuses

    def _find(self, cycle: CycleInput, limit: int, start: int) -> FilterOutcome:
        sweep = self._sweep(cycle)
        if isinstance(sweep, Status):
            return FilterOutcome.failed(sweep)
        total = len(cycle.nodes)
        nominated = self._nominated(cycle)
        with_nominated: dict[int, Status] = {}
        if nominated:
            # Rejected nodes need not be filtered with their nominated pods, unless all nodes are rejected.
            answers = self._rejections_with_nominated(
                cycle, {row: pods for row, pods in nominated.items() if sweep.is_alive(row)}
            )
            if isinstance(answers, Status):
                return FilterOutcome.failed(answers)
            with_nominated = answers
            for row in with_nominated:
                sweep.kill(row, total)
        candidates = _walk_order(sweep.alive, start, total)
        walked: _Walked = {}
        scalars = self._active_scalars(cycle.context)
        if scalars and len(candidates):
            went = self._walk(cycle, scalars, candidates.tolist(), limit, walked)
            if isinstance(went, Status):
                return FilterOutcome.failed(went, len(walked))
            rows = np.array(sorted(row for row, said in walked.items() if said is None), dtype=np.int64)
        else:
            went = min(limit, len(candidates))
            rows = candidates if went == len(candidates) and not start else np.sort(candidates[:went])
        if len(rows):
            processed = total if went == len(candidates) else (int(candidates[went]) - start) % total
            return FilterOutcome(rows, None, processed)
        # The status of a node with its nominated pods on it comes before the status without them.
        rest = self._rejections_with_nominated(
            cycle, {row: pods for row, pods in nominated.items() if row not in with_nominated and row not in walked}
        )
        if isinstance(rest, Status):
            return FilterOutcome.failed(rest, total)
        statuses = self._attribute(cycle, sweep.found, with_nominated | rest, walked)
        if isinstance(statuses, Status):
            return FilterOutcome.failed(statuses, total)
        return FilterOutcome.infeasible(statuses)

    # Columnar filters

    def _sweep(self, cycle: CycleInput) -> _Sweep | Status:
        """Run the columnar filters; stop as soon as no node is left. Return an ERROR where one failed."""
        nodes = cycle.nodes
        skipped = cycle.context.skip_filter
        found: dict[int, NodeStatuses] = {}
        alive: NDArray[np.bool_] | None = None
        for position, method in self.columnar:
            if method.plugin in skipped:
                continue
            # Only nodes that no plugin has rejected yet count as evaluated.
            method.evaluations += len(nodes) if alive is None else int(np.count_nonzero(alive))
            answer = self.ask(position, method, cycle, alive)
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

    def ask(
        self, position: int, method: PluginMethod, cycle: CycleInput, alive: NDArray[np.bool_] | None
    ) -> NodeStatuses | Status | None:
        """Run a columnar filter; return an ERROR where it failed, or where its status for a node in `alive` is one.

        `alive`: bool[n]; None stands for all nodes. An ERROR for a node that an earlier plugin rejects does not count.
        """
        calls, pod, nodes = self.calls, cycle.pod, cycle.nodes
        answer = calls.run(method, pod, cycle.state, pod, nodes, sampled=cycle.context.sampled)
        if answer is None:
            return None
        if not isinstance(answer, NodeStatuses):
            if isinstance(answer, Status) and answer.is_error:
                return calls.wrapped(method, pod, answer)
            return calls.wrong_type(method, pod, answer, "NodeStatuses or None")
        if not method.in_tree and (expected := statuses_problem(answer, len(nodes))):
            return calls.wrong_type(method, pod, answer, expected)
        error = first_error(answer, alive)
        if error is not None and (earlier := self._one_node_before(position, cycle)):
            alive = np.ones(len(nodes), dtype=np.bool_) if alive is None else alive.copy()
            for row in np.flatnonzero(alive & (answer.codes == int(Code.ERROR))).tolist():
                found = (self._ask_about(each, cycle, nodes[row]) for each in earlier)
                alive[row] = not any(status is not None and status.is_rejected for status in found)
            error = first_error(answer, alive)
        return calls.wrapped(method, pod, error) if error is not None else answer

    def _one_node_before(self, position: int, cycle: CycleInput) -> Sequence[PluginMethod]:
        return [method for place, method in self._active_scalars(cycle.context) if place < position]

    # One-node filters

    def _active_scalars(self, context: RunContext) -> Sequence[tuple[int, PluginMethod]]:
        if not self.one_node or not context.skip_filter:
            return self.one_node
        return [each for each in self.one_node if each[1].plugin not in context.skip_filter]

    def _walk(
        self,
        cycle: CycleInput,
        scalars: Sequence[tuple[int, PluginMethod]],
        candidates: Sequence[int],
        limit: int,
        walked: _Walked,
    ) -> int | Status:
        """Run the one-node filters on node after node, noting it in `walked`; return on how many nodes they ran.

        Ends at `limit` feasible nodes, or with the ERROR of a plugin.
        """
        seconds = {method.plugin: 0.0 for _, method in scalars} if cycle.context.sampled else None
        feasible = 0
        for row in candidates:
            if feasible == limit:
                break
            node = cycle.nodes[row]
            walked[row] = None
            for position, method in scalars:
                status = self._ask_about(method, cycle, node, seconds)
                if status is not None:
                    if not status.is_rejected:
                        return status
                    walked[row] = (position, status)
                    break
            else:
                feasible += 1
        if seconds is not None:
            for _, method in scalars:
                self.calls.took(method, None, seconds[method.plugin], cycle.pod)
        return len(walked)

    def _ask_about(
        self, method: PluginMethod, cycle: CycleInput, node: NodeInfo, seconds: dict[str, float] | None = None
    ) -> Status | None:
        """Run a one-node filter on one node; None: it passes. `seconds` sums up the time, by plugin."""
        calls = self.calls
        began = calls.clock.now() if seconds is not None else 0.0
        method.evaluations += 1
        answer = calls.run(method, cycle.pod, cycle.state, cycle.pod, node)
        if seconds is not None:
            seconds[method.plugin] += calls.clock.now() - began
        status = calls.status_of(method, cycle.pod, answer)
        if status is None:
            return None
        return status.with_plugin(method.plugin) if status.is_rejected else calls.wrapped(method, cycle.pod, status)

    # The first failing plugin of each node

    def _attribute(
        self,
        cycle: CycleInput,
        found: Mapping[int, NodeStatuses],
        with_nominated: Mapping[int, Status],
        walked: _Walked,
    ) -> NodeStatuses | Status:
        """Give every node that fails the status of its first failing plugin in profile order."""
        nodes = cycle.nodes
        statuses = blank_statuses(nodes)
        fail_rows(statuses, with_nominated)
        for position, entry in enumerate(self._entries):
            method = entry.method
            if entry.columnar:
                if position in found:
                    merge_statuses(statuses, found[position], method.plugin)
                continue
            if method.plugin in cycle.context.skip_filter:
                continue
            for row in np.flatnonzero(statuses.passed()).tolist():
                if row in walked:
                    said = walked[row]
                    refusal = said[1] if said is not None and said[0] == position else None
                else:
                    refusal = self._ask_about(method, cycle, nodes[row])
                if refusal is None:
                    continue
                if not refusal.is_rejected:
                    return refusal
                statuses.fail_row(row, refusal)
        return statuses

    # Nominated pods

    def _nominated(self, cycle: CycleInput) -> Mapping[int, Sequence[PodInfo]]:
        """Return by row the nominated pods that the pod must leave room for; only rows that have some."""
        names = self._snapshot.nominated_nodes
        if not names:
            return {}
        pod, nodes = cycle.pod, cycle.nodes
        if nodes is self._snapshot.nodes:
            return self._snapshot.nominated_before(pod.priority).others_than(pod.uid)
        if len(nodes) < len(names):
            rows = {name: row for row in range(len(nodes)) if (name := nodes.name(row)) in names}
        else:
            rows = {name: row for name in names if (row := nodes.index(name)) is not None}
        return {row: ahead for name, row in rows.items() if (ahead := before(self._snapshot.nominated_pods(name), pod))}

    def _rejections_with_nominated(
        self, cycle: CycleInput, nominated: Mapping[int, Sequence[PodInfo]]
    ) -> dict[int, Status] | Status:
        """Return by row why nodes cannot take the pod once their nominated pods are on them; an ERROR ends it.

        Where an active plugin counts pods across nodes, each node is filtered alone: pods nominated to one must not
        count for another.
        """
        if not nominated:
            return {}
        if not self._pre_filtering.counts_across_nodes(cycle.state):
            return self.filter_with_nominated(cycle, nominated)
        with_nominated: dict[int, Status] = {}
        for row, infos in nominated.items():
            answer = self.filter_with_nominated(cycle, {row: infos})
            if isinstance(answer, Status):
                return answer
            with_nominated |= answer
        return with_nominated

    def filter_with_nominated(
        self, cycle: CycleInput, nominated: Mapping[int, Sequence[PodInfo]]
    ) -> dict[int, Status] | Status:
        """Return by row why nodes reject the pod with these pods on them; an ERROR ends it."""
        snapshot = self._snapshot
        pod = cycle.pod
        with snapshot.undo_at_end():
            state = cycle.state.clone()
            for row, infos in nominated.items():
                name = cycle.nodes.name(row)
                for info in infos:
                    snapshot.place(info, name)
                    node = snapshot.get(name)
                    assert node is not None, f"node {name} vanished within a statement"
                    status = self._pre_filtering.add_pod(state, pod, info, node)
                    if status is not None:
                        return status
            rows = [snapshot.nodes.index(cycle.nodes.name(row)) for row in nominated]
            view = snapshot.nodes.take(np.array(rows, dtype=np.int64))
            placed = CycleInput(cycle.context, state, pod, view)
            sweep = self._sweep(placed)
            if isinstance(sweep, Status):
                return sweep
            statuses = self._attribute(placed, sweep.found, {}, {})
            if isinstance(statuses, Status):
                return statuses
            answers = {row: statuses.status(position) for position, row in enumerate(nominated)}
            return {row: status for row, status in answers.items() if status is not None}


def _walk_order(alive: NDArray[np.bool_] | None, start: int, total: int) -> NDArray[np.int64]:
    """Return the rows still alive, from `start` on and round the end."""
    rows: NDArray[np.int64] = np.arange(total, dtype=np.int64) if alive is None else np.flatnonzero(alive)
    if not start:
        return rows
    split = int(np.searchsorted(rows, start))
    return np.concatenate((rows[split:], rows[:split]))
