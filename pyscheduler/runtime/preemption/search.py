"""Preemption: find the nodes where a pod fits once victims are evicted, choose one node, and evict its victims.

The search begins at a random node, and ends when it has found enough nodes.

Differs from kube-scheduler: if several nodes are equally good, one of them is chosen at random.
Source: kube-scheduler 1.36, `framework/preemption/preemption.go`.
"""

from __future__ import annotations

import inspect
import logging
import operator
from typing import TYPE_CHECKING, Final, TypeVar

import attrs
import numpy as np

from pyscheduler.api import Pod, PodDisruptionBudget, kind_of
from pyscheduler.framework.diagnosis import Diagnosis, FitError
from pyscheduler.framework.interfaces import PostFilterResult
from pyscheduler.framework.node_statuses import NodeStatuses
from pyscheduler.framework.preemption import (
    PREEMPTION_FINDINGS,
    Candidate,
    PreemptionFindings,
    PreemptionRules,
    names_in_turn,
    start_time,
)
from pyscheduler.framework.status import Code, Status
from pyscheduler.framework.trial import PREEMPTION_INQUIRY
from pyscheduler.framework.watches import PolicyRule
from pyscheduler.podgroup.wire import InTreePodGroup
from pyscheduler.runtime.cooperative_yield import CooperativeYield
from pyscheduler.runtime.preemption.columns import Outcomes, VictimColumns, amount_filters
from pyscheduler.runtime.preemption.disruption_budgets import Budgets
from pyscheduler.runtime.preemption.dry_run import NO_VICTIMS, DryRun
from pyscheduler.runtime.preemption.eviction import EvictionCause
from pyscheduler.runtime.preemption.group_search import GroupSearch
from pyscheduler.runtime.preemption.victim_order import evictable
from pyscheduler.runtime.preemption.victim_units import VictimUnits

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet

    from numpy.typing import NDArray

    from pyscheduler.framework.cycle_state import CycleState
    from pyscheduler.framework.interfaces import Plugin
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.framework.preemption import PreemptionExtender
    from pyscheduler.framework.watches import Lister
    from pyscheduler.runtime.extension_points.reserving import Release
    from pyscheduler.runtime.plugin_handle import PluginHandle
    from pyscheduler.runtime.preemption.eviction import Evictions
    from pyscheduler.runtime.preemption.place_counts import PlaceCounts
    from pyscheduler.runtime.statement import Statement

