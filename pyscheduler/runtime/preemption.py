"""Preemption: find the nodes on which a pod would fit if others went, choose one, have the victims evicted.

Nodes are looked at from a random one on, as many as the rules ask for, a handful at a time; in between the event loop
gets its turn. Knows no plugin: what a preempting plugin decides is in its `PreemptionRules`, and what extenders say
comes in through a Protocol.

Differs from kube-scheduler, where sixteen goroutines look at nodes and may find a few more than were asked for before
they stop: here the search ends exactly when enough were found, and among equally good nodes one is drawn.
Source: kube-scheduler 1.36, `framework/preemption/preemption.go`.
"""

from __future__ import annotations

import inspect
import logging
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.api import Pod, PodDisruptionBudget
from pyscheduler.framework.diagnosis import Diagnosis, FitError
from pyscheduler.framework.errors import PluginError
from pyscheduler.framework.interfaces import PostFilterResult
from pyscheduler.framework.node_statuses import NodeStatuses
from pyscheduler.framework.preemption import PREEMPTION_INQUIRY, Candidate, PreemptionFindings, start_time
from pyscheduler.framework.status import Code, Status
from pyscheduler.runtime.disruption_budgets import Budgets
from pyscheduler.runtime.preemption_dry_run import NO_VICTIMS, DryRun
from pyscheduler.runtime.turns import Turns

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyscheduler.framework.cycle_state import CycleState
    from pyscheduler.framework.handle import Handle
    from pyscheduler.framework.preemption import PreemptionExtender, PreemptionRules
    from pyscheduler.framework.snapshot import Snapshot
    from pyscheduler.framework.watches import Lister
    from pyscheduler.runtime.eviction import Evictions

__all__ = ["Preemption", "best_of"]

_log = logging.getLogger(__name__)

#: So many nodes, and pods on them, are looked at together; a few milliseconds' worth.
_MAX_NODES: Final = 64
_MIN_NODES: Final = 8
_MAX_PODS: Final = 200

_NOT_HELPFUL: Final = Status.unresolvable("Preemption is not helpful for scheduling")
_NO_CANDIDATE: Final = Status.unschedulable("no candidate node for preemption")
_CLEAR: Final = PostFilterResult.nominated("")


@attrs.define
class _Found:
    """What has been found so far; `wanted` candidates are enough, if one of them violates no budget."""

    wanted: int
    peaceful: dict[str, Candidate] = attrs.Factory(dict)
    violating: dict[str, Candidate] = attrs.Factory(dict)
    statuses: dict[str, Status] = attrs.Factory(dict)

    @property
    def enough(self) -> bool:
        return bool(self.peaceful) and len(self.peaceful) + len(self.violating) >= self.wanted

    @property
    def missing(self) -> int:
        return self.wanted - len(self.peaceful) - len(self.violating)

    def add(self, name: str, outcome: Candidate | Status) -> None:
        if isinstance(outcome, Status):
            self.statuses[name] = outcome
            return
        found = self.violating if outcome.pdb_violations else self.peaceful
        if len(found) < self.wanted:
            found[name] = outcome

    @property
    def candidates(self) -> dict[str, Candidate]:
        return {**self.peaceful, **self.violating}


