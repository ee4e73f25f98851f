"""Find a node for one pod: run PreFilter, Filter, extenders, PreScore and Score, and choose a node.

By default, all nodes are filtered. With `percentageOfNodesToScore`, the search ends once enough nodes are feasible.
Source: kube-scheduler 1.36, `schedulePod`, `findNodesThatFitPod`, `evaluateNominatedNode` and what they call.
"""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import attrs
import numpy as np

from pyscheduler.framework.diagnosis import Diagnosis, FitError, NoNodesError
from pyscheduler.framework.errors import PluginError
from pyscheduler.framework.node_statuses import NodeStatuses
from pyscheduler.framework.status import Code, Status
from pyscheduler.runtime.batching import NodeList
from pyscheduler.runtime.extension_points.event_registration import EXTENDER
from pyscheduler.runtime.extension_points.filtering import FilterOutcome
from pyscheduler.runtime.tie_break import TieBreak

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.cache.snapshot import Snapshot
    from pyscheduler.framework.cycle_state import CycleState
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.runtime.batching import BatchTurn
    from pyscheduler.runtime.extension_points.pre_filtering import PreFilterOutcome
    from pyscheduler.runtime.extension_points.scoring import PluginScores, Ranking, ScoreOutcome
    from pyscheduler.runtime.profile import Profile

__all__ = [
    "Observer",
    "Placement",
    "PlacementExtenders",
    "PlacementPipeline",
    "feasible_nodes",
    "fits_on",
    "is_narrowed",
    "rejection_of",
]

#: The search looks for at least so many feasible nodes, whatever the percentage.
MIN_FEASIBLE_NODES: Final = 100
ALL_PERCENT: Final = 100
_NO_ROWS: Final = np.empty(0, dtype=np.int64)


@attrs.define(kw_only=True)
class Placement:
    """The node chosen for a pod, and how many nodes were filtered and found feasible."""

    node_name: str
    evaluated_nodes: int
    feasible_nodes: int


class PlacementExtenders(Protocol):
    """The extenders, as far as they take part in the choice of a node."""

    @property
    def any_chooses(self) -> bool:
        """Return whether any extender filters or scores."""
        ...

    def have_a_say(self, pod: Pod) -> bool:
        """Return whether any extender filters or scores nodes for this pod."""
        ...

    async def filter(self, pod: Pod, nodes: Nodes, refused: dict[str, Status]) -> Nodes:
        """Return the nodes that all extenders accept; add their rejections to `refused` by node name.

        Raises `ExtenderError` where an extender fails that is not ignorable.
        """
        ...

    async def accept(self, pod: Pod, node: Nodes, refused: dict[str, Status]) -> bool:
        """Return whether all extenders accept the one node; False, with a log line, where an extender fails."""
        ...

    async def prioritize(self, pod: Pod, nodes: Nodes) -> Sequence[tuple[str, PluginScores]]:
        """Return the scores of each extender that gives any, with its name."""
        ...


class Observer(Protocol):
    """Receives the result of each step.

    With an observer the pipeline filters all nodes, completes the statuses of all nodes, scores also a single feasible
    node, and keeps the scores from before normalisation.
    """

    def on_pre_filter(self, outcome: PreFilterOutcome) -> None:
        """Receive the outcome of PreFilter."""
        ...

    def on_filter(self, nodes: Nodes, statuses: NodeStatuses) -> None:
        """Receive the nodes that were filtered and their statuses, which are the receiver's to change."""
        ...

    def on_extenders(self, feasible: Nodes, refused: Mapping[str, Status]) -> None:
        """Receive the nodes that the extenders accept, and their rejections by node name."""
        ...

    def on_score(self, nodes: Nodes, outcome: ScoreOutcome) -> None:
        """Receive the feasible nodes and the scores of plugins and extenders."""
        ...