__all__ = ["BUDGETS", "Preemption", "best_of", "grant_preemption"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

#: How many nodes, and pods on them, are searched together, so that it takes a few milliseconds.
_MAX_NODES: Final = 64
_MIN_NODES: Final = 8
_MAX_PODS: Final = 200

#: What every preemptor watches and may do, besides what its plugin needs.
BUDGETS: Final = kind_of(PodDisruptionBudget, "poddisruptionbudgets")
_RULES: Final = (
    PolicyRule(api_groups=("",), resources=("pods",), verbs=("get", "delete")),
    PolicyRule(api_groups=("",), resources=("pods/status",), verbs=("patch",)),
)

_NOT_HELPFUL: Final = Status.unresolvable("Preemption is not helpful for scheduling")
_NO_CANDIDATE: Final = Status.unschedulable("no candidate node for preemption")
_CLEAR: Final = PostFilterResult.nominated("")


@attrs.define
class _Found:
    """The candidates so far; `wanted` are enough if one of them violates no budget."""

    wanted: int
    peaceful: dict[str, Candidate] = attrs.Factory(dict)
    violating: dict[str, Candidate] = attrs.Factory(dict)
    statuses: dict[str, Status] = attrs.Factory(dict)

    @property
    def enough(self) -> bool:
        return bool(self.peaceful) and len(self.peaceful) + len(self.violating) >= self.wanted

    def fill(self, outcomes: Iterable[tuple[str, Candidate | Status]]) -> None:
        """Add the outcomes of nodes, one after the other, until there are enough candidates."""
        for name, outcome in outcomes:
            self.add(name, outcome)
            if self.enough:
                break

    def add(self, name: str, outcome: Candidate | Status) -> None:
        if isinstance(outcome, Status):
            self.statuses[name] = outcome
            return
        found = self.violating if outcome.pdb_violations else self.peaceful
        if len(found) < self.wanted:
            found[name] = outcome


class Preemption:
    """Makes room in the name of one plugin; the `Preemptor` of its handle.

    `rng` decides where the search begins, and among equals.
    """

    def __init__(
        self,
        plugin: str,
        rules: PreemptionRules,
        *,
        handle: PluginHandle,
        rng: random.Random,
        extenders: Sequence[PreemptionExtender],
        evictions: Evictions,
    ) -> None:
        self._plugin = plugin
        self._rules = rules
        self._handle = handle
        self._rng = rng
        self._extenders = extenders
        self._evictions = evictions
        self._pods: Lister[Pod] = handle.lister(Pod)
        self._budgets: Iterable[PodDisruptionBudget] = handle.lister(PodDisruptionBudget)
        self._known_budgets: tuple[Sequence[PodDisruptionBudget], Budgets] | None = None
        self._groups: GroupSearch | None = None
        #: Among how many nodes or candidates the last search drew, by draw. The caller may set it to ().
        self.draws: Sequence[int] = ()
        self._columns: VictimColumns | None = None
        if VictimColumns.know(rules):
            equivalence_key = lambda pod: handle.profile.equivalence_key(pod)  # noqa: E731, PLW0108 - set later
            self._columns = VictimColumns(rules, handle.snapshot, equivalence_key)

    def refusal(self, pod: Pod, statuses: NodeStatuses) -> str:
        """Return why the pod may not preempt now, or ""."""
        # The API server may not know yet of a nomination that was made a moment ago.
        name = pod.status.nominated_node_name or self._handle.nominator.node_of(pod.uid)
        nominated = self._handle.snapshot.get(name) if name and not self._is_stuck(name, pod) else None
        refusal = self._rules.refusal(pod, nominated, statuses.get(name))
        if refusal or nominated is None:
            return refusal
        # The last victim is gone, and what a plugin's pod holds for it goes next.
        needed = self._handle.profile.is_needed_by_others
        leaving = next((info.pod.key for info in nominated.pods if needed(info.pod) is False), "")
        return f"not eligible: pod {leaving} on the nominated node is about to be deleted." if leaving else ""

    def _is_stuck(self, node_name: str, pod: Pod) -> bool:
        """Return True if victims of the pod may never leave the node."""
        node = self._handle.snapshot.get(node_name)
        return node is not None and self._rules.is_stuck(node, pod, self._handle.clock.wall())

    async def _without_stuck(self, worth: _Worth, pod: Pod) -> _Worth:
        """Return the nodes that victims of the pod will leave; other tasks run in the meantime."""
        turns, free = CooperativeYield(self._handle.clock), []
        for number, name in enumerate(worth.names, 1):
            free.append(not self._is_stuck(name, pod))
            if number % _MAX_NODES == 0:
                await turns.yield_if_due()
        return worth.where(np.array(free, dtype=np.bool_))

    def is_preempting(self, uid: str) -> bool:
        """Return True if victims of the pod with that uid are still being evicted."""
        return self._evictions.is_under_way(uid)

    async def may_have_victims(self, pod: Pod, turns: CooperativeYield) -> bool:
        """Return False if no pod of the cluster can be a victim of this pod."""
        if self._columns is None:
            return True
        nodes = self._handle.snapshot.nodes
        await self._columns.sync(nodes, turns)
        return self._columns.may_help(np.arange(len(nodes)), pod)

    async def preempt(
        self, state: CycleState, pod: Pod, statuses: NodeStatuses
    ) -> tuple[PostFilterResult | None, Status]:
        """Find victims, choose the node, and have them evicted; in a trial only write down what was found."""
        self.draws = ()
        inquiry = state.get(PREEMPTION_INQUIRY)  # of a caller that was written before `state.trial`
        asks_only = state.trial is not None or inquiry is not None
        newest = self._pods.get(pod.name, pod.namespace)
        if newest is not None and newest.uid == pod.uid:
            pod = newest
        elif not asks_only:
            return None, Status.from_error(LookupError(f'pod "{pod.name}" not found'))
        findings = PreemptionFindings(refusal=self.refusal(pod, statuses), plugin=self._plugin)
        state.write(PREEMPTION_FINDINGS, findings)
        if inquiry is not None:
            inquiry.findings = findings
        if findings.refusal:
            return None, Status.unschedulable(findings.refusal)
        nodes = self._handle.snapshot.nodes
        if not len(nodes):
            return None, Status.from_error(LookupError("no nodes available"))
        worth = _Worth.of(statuses, nodes)
        chosen = await self._choose(state, pod, worth, findings)
        if isinstance(chosen, Candidate) and self._is_stuck(chosen.node_name, pod):
            # Rare, so that the other nodes are not looked at before.
            chosen = await self._choose(state, pod, await self._without_stuck(worth, pod), findings)
        if not isinstance(chosen, Candidate):
            return chosen
        findings.chosen = chosen
        if asks_only:
            if chosen.pdb_violations:
                findings.violated = self._budgets_now().violated_by(chosen.victims)
        else:
            failure = await self.evict(chosen, pod)
            if failure is not None:
                return None, failure
        return PostFilterResult.nominated(chosen.node_name), Status(Code.SUCCESS)

    async def _choose(
        self, state: CycleState, pod: Pod, worth: _Worth, findings: PreemptionFindings
    ) -> Candidate | tuple[PostFilterResult | None, Status]:
        """Return the best candidate, or the answer of PostFilter if there is none.

        In a trial `findings` get an entry for every node that is looked at.
        """
        snapshot = self._handle.snapshot
        turns = CooperativeYield(self._handle.clock)
        if not await self._may_help(state, pod, worth, turns):
            if state.trial is not None:
                findings.statuses = dict.fromkeys(worth.names, NO_VICTIMS)
            return _hopeless(worth.all_of(NO_VICTIMS), len(snapshot.nodes))
        found = await self._search(state, pod, worth, turns)
        if isinstance(found, Outcomes):
            places = found.best()
            if not places:
                return _hopeless(found.statuses(), len(snapshot.nodes))
            return found.candidate(self._draw(places))
        findings.candidates, findings.statuses = {**found.peaceful, **found.violating}, found.statuses
        if not findings.candidates:
            return _hopeless(NodeStatuses.from_mapping(found.statuses), len(snapshot.nodes))
        candidates, failure = await self._ask_extenders(pod, findings.candidates)
        if failure is not None:
            return None, failure
        findings.best = best_of(candidates.values(), self._handle.clock.wall())
        if not findings.best:
            return None, _NO_CANDIDATE
        return self._draw(findings.best)

    def _draw(self, best: Sequence[T]) -> T:
        return best[0] if len(best) == 1 else best[self._draw_one(len(best))]

    def _draw_one(self, count: int) -> int:
        self.draws = (*self.draws, count)
        return self._rng.randrange(count)

    def repeat(self, draws: Sequence[int]) -> None:
        """Draw as a search did before, so that later searches do not depend on whether this one was repeated."""
        for count in draws:
            self._rng.randrange(count)

    async def evict(self, chosen: Candidate, pod: Pod) -> Status | None:
        """Evict the victims that a trial has found; return an ERROR if that failed at once."""
        _log.info("The target node for the preemption is determined pod=%s node=%s", pod.key, chosen.node_name)
        return await self._evictions.evict(chosen, EvictionCause.of_pod(pod))

    async def preempt_for_group(
        self,
        group: InTreePodGroup,
        pods: Sequence[Pod],
        *,
        waiting: Callable[[], Iterable[Pod]],
        fits: Callable[[Statement], Awaitable[Status | None]],
        count: Callable[[Statement], PlaceCounts | None],
        turns: CooperativeYield,
    ) -> Status | None:
        """Find victims in the whole cluster for a PodGroup, and have them evicted; see `GroupSearch.preempt`."""
        if self._groups is None:
            needed = self._handle.profile.is_needed_by_others
            units = VictimUnits(self._handle.snapshot, self._handle.lister(InTreePodGroup), needed)
            self._groups = GroupSearch(self._handle, self._rules, self._evictions, units)
        return await self._groups.preempt(
            group,
            pods,
            waiting=waiting,
            budgets=self._budgets_now(),
            release=self._handle.profile.release(without=self._rules.keeps_bookings_of),
            fits=fits,
            count=count,
            turns=turns,
        )

    # The search

    def release(self, state: CycleState) -> Release | None:
        """Return what frees what victims hold in plugins' books; None if no plugin with a say in the cycle can tell."""
        return self._handle.profile.release(state, without=self._rules.keeps_bookings_of)

    async def _search(self, state: CycleState, pod: Pod, worth: _Worth, turns: CooperativeYield) -> _Found | Outcomes:
        """Search the nodes, from a random one on, until there are enough candidates.

        In a trial, and with extenders, the result has an entry for every node that was searched.
        """
        release = self.release(state)
        dry_run = DryRun(
            handle=self._handle,
            rules=self._rules,
            budgets=self._budgets_now(),
            state=state,
            pod=pod,
            now=self._handle.clock.wall(),
            # What is freed on one node may help another.
            counts_across_nodes=self._handle.profile.counts_across_nodes(state)
            or release is not None
            or names_in_turn(self._rules),
            release=release,
            is_needed_by_others=self._handle.profile.is_needed_by_others,
        )
        worth = worth.from_row(self._draw_one(len(worth.rows)))
        found = _Found(min(self._rules.enough_candidates(len(worth.rows)), len(worth.rows)))
        outcomes = await self._look_in_columns(dry_run, worth, found, turns)
        if outcomes is not None:
            if state.trial is None and not self._extenders:
                return outcomes
            found.fill(outcomes)
            return found
        for few in self._portions(worth.names, found, one_by_one=dry_run.counts_across_nodes):
            found.fill(zip(few, dry_run.look(few), strict=True))
            if found.enough:
                return found
            await turns.yield_if_due()
        return found

    async def _look_in_columns(
        self, dry_run: DryRun, worth: _Worth, found: _Found, turns: CooperativeYield
    ) -> Outcomes | None:
        """Search by what is known of nodes of the same shape; None if rules or filters do not allow that."""
        plugins = (
            amount_filters(self._handle.profile.active_filters(dry_run.state)) if self._columns is not None else None
        )
        if self._columns is None or plugins is None or dry_run.counts_across_nodes:
            return None
        return await self._columns.look(
            dry_run,
            worth.rows,
            by_amounts=worth.refused_by(plugins),
            wanted=found.wanted,
            portions=lambda names: self._portions(names, found, one_by_one=False),
            turns=turns,
        )

    def _budgets_now(self) -> Budgets:
        """Return the present disruption budgets; the same object while they are unchanged and protect no groups."""
        budgets = list(self._budgets)
        rules = self._rules
        if type(rules).group_budget is not PreemptionRules.group_budget:
            return Budgets(budgets, group_budget=rules.group_budget)
        known = self._known_budgets
        if known is None or len(known[0]) != len(budgets) or not all(map(operator.is_, known[0], budgets)):
            known = self._known_budgets = (budgets, Budgets(budgets))
        return known[1]

    async def _may_help(self, state: CycleState, pod: Pod, worth: _Worth, turns: CooperativeYield) -> bool:
        """Return True if any pod at all may be a victim.

        If all pods have one priority none may, and a full cluster with many pending pods asks that all the time.
        """
        if not len(worth.rows):
            return False
        nodes = self._handle.snapshot.nodes
        if self._columns is not None:
            await self._columns.sync(nodes, turns)
            return self._columns.may_help(worth.rows, pod)
        for number, row in enumerate(worth.rows.tolist(), 1):
            if any(True for _ in evictable(nodes[row], self._rules, pod, state)):
                return True
            if number % _MAX_NODES == 0:
                await turns.yield_if_due()
        return False

    def _portions(self, names: Sequence[str], found: _Found, *, one_by_one: bool) -> Iterator[Sequence[str]]:
        """Cut the nodes into portions that take a few milliseconds and hold few more nodes than are still wanted."""
        snapshot = self._handle.snapshot
        portion: list[str] = []
        pods = 0
        limit = 1
        for name in names:
            if not portion:
                missing = found.wanted - len(found.peaceful) - len(found.violating)
                limit = 1 if one_by_one else max(_MIN_NODES, min(_MAX_NODES, missing))
            node = snapshot.get(name)
            portion.append(name)
            pods += len(node.pods) if node is not None else 0
            if len(portion) >= limit or pods >= _MAX_PODS:
                yield portion
                portion, pods = [], 0
        if portion:
            yield portion

    async def _ask_extenders(
        self, pod: Pod, candidates: Mapping[str, Candidate]
    ) -> tuple[Mapping[str, Candidate], Status | None]:
        """Let the extenders drop candidates and choose other victims; return the candidates left, or a failure."""
        for extender in self._extenders:
            if not extender.supports_preemption() or not extender.is_interested(pod):
                continue
            try:
                answer = extender.process_preemption(pod, candidates, self._handle.snapshot)
                left = await answer if inspect.isawaitable(answer) else answer
            except Exception as error:  # noqa: BLE001 - whatever it is, the extender did not answer
                if not extender.ignorable:
                    return {}, Status.from_error(error)
                self._handle.recorder.warning("extender_ignored")
                _log.warning(
                    "Skipped extender, which is ignorable, as it failed extender=%s err=%s", extender.name, error
                )
                continue
            kept = {name: candidate for name, candidate in left.items() if candidate.victims}
            if len(kept) < len(left) and not extender.ignorable:
                name = next(name for name in left if name not in kept)
                return {}, Status.from_error(ValueError(f'expected at least one victim pod on node "{name}"'))
            candidates = kept
            if not candidates:
                break
        return candidates, None


@attrs.frozen
class _Worth:
    """The nodes that were rejected for a reason that evicting pods may cure.

    `rows`: int64[n] of the snapshot, in the order of the filters. `reasons`: int32[n], positions in
    `table`, of the statuses that rejected them.
    """

    nodes: Nodes
    rows: NDArray[np.int64]
    reasons: NDArray[np.int32]
    table: Sequence[Status]

    @classmethod
    def of(cls, statuses: NodeStatuses, nodes: Nodes) -> _Worth:
        """Find them in the statuses of the filters."""
        refused = statuses.rows_with(Code.UNSCHEDULABLE)
        name_of = statuses.names
        if name_of == nodes.name:
            return cls(nodes, refused, statuses.reason_ids[refused], statuses.table)
        names = [name_of(row) for row in refused.tolist()] if name_of is not None else []
        by_row = {
            row: reason
            for name, reason in zip(names, statuses.reason_ids[refused].tolist(), strict=False)
            if (row := nodes.index(name)) is not None
        }
        table = statuses.table
        if statuses.absent.code == Code.UNSCHEDULABLE:
            # Nodes that were not filtered count, too.
            looked_at = {name_of(row) for row in range(len(statuses))} if name_of is not None else set()
            others = (row for row in range(len(nodes)) if nodes.name(row) not in looked_at)
            by_row = dict(sorted({**by_row, **dict.fromkeys(others, len(table))}.items()))
            table = [*table, statuses.absent]
        rows, reasons = np.array(list(by_row), dtype=np.int64), np.array(list(by_row.values()), dtype=np.int32)
        return cls(nodes, rows, reasons, table)

    @property
    def names(self) -> list[str]:
        return [self.nodes.name(row) for row in self.rows.tolist()]

    def from_row(self, start: int) -> _Worth:
        """Return the same nodes, rotated so that another one comes first."""
        return attrs.evolve(self, rows=np.roll(self.rows, -start), reasons=np.roll(self.reasons, -start))

    def where(self, mask: NDArray[np.bool_]) -> _Worth:
        """Return those of the nodes for which `mask`, bool[n], is True."""
        return attrs.evolve(self, rows=self.rows[mask], reasons=self.reasons[mask])

    def refused_by(self, plugins: AbstractSet[str]) -> NDArray[np.bool_]:
        """Return bool[n]: which of them were rejected by one of these plugins."""
        refused: NDArray[np.bool_] = np.array([status.plugin in plugins for status in self.table])[self.reasons]
        return refused

    def all_of(self, status: Status) -> NodeStatuses:
        """Return statuses in which all of them have this one."""
        statuses = NodeStatuses(len(self.rows))
        statuses.fail(np.ones(len(self.rows), dtype=np.bool_), status)
        return statuses


def grant_preemption(plugin: Plugin) -> None:
    """Let a plugin with a preemptor need what the preemptor needs, so that its account gets these permissions."""
    if BUDGETS not in plugin.watches:
        plugin.watches = (*plugin.watches, BUDGETS)  # type: ignore[misc]  # of a class, as a rule
    plugin.rbac = (*plugin.rbac, *(rule for rule in _RULES if rule not in plugin.rbac))  # type: ignore[misc]  # the same


def _hopeless(statuses: NodeStatuses, num_nodes: int) -> tuple[PostFilterResult | None, Status]:
    """Return the answer of PostFilter for a pod without candidates."""
    errors = dict.fromkeys(status.message for status, _ in statuses.counts() if status.is_error)
    if errors:
        text = next(iter(errors)) if len(errors) == 1 else f"[{', '.join(errors)}]"
        return None, Status.from_error(RuntimeError(text))
    statuses.absent = _NOT_HELPFUL
    return _CLEAR, Status.unschedulable(
        str(FitError(num_all_nodes=num_nodes, diagnosis=Diagnosis(node_statuses=statuses)))
    )


def best_of(candidates: Iterable[Candidate], now: float) -> Sequence[Candidate]:
    """Return the candidates that cost least; `now` in seconds since the epoch.

    In this order: fewest violations of disruption budgets, lowest highest priority among the victims, lowest sum of
    priorities (2^31 is added to each, so that a victim of negative priority costs, too), fewest victims, latest start
    of the victim of highest priority that was started first.
    """
    left = list(candidates)

    def earliest_start(candidate: Candidate) -> float:
        highest = max(info.pod.priority for info in candidate.victims)
        return min(start_time(info.pod, now) for info in candidate.victims if info.pod.priority == highest)

    costs: tuple[Callable[[Candidate], float], ...] = (
        lambda candidate: candidate.pdb_violations,
        lambda candidate: candidate.victims[0].pod.priority,
        lambda candidate: sum(info.pod.priority + (1 << 31) for info in candidate.victims),
        lambda candidate: len(candidate.victims),
        lambda candidate: -earliest_start(candidate),
    )
    for cost in costs:
        if len(left) <= 1:
            break
        priced = [(cost(candidate), candidate) for candidate in left]
        least = min(price for price, _ in priced)
        left = [candidate for price, candidate in priced if price == least]
    return left