class Preemption:
    """Makes room in the name of one plugin; the `Preemptor` of its handle.

    `follows(state)` tells whether a plugin that is active in a cycle keeps an account of pods across nodes. `rng`
    decides where the search begins, and among equals.
    """

    def __init__(
        self,
        plugin: str,
        rules: PreemptionRules,
        *,
        handle: Handle,
        rng: random.Random,
        follows: Callable[[CycleState], bool],
        extenders: Sequence[PreemptionExtender],
        evictions: Evictions,
    ) -> None:
        self._plugin = plugin
        self._rules = rules
        self._handle = handle
        self._rng = rng
        self._follows = follows
        self._extenders = extenders
        self._evictions = evictions
        self._pods: Lister[Pod] = handle.lister(Pod)
        try:
            self._budgets: Iterable[PodDisruptionBudget] = handle.lister(PodDisruptionBudget)
        except PluginError:
            self._budgets = ()  # a plugin that does not watch budgets does not go by them

    def refusal(self, pod: Pod, statuses: NodeStatuses) -> str:
        """Return why the pod may not preempt now, or ""."""
        name = pod.status.nominated_node_name
        nominated = self._handle.snapshot.get(name) if name else None
        return self._rules.refusal(pod, nominated, statuses.get(name))

    def is_preempting(self, uid: str) -> bool:
        """Tell whether victims are still being told to go for the pod with that uid."""
        return self._evictions.is_under_way(uid)

    async def preempt(
        self, state: CycleState, pod: Pod, statuses: NodeStatuses
    ) -> tuple[PostFilterResult | None, Status]:
        """Find victims, choose the node, and have them evicted."""
        inquiry = state.get(PREEMPTION_INQUIRY)
        newest = self._pods.get(pod.name, pod.namespace)
        if newest is not None and newest.uid == pod.uid:
            pod = newest
        elif inquiry is None:
            return None, Status.from_error(LookupError(f'pod "{pod.name}" not found'))
        findings = PreemptionFindings(refusal=self.refusal(pod, statuses), plugin=self._plugin)
        if inquiry is not None:
            inquiry.findings = findings
        if findings.refusal:
            return None, Status.unschedulable(findings.refusal)
        snapshot = self._handle.snapshot
        if not len(snapshot.nodes):
            return None, Status.from_error(LookupError("no nodes available"))
        found = await self._search(state, pod, _worth_a_look(statuses, snapshot))
        findings.candidates, findings.statuses = found.candidates, found.statuses
        if not findings.candidates:
            return _hopeless(found.statuses, len(snapshot.nodes))
        candidates, failure = await self._ask_extenders(pod, findings.candidates)
        if failure is not None:
            return None, failure
        findings.best = best_of(candidates.values(), self._handle.clock.wall())
        if not findings.best:
            return None, _NO_CANDIDATE
        best = findings.best
        chosen = findings.chosen = best[0] if len(best) == 1 else best[self._rng.randrange(len(best))]
        if inquiry is None:
            failure = await self.evict(chosen, pod)
            if failure is not None:
                return None, failure
        return PostFilterResult.nominated(chosen.node_name), Status(Code.SUCCESS)

    async def evict(self, chosen: Candidate, pod: Pod) -> Status | None:
        """Have the victims evicted that an inquiry has found; return an ERROR where that failed at once."""
        _log.info("The target node for the preemption is determined pod=%s node=%s", pod.key, chosen.node_name)
        return await self._evictions.evict(chosen, pod)

    # The search

    async def _search(self, state: CycleState, pod: Pod, names: Sequence[str]) -> _Found:
        """Look at the nodes, from a random one on, until enough candidates were found."""
        if not names:
            return _Found(0)
        turns = Turns(self._handle.clock)
        if not await self._may_help(pod, names, turns):
            return _Found(0, statuses=dict.fromkeys(names, NO_VICTIMS))
        now = self._handle.clock.wall()
        dry_run = DryRun(
            handle=self._handle,
            rules=self._rules,
            budgets=Budgets(self._budgets, group_budget=self._rules.group_budget),
            state=state,
            pod=pod,
            now=now,
            follows=self._follows(state),
        )
        start = self._rng.randrange(len(names))
        found = _Found(min(self._rules.enough_candidates(len(names)), len(names)))
        for few in self._portions([*names[start:], *names[:start]], found, one_by_one=dry_run.follows):
            for name, outcome in zip(few, dry_run.look(few), strict=True):
                found.add(name, outcome)
                if found.enough:
                    return found
            await turns.give()
        return found

    async def _may_help(self, pod: Pod, names: Sequence[str], turns: Turns) -> bool:
        """Tell whether anybody at all may have to go for the pod.

        Where all pods have one priority nobody may, and a full cluster with many pending pods asks that all the time.
        """
        snapshot, may_evict = self._handle.snapshot, self._rules.may_evict
        for number, name in enumerate(names, 1):
            node = snapshot.get(name)
            if node is not None and any(may_evict(info, pod) for info in node.pods):
                return True
            if number % _MAX_NODES == 0:
                await turns.give()
        return False

    def _portions(self, names: Sequence[str], found: _Found, *, one_by_one: bool) -> Iterator[Sequence[str]]:
        """Cut the nodes into portions that take a few milliseconds, and are not much more than is still wanted."""
        snapshot = self._handle.snapshot
        portion: list[str] = []
        pods = 0
        limit = 1
        for name in names:
            if not portion:
                limit = 1 if one_by_one else max(_MIN_NODES, min(_MAX_NODES, found.missing))
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
        """Let the extenders drop candidates and choose other victims; return what is left, or a failure."""
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


def _worth_a_look(statuses: NodeStatuses, snapshot: Snapshot) -> Sequence[str]:
    """Return the nodes that were refused for something that may change when pods go."""
    nodes = snapshot.nodes
    if statuses.absent.code == Code.UNSCHEDULABLE:
        # Nodes that no filter looked at count, too.
        names = (nodes.name(row) for row in range(len(nodes)))
        return [name for name in names if _is_unschedulable(statuses.get(name))]
    name_of = statuses.names
    if name_of is None:
        return []
    found = (name_of(row) for row in statuses.rows_with(Code.UNSCHEDULABLE).tolist())
    return [name for name in found if nodes.index(name) is not None]


def _is_unschedulable(status: Status | None) -> bool:
    return status is not None and status.code == Code.UNSCHEDULABLE


def _hopeless(statuses: Mapping[str, Status], num_nodes: int) -> tuple[PostFilterResult | None, Status]:
    """Return what becomes of a pod for which nobody can make room."""
    errors = dict.fromkeys(status.message for status in statuses.values() if status.is_error)
    if errors:
        text = next(iter(errors)) if len(errors) == 1 else f"[{', '.join(errors)}]"
        return None, Status.from_error(RuntimeError(text))
    diagnosis = Diagnosis(node_statuses=NodeStatuses.from_mapping(statuses, absent=_NOT_HELPFUL))
    return _CLEAR, Status.unschedulable(str(FitError(num_all_nodes=num_nodes, diagnosis=diagnosis)))


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