@attrs.define(kw_only=True)
class PlacementPipeline:
    """Chooses a node for each pod. `tie_break` chooses among nodes of equal score."""

    snapshot: Snapshot
    tie_break: TieBreak
    #: The configuration's global percentage; a profile may have its own. 0 means all nodes.
    percentage_of_nodes_to_score: int = 0
    extenders: PlacementExtenders | None = None
    #: The row at which the next search begins, if it does not filter all nodes.
    next_start: int = 0

    def for_trial(self) -> PlacementPipeline:
        """Return an equal pipeline with a random source of its own: a trial must not change later choices."""
        return attrs.evolve(self, tie_break=TieBreak(random.Random(0), self.tie_break.ties))

    async def find_node(
        self,
        profile: Profile,
        state: CycleState,
        pod: Pod,
        *,
        turn: BatchTurn | None = None,
        observer: Observer | None = None,
        nodes: Nodes | None = None,
    ) -> Placement:
        """Return the best node for `pod`, of some `nodes` of the snapshot or of all.

        `turn` may reuse the scored nodes of the pod before.

        Raises `NoNodesError` on an empty cluster, `FitError` when no node fits, `PluginError` when a plugin failed and
        `ExtenderError` when an extender failed.
        """
        nodes = nodes if nodes is not None else self.snapshot.nodes
        if not len(nodes):
            raise NoNodesError
        search = _Search(profile, state, pod, nodes, observer, self.snapshot.nodes)
        extenders = self.extenders if self.extenders is not None and self.extenders.have_a_say(pod) else None
        if extenders is not None:
            turn = None

        search.pre_filter()
        found = self._try_likely_node(search, turn) if observer is None else None
        if found is not None and extenders is not None:
            found = found if await extenders.accept(pod, found.feasible, search.refused) else None
        if found is None:
            found = self._filter(search, search.narrow(), turn)
            if found is not None and extenders is not None:
                found = await search.extend(extenders, found)
        if found is None:
            raise search.fit_error()

        feasible, row, others = found.feasible, 0, None
        if len(feasible) > 1 or observer is not None:
            ranking = await search.score(extenders, feasible)
            row = self.tie_break.choose(ranking.best, feasible, self.snapshot.nodes)
            others = partial(NodeList.without, row, feasible, ranking, self.snapshot.nodes, self.tie_break)
        name = feasible.name(row)
        if turn is not None:
            turn.settle(name, others)
        return Placement(node_name=name, evaluated_nodes=found.processed, feasible_nodes=len(feasible))

    def _try_likely_node(self, search: _Search, turn: BatchTurn | None) -> _Found | None:
        """Return the node that the pod is nominated to, or that `turn` names, if it is feasible; it is then taken.

        Preemption made room on the nominated node, and `turn` names the best of the nodes left from the pod before.
        """
        nominated = self.snapshot.nominated_node(search.pod)
        if turn is not None and (nominated or self._limit(search.profile, len(search.nodes)) < len(search.nodes)):
            turn.hint(search.rejects)
        name = nominated or (turn is not None and turn.hinted) or ""
        outcome = search.filter_one(name)
        if outcome is None:
            return None
        if len(outcome.rows):
            return _Found(search.one(name), search.nodes, 0, 1)
        status = outcome.statuses.status(0) if outcome.statuses is not None else None
        if status is not None:
            search.broken[name] = status
        return None

    def _filter(self, search: _Search, nodes: Nodes, turn: BatchTurn | None) -> _Found | None:
        """Return the feasible ones of `nodes`; None, with the diagnosis filled in, where there is none."""
        limit, start = self._limit(search.profile, len(nodes)), 0
        if limit < len(nodes) and search.observer is None:
            # Where all nodes are filtered it does not matter which is the first.
            start = self.next_start % len(nodes)
            if nodes is self.snapshot.nodes:
                nodes = nodes.take(self.snapshot.order())
        outcome = search.filter(nodes, limit=limit, start=start)
        self.next_start = (self.next_start + outcome.processed) % len(self.snapshot.nodes)
        feasible = search.passed(outcome, nodes)
        if turn is not None and turn.hinted is None:
            hint = turn.hint(partial(self._is_missing, feasible))
            if hint and feasible is not None and feasible.index(hint) is not None:
                return _Found(search.one(hint), nodes, 0, 1)
        if feasible is None:
            return None
        return _Found(feasible, nodes, start, outcome.processed, outcome.statuses)

    def _is_missing(self, feasible: Nodes | None, name: str) -> bool | None:
        """Return True if a node is not among the feasible ones; None where there is no such node."""
        if self.snapshot.nodes.index(name) is None:
            return None
        return feasible is None or feasible.index(name) is None

    def _limit(self, profile: Profile, num_nodes: int) -> int:
        """Return how many feasible nodes are enough.

        Differs from kube-scheduler: with percentage 0 all nodes are filtered, since columns make that cheaper than a
        sample.
        """
        if not profile.has_score and not (self.extenders is not None and self.extenders.any_chooses):
            return 1
        percentage = profile.percentage_of_nodes_to_score
        if percentage is None:
            percentage = self.percentage_of_nodes_to_score
        if percentage in {0, ALL_PERCENT} or num_nodes < MIN_FEASIBLE_NODES:
            return num_nodes
        return max(num_nodes * percentage // 100, MIN_FEASIBLE_NODES)


def feasible_nodes(profile: Profile, state: CycleState, pod: Pod, nodes: Nodes, *, limit: int | None = None) -> Nodes:
    """Return the first `limit` of `nodes` that can take the pod (None: all); extenders are not asked.

    Raises `FitError` where none can, and `PluginError` where a plugin failed.
    """
    search = _Search(profile, state, pod, nodes)
    search.pre_filter()
    left = search.narrow()
    feasible = search.passed(search.filter(left, limit=limit), left)
    if feasible is None:
        raise search.fit_error()
    return feasible


def fits_on(profile: Profile, state: CycleState, pod: Pod, nodes: Nodes, name: str) -> bool:
    """Return whether one of `nodes` can take the pod; extenders are not asked."""
    search = _Search(profile, state, pod, nodes)
    try:
        search.pre_filter()
    except (FitError, PluginError):
        return False
    outcome = search.filter_one(name) if search.narrow().index(name) is not None else None
    return outcome is not None and len(outcome.rows) > 0


def is_narrowed(profile: Profile, state: CycleState, pod: Pod, nodes: Nodes) -> bool:
    """Run PreFilter; return whether it rejects the pod, or leaves out any of `nodes`."""
    search = _Search(profile, state, pod, nodes)
    try:
        search.pre_filter()
    except (FitError, PluginError):
        return True
    return len(search.narrow()) < len(nodes)


@attrs.define
class _Found:
    """The feasible nodes, and which nodes Filter was asked about: `processed` rows of `nodes` from row `start` on."""

    feasible: Nodes
    nodes: Nodes
    start: int
    processed: int
    #: The complete statuses of `nodes`; None unless there is an observer.
    statuses: NodeStatuses | None = None

    @property
    def filtered(self) -> Nodes:
        """Return the nodes that Filter was asked about."""
        if self.processed >= len(self.nodes):
            return self.nodes
        rows = np.arange(self.start, self.start + self.processed, dtype=np.int64) % len(self.nodes)
        return self.nodes.take(rows)


@attrs.define
class _Search:
    """The steps for one pod, in their order. `nodes` are all nodes; the diagnosis says why nodes were rejected."""

    profile: Profile
    state: CycleState
    pod: Pod
    nodes: Nodes
    observer: Observer | None = None
    #: The nodes that PreFilter sees; None: `nodes`.
    counted: Nodes | None = None
    diagnosis: Diagnosis = attrs.Factory(Diagnosis)
    #: Which nodes PreFilter left, and which plugins left out the others.
    narrowing: PreFilterOutcome = attrs.field(init=False)
    #: By node name, the filters' rejection of the nominated node, and the extenders' rejections.
    broken: dict[str, Status] = attrs.Factory(dict)
    refused: dict[str, Status] = attrs.Factory(dict)

    def pre_filter(self) -> None:
        """Run PreFilter; raise `FitError` where it rejects the pod."""
        # Plugins count pods on all nodes, whichever nodes the pod may use.
        counted = self.counted if self.counted is not None else self.nodes
        outcome = self.narrowing = self.profile.run_pre_filter(self.state, self.pod, counted)
        if self.observer is not None:
            self.observer.on_pre_filter(outcome)
        self.diagnosis.unschedulable_plugins = set(outcome.narrowed_by)
        status = outcome.status
        if status is not None:
            _raise_error(status)
            self.diagnosis.pre_filter_message = status.message
            self.diagnosis.node_statuses.absent = status
            self.diagnosis.add_plugin_status(status)
            raise self.fit_error()

    def narrow(self) -> Nodes:
        """Return the nodes that PreFilter left; the diagnosis receives the status of the others.

        That status also names the plugins that rejected the nominated node: kube-scheduler has added them to the
        plugins that it names by then.
        """
        result = self.narrowing.result
        if result is None or result.node_names is None:
            return self.nodes
        named = {*self.narrowing.narrowed_by, *(status.plugin for status in self.broken.values() if status.plugin)}
        absent = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(named))}]"
        self.diagnosis.node_statuses.absent = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, absent)
        rows = [row for name in result.node_names if (row := self.nodes.index(name)) is not None]
        return self.nodes.take(np.array(sorted(rows), dtype=np.int64))

    def filter(self, nodes: Nodes, *, limit: int | None = None, start: int = 0) -> FilterOutcome:
        """Run Filter until `limit` nodes passed; with an observer, work out the statuses of all nodes."""
        if self.observer is None:
            if not len(nodes):
                return FilterOutcome(_NO_ROWS, None, 0)
            return self.profile.find_feasible(self.state, self.pod, nodes, limit=limit, start=start)
        statuses = self.profile.run_filters(self.state, self.pod, nodes)
        statuses.absent = self.diagnosis.node_statuses.absent
        self.observer.on_filter(nodes, statuses)
        failed = statuses.rows_with(Code.ERROR)
        error = statuses.status(int(failed[0])) if len(failed) else None
        return FilterOutcome(np.flatnonzero(statuses.passed()), statuses, len(nodes), error)

    def one(self, name: str) -> Nodes:
        """Return the view of one node that exists."""
        return self.nodes.take(np.array([self.nodes.index(name)], dtype=np.int64))

    def filter_one(self, name: str) -> FilterOutcome | None:
        """Run Filter on one node; None where there is no such node."""
        if self.nodes.index(name) is None:
            return None
        return self.profile.find_feasible(self.state, self.pod, self.one(name))

    def rejects(self, name: str) -> bool | None:
        """Return True if the filters reject the pod on a node; None where there is no such node."""
        outcome = self.filter_one(name)
        return None if outcome is None else outcome.status is None and not len(outcome.rows)

    def passed(self, outcome: FilterOutcome, nodes: Nodes) -> Nodes | None:
        """Return the nodes that passed Filter; None, with the diagnosis filled in, where none did."""
        if outcome.status is not None:
            _raise_error(outcome.status)
        if len(outcome.rows):
            # Where every node is feasible the view is the same: the full view's columns need no copy.
            return nodes if len(outcome.rows) == len(nodes) else nodes.take(outcome.rows)
        if outcome.statuses is not None:
            self._note_statuses(outcome.statuses)
        if self.broken:
            self._note_broken_nomination()
        if self.refused:
            self._note_refused()
        return None

    async def extend(self, extenders: PlacementExtenders, found: _Found) -> _Found | None:
        """Return the feasible nodes that the extenders accept; None, with the diagnosis filled in, where none are."""
        before = found.feasible
        found.feasible = await extenders.filter(self.pod, before, self.refused)
        if len(found.feasible) < len(before):
            self.diagnosis.unschedulable_plugins.add(EXTENDER)
        if not len(found.feasible):
            if found.statuses is None and found.processed > len(before):
                # Filter stopped at the first feasible node to work out why others are not.
                found.statuses = self.profile.run_filters(self.state, self.pod, found.filtered)
            if found.statuses is not None:
                self._note_statuses(found.statuses)
            self._note_refused()
        if self.observer is not None:
            self.observer.on_extenders(found.feasible, self.refused)
        return found if len(found.feasible) else None

    async def score(self, extenders: PlacementExtenders | None, nodes: Nodes) -> Ranking:
        """Run PreScore and Score, and add the extenders' scores; whatever else plugins return is an error."""
        status = self.profile.run_pre_score(self.state, self.pod, nodes)
        if status is not None:
            _raise_error(status, always=True)
        if extenders is None and self.observer is None:
            ranking = self.profile.rank_nodes(self.state, self.pod, nodes)
            if ranking.status is not None:
                _raise_error(ranking.status, always=True)
            return ranking
        outcome = self.profile.run_score(self.state, self.pod, nodes, details=self.observer is not None)
        if outcome.status is not None:
            _raise_error(outcome.status, always=True)
        if extenders is not None:
            scored = dict(await extenders.prioritize(self.pod, nodes))
            outcome.by_plugin = {**outcome.by_plugin, **scored}
            for scores in scored.values():
                outcome.totals += scores.weighted
        if self.observer is not None:
            self.observer.on_score(nodes, outcome)
        return outcome

    def fit_error(self) -> FitError:
        return FitError(num_all_nodes=len(self.nodes), diagnosis=self.diagnosis)

    def _note_statuses(self, statuses: NodeStatuses) -> None:
        """Add why every node that was filtered was rejected."""
        statuses.absent = self.diagnosis.node_statuses.absent
        self.diagnosis.node_statuses = statuses
        for status, _ in statuses.counts():
            self.diagnosis.add_plugin_status(status)

    def _note_broken_nomination(self) -> None:
        """Add why the nominated node was rejected, unless it was filtered again with the other nodes.

        It was not where PreFilter had narrowed the nodes. Source: kube-scheduler 1.36, `evaluateNominatedNode`.
        """
        known, broken = self.diagnosis.node_statuses, self.broken
        if all(known.get(name) is not known.absent for name in broken):
            return
        statuses = {**broken, **dict(known.items())}
        self.diagnosis.node_statuses = NodeStatuses.from_mapping(statuses, absent=known.absent)
        for status in broken.values():
            self.diagnosis.unschedulable_plugins.add(status.plugin)
            self.diagnosis.note_retry(status)

    def _note_refused(self) -> None:
        """Add the extenders' rejections, which replace what the filters said of these nodes.

        Nodes that an extender dropped without a reason have no status, like nodes that nobody filtered.
        """
        known = self.diagnosis.node_statuses
        statuses = {**dict(known.items()), **self.refused}
        self.diagnosis.node_statuses = NodeStatuses.from_mapping(statuses, absent=known.absent)


def _raise_error(status: Status, *, always: bool = False) -> None:
    """Raise `PluginError` for what is not a rejection; with `always` for anything."""
    if always or not status.is_rejected:
        raise PluginError(status.message, plugin=status.plugin) from status.error


def rejection_of(status: Status, node_name: str) -> Status:
    """Return a rejection at Reserve or Permit as the fit error of that one node; other statuses as they are.

    Differs from kube-scheduler: where a wait was ended in nobody's name (`reject_waiting_pod`), the pod is retried
    after a backoff. There it waits for events that the plugin called "" registered, so for the five-minute flush.
    """
    if not status.is_rejected:
        return status
    diagnosis = Diagnosis(node_statuses=NodeStatuses.from_mapping({node_name: status}))
    diagnosis.add_plugin_status(status)
    return Status(status.code, plugin=status.plugin, error=FitError(num_all_nodes=1, diagnosis=diagnosis))
