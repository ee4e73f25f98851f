"""Search many nodes for victims, with one dry run for all nodes that have equal resources and equal pods.

Pods are equal here if their requests and their priorities are equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from pyscheduler.framework.node_statuses import NodeStatuses
from pyscheduler.framework.preemption import Candidate, PreemptionRules, names_in_turn
from pyscheduler.framework.reuse import Reuse
from pyscheduler.framework.status import Code, Status
from pyscheduler.runtime.equivalence_cache.filter_cache import is_cacheable
from pyscheduler.runtime.preemption.node_shapes import NodeShapes
from pyscheduler.runtime.preemption.nominated_usage import NominatedUsage, NominatedUsages
from pyscheduler.runtime.preemption.shape_results import UNKNOWN, ShapeResults, result_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence, Set as AbstractSet

    from numpy.typing import NDArray

    from pyscheduler.api import Pod
    from pyscheduler.cache.snapshot import Snapshot
    from pyscheduler.cache.view import NodeView
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.runtime.cooperative_yield import CooperativeYield
    from pyscheduler.runtime.extension_points.plugin_calls import PluginMethod
    from pyscheduler.runtime.preemption.disruption_budgets import Budgets
    from pyscheduler.runtime.preemption.dry_run import DryRun

__all__ = ["Outcomes", "VictimColumns", "amount_filters"]

#: The smallest number of nodes that are searched at once.
_MIN_CHUNK: Final = 64
#: The number of priorities of preemptors for which it is kept which pods budgets protect.
_MAX_PRIORITIES: Final = 8


def amount_filters(methods: Iterable[PluginMethod]) -> AbstractSet[str] | None:
    """Return the plugins whose rejection depends on amounts only, given the active filters in order.

    The filters before them passed the node, and pass it whichever pods are evicted. None if some answer cannot be kept.
    """
    found: set[str] = set()
    by_amounts = True
    for method in methods:
        # Results are kept by the node's generation, which is the same after a plugin forgot its answers.
        if not is_cacheable(method) or method.reuse is Reuse.UNTIL_FORGOTTEN:
            return None
        if method.reuse is Reuse.WHILE_AMOUNTS_STAY:
            found.add(method.plugin)
            continue
        # A filter that depends on the node alone may still reject what the filters before it pass.
        found.clear()
        by_amounts = by_amounts and method.reuse is Reuse.WHILE_NODE_STAYS
    return found if by_amounts else set()


@attrs.frozen(kw_only=True)
class Outcomes:
    """The outcome of a search: `rows` in the order in which they were searched, and the result of each.

    `wanted`: the maximum number of candidates of a kind. `now` in seconds since 1970. `priority` of the preemptor.
    """

    rows: NDArray[np.int64]
    numbers: NDArray[np.int32]
    wanted: int
    now: float
    priority: int
    rules: PreemptionRules
    nodes: Nodes
    node_shapes: NodeShapes
    results: ShapeResults

    def __iter__(self) -> Iterator[tuple[str, Candidate | Status]]:
        """Iterate over the names of nodes and their outcomes."""
        for place, number in enumerate(self.numbers.tolist()):
            status = self.results[number].status
            yield self.nodes.name(int(self.rows[place])), status if status is not None else self.candidate(place)

    def candidate(self, place: int) -> Candidate:
        """Return the candidate in that place."""
        row = int(self.rows[place])
        result = self.results[int(self.numbers[place])]
        victims = result.victims(self.node_shapes.pods(row, self.priority), self.rules, self.now)
        return Candidate(node_name=self.nodes.name(row), victims=victims, pdb_violations=result.violations)

    def best(self) -> Sequence[int]:
        """Return the places of the candidates that cost least, as `best_of` does; none where there is no candidate."""
        columns = self.results.columns
        numbers = self.numbers
        is_candidate = columns.is_candidate[numbers]
        violates = columns.violations[numbers] > 0
        peaceful = np.flatnonzero(is_candidate & ~violates)[: self.wanted]
        violating = np.flatnonzero(is_candidate & violates)[: self.wanted]
        left = np.concatenate((peaceful, violating)) if len(violating) else peaceful
        for cost in columns.costs:
            if len(left) <= 1:
                break
            prices = cost[numbers[left]]
            left = left[prices == prices.min()]
        if len(left) > 1:
            starts = np.empty(len(left))
            for number in np.unique(numbers[left]).tolist():
                alike = numbers[left] == number
                leaders = self.results[number].leaders
                starts[alike] = self.node_shapes.first_start(self.rows[left[alike]], leaders)
            left = left[starts == starts.max()]
        places: list[int] = left.tolist()
        return places

    def statuses(self) -> NodeStatuses:
        """Return why the nodes are of no use, where none is a candidate."""
        used, ids = np.unique(self.numbers, return_inverse=True)
        found = [self.results[number].status for number in used.tolist()]
        table = [Status(Code.SUCCESS), *(status for status in found if status is not None)]
        made = NodeStatuses(0)
        made.table = table
        made.reason_ids = (ids + 1).astype(np.int32)
        made.codes = np.array([status.code for status in table], dtype=np.int8)[made.reason_ids]
        return made


class VictimColumns:
    """Searches on behalf of one plugin with rules that choose victims as kube-scheduler does."""

    __slots__ = (
        "_budgets",
        "_equivalence_key",
        "_node_shapes",
        "_protected",
        "_results",
        "_rules",
        "_snapshot",
        "_usages",
    )

    def __init__(
        self, rules: PreemptionRules, snapshot: Snapshot, equivalence_key: Callable[[Pod], bytes | None]
    ) -> None:
        self._rules = rules
        self._snapshot = snapshot
        self._equivalence_key = equivalence_key
        self._node_shapes = NodeShapes()
        self._results = ShapeResults()
        self._budgets: Budgets | None = None
        self._usages = NominatedUsages()
        #: By priority of the preemptor and row: generation of the node, places of the pods that budgets protect.
        self._protected: dict[int, dict[int, tuple[int, tuple[int, ...]]]] = {}

    @staticmethod
    def know(rules: PreemptionRules) -> bool:
        """Return True if the rules choose victims by priority and start time, as shapes assume."""
        kind = type(rules)
        has_defaults = kind.may_evict is PreemptionRules.may_evict and kind.importance is PreemptionRules.importance
        return has_defaults and not names_in_turn(rules)

    async def sync(self, nodes: NodeView, turns: CooperativeYield) -> None:
        """Bring what is known of nodes up to date with the snapshot."""
        await self._node_shapes.sync(nodes, turns)

    def may_help(self, rows: NDArray[np.int64], pod: Pod) -> bool:
        """Return True if any pod on these nodes may be a victim."""
        return bool((self._node_shapes.least[rows] < pod.priority).any())

    async def look(
        self,
        dry_run: DryRun,
        rows: NDArray[np.int64],
        *,
        by_amounts: NDArray[np.bool_],
        wanted: int,
        portions: Callable[[Sequence[str]], Iterable[Sequence[str]]],
        turns: CooperativeYield,
    ) -> Outcomes | None:
        """Search nodes in that order until there are enough candidates; None if it takes a search without columns.

        `by_amounts`: bool[n], of each of `rows` whether amounts are all that is in question. `portions` cuts nodes into
        handfuls that can go through a dry run together.
        """
        key = self._equivalence_key(dry_run.pod)
        if key is None or dry_run.now <= self._node_shapes.latest_start:
            return None
        snapshot = self._snapshot
        kind = (key, dry_run.pod.priority)
        self._results.begin(kind, epoch=self._node_shapes.epoch)
        numbers = np.empty(len(rows), dtype=np.int32)
        done = end = 0
        while done < len(rows):
            chunk = slice(done, done + max(_MIN_CHUNK, wanted - done))
            nominated = snapshot.nominated_before(dry_run.pod.priority)
            usage = self._usages.before(nominated, len(snapshot.nodes), dry_run.pod)
            shapes = self._shapes(dry_run, rows[chunk], by_amounts[chunk], usage)
            if not await self._learn(dry_run, kind, rows[chunk], shapes, usage, portions=portions, turns=turns):
                return None
            if not usage.is_current:
                continue  # nominations changed while the loop turned
            done = done + len(shapes)
            numbers[chunk] = self._results.table(kind, self._node_shapes.num_ids)[shapes]
            end = self._end(numbers[:done], wanted)
            if end < done:
                break
            await turns.yield_if_due()
        return Outcomes(
            rows=rows[:end],
            numbers=numbers[:end],
            wanted=wanted,
            now=dry_run.now,
            priority=dry_run.pod.priority,
            rules=self._rules,
            nodes=snapshot.nodes,
            node_shapes=self._node_shapes,
            results=self._results,
        )

    def _end(self, numbers: NDArray[np.int32], wanted: int) -> int:
        """Return after how many nodes there were enough candidates, one of which violates no budget; else all."""
        columns = self._results.columns
        is_candidate = columns.is_candidate[numbers]
        violates = is_candidate & (columns.violations[numbers] > 0)
        peaceful = np.cumsum(is_candidate & ~violates)
        enough = (peaceful > 0) & (peaceful + np.cumsum(violates) >= wanted)
        return int(enough.argmax()) + 1 if enough.any() else len(numbers)

    def _shapes(
        self, dry_run: DryRun, rows: NDArray[np.int64], by_amounts: NDArray[np.bool_], usage: NominatedUsage
    ) -> NDArray[np.int32]:
        """Return int32[n]: the shape of each row for this preemptor, with nominated pods and budgets.

        Rows on which only amounts are in question have equal shapes if usage and protected places are equal.
        """
        node_shapes = self._node_shapes
        shapes = node_shapes.shapes_for(rows, dry_run.pod.priority)
        protected = self._protected_on(dry_run, rows.tolist())
        usages = usage.by_row[rows]
        special = ~by_amounts
        if protected:
            special |= np.isin(rows, list(protected))
        plain = np.flatnonzero((usages != 0) & ~special)
        if len(plain):
            pairs, which = np.unique((shapes[plain].astype(np.int64) << 32) | usages[plain], return_inverse=True)
            made = [node_shapes.number((pair >> 32, usage.table[pair & 0xFFFFFFFF], ())) for pair in pairs.tolist()]
            shapes[plain] = np.array(made, dtype=np.int32)[which]
        for place in np.flatnonzero(special).tolist():
            row = int(rows[place])
            places = protected.get(row, ())
            if by_amounts[place]:
                key: Hashable = int(shapes[place]), usage.table[int(usages[place])], places
            else:
                key = "node", node_shapes.generation(row), usage.pods_of(row), places
            shapes[place] = node_shapes.number(key)
        return shapes

    async def _learn(
        self,
        dry_run: DryRun,
        kind: Hashable,
        rows: NDArray[np.int64],
        shapes: NDArray[np.int32],
        usage: NominatedUsage,
        *,
        portions: Callable[[Sequence[str]], Iterable[Sequence[str]]],
        turns: CooperativeYield,
    ) -> bool:
        """Run the dry run on one node of each unknown shape; return False if it failed on one."""
        node_shapes, results = self._node_shapes, self._results
        nodes = dry_run.handle.snapshot.nodes
        unknown = np.flatnonzero(results.table(kind, node_shapes.num_ids)[shapes] == UNKNOWN)
        if not len(unknown):
            return True
        _, first = np.unique(shapes[unknown], return_index=True)
        places = {nodes.name(int(rows[place])): place for place in unknown[np.sort(first)].tolist()}
        for few in portions(list(places)):
            table = results.table(kind, node_shapes.num_ids)
            for name, outcome in zip(few, dry_run.look(few), strict=True):
                if isinstance(outcome, Status) and outcome.is_error:
                    return False
                place = places[name]
                pods = node_shapes.pods(int(rows[place]), dry_run.pod.priority)
                start, guarded = self._guarded(dry_run, int(rows[place]))
                table[shapes[place]] = results.number(result_of(outcome, pods, guarded, start))
            await turns.yield_if_due()
            if not usage.is_current:
                break  # the caller begins again
        return True

    def _protected_on(self, dry_run: DryRun, rows: Sequence[int]) -> dict[int, tuple[int, ...]]:
        """Return by row the places of the pods that budgets protect; only rows that have some."""
        budgets, priority = dry_run.budgets, dry_run.pod.priority
        if budgets.is_empty:
            return {}
        if self._budgets is not budgets or (
            priority not in self._protected and len(self._protected) >= _MAX_PRIORITIES
        ):
            self._budgets = budgets
            self._protected.clear()
        # The protection of a group changes with pods on other nodes.
        known = self._protected.setdefault(priority, {}) if budgets.is_fixed else {}
        found: dict[int, tuple[int, ...]] = {}
        for row in rows:
            generation = self._node_shapes.generation(row)
            entry = known.get(row)
            if entry is None or entry[0] != generation:
                entry = known[row] = (generation, self._guarded(dry_run, row)[1])
            if entry[1]:
                found[row] = entry[1]
        return found

    def _guarded(self, dry_run: DryRun, row: int) -> tuple[int, tuple[int, ...]]:
        """Return from which place on pods may be victims, and the places of those that budgets protect."""
        priority = dry_run.pod.priority
        pods = self._node_shapes.pods(row, priority)
        start = next((place for place, info in enumerate(pods) if info.pod.priority < priority), len(pods))
        if dry_run.budgets.is_empty:
            return start, ()
        guarded = {info.pod.uid for info in dry_run.budgets.split(pods[start:])[0]}
        return start, tuple(place for place in range(start, len(pods)) if pods[place].pod.uid in guarded)
