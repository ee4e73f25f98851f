"""Place one pod: PreFilter, narrowing, Filter, extenders, PreScore, Score and the choice.

`PlacementPipeline.find_node` runs the steps up to the choice. It reads the snapshot and changes nothing. It waits only
for extenders: without extenders it never suspends, and `run_now` can run it. `feasible_nodes` and `fits_on` run the
steps up to Filter, for callers that only ask whether a pod fits. A scheduling cycle and a trial call the same
functions.

The pipeline filters all nodes unless `percentageOfNodesToScore` is set. Then it begins where the last search stopped,
in zone order, and stops when it has found enough feasible nodes. A pod that an extender rejected waits for any event,
because nobody knows what an extender's answer depends on.
Source: kube-scheduler 1.36, `schedulePod`, `findNodesThatFitPod`, `evaluateNominatedNode` and what they call.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import attrs
import numpy as np

from pyscheduler.framework.diagnosis import Diagnosis, FitError, NoNodesError
from pyscheduler.framework.errors import PluginError
from pyscheduler.framework.node_statuses import NodeStatuses
from pyscheduler.framework.status import Code, Status
from pyscheduler.runtime.batching import NodeList
from pyscheduler.runtime.event_registration import EXTENDER
from pyscheduler.runtime.filtering import FilterOutcome
from pyscheduler.runtime.scoring import best_of

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import Pod
    from pyscheduler.cache.snapshot import Snapshot
    from pyscheduler.framework.cycle_state import CycleState
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.runtime.batching import BatchTurn
    from pyscheduler.runtime.pre_filtering import PreFilterOutcome
    from pyscheduler.runtime.profile import Profile
    from pyscheduler.runtime.scoring import PluginScores, Ranking, ScoreOutcome

__all__ = [
    "Observer",
    "Placement",
    "PlacementExtenders",
    "PlacementPipeline",
    "feasible_nodes",
    "fits_on",
    "rejection_of",
]

#: The search looks for at least so many feasible nodes, whatever the percentage.
MIN_FEASIBLE_NODES: Final = 100
ALL_PERCENT: Final = 100


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
        """Receive the feasible nodes and the scores of the plugins."""
        ...

    def on_extender_scores(self, name: str, scores: PluginScores) -> None:
        """Receive the scores of one extender; the totals of the `ScoreOutcome` include them already."""
        ...


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


@attrs.define(kw_only=True)
class PlacementPipeline:
    """Chooses a node for each pod. `rng` breaks ties; the same seed gives the same choices."""

    snapshot: Snapshot
    rng: random.Random
    #: The configuration's global percentage; a profile may have its own. 0 means all nodes.
    percentage_of_nodes_to_score: int = 0
    extenders: PlacementExtenders | None = None
    _next_start: int = 0

    async def find_node(
        self,
        profile: Profile,
        state: CycleState,
        pod: Pod,
        *,
        turn: BatchTurn | None = None,
        observer: Observer | None = None,
    ) -> Placement:
        """Return the best node for `pod`; `turn` may reuse the scored nodes of the pod before.

        Raises `NoNodesError` on an empty cluster, `FitError` when no node fits, `PluginError` when a plugin failed and
        `ExtenderError` when an extender failed.
        """
        all_nodes = self.snapshot.nodes
        if not len(all_nodes):
            raise NoNodesError
        diagnosis = Diagnosis()
        broken: dict[str, Status] = {}
        refused: dict[str, Status] = {}
        extenders = self.extenders if self.extenders is not None and self.extenders.have_a_say(pod) else None
        if extenders is not None:
            turn = None

        outcome = _pre_filter(profile, state, pod, all_nodes, diagnosis, observer)
        found = self._try_likely_node(profile, state, pod, turn, broken) if observer is None else None
        if found is not None and extenders is not None and not await extenders.accept(pod, found.feasible, refused):
            found = None
        if found is None:
            nodes = _narrow(outcome, all_nodes, diagnosis, broken)
            found = self._filter(profile, state, pod, nodes, diagnosis, turn, observer)
            if found is None:
                _note_broken_nomination(broken, diagnosis)
                if refused:
                    _note_refused(refused, diagnosis)
            elif extenders is not None:
                found = await _extend(extenders, profile, state, pod, found, diagnosis, refused, observer)
        if found is None:
            raise FitError(num_all_nodes=len(all_nodes), diagnosis=diagnosis)

        feasible, row, others = found.feasible, 0, None
        if len(feasible) > 1 or observer is not None:
            ranking = _score(profile, state, pod, feasible, observer)
            best = ranking.best
            if extenders is not None:
                best = await _best_with_extenders(extenders, pod, feasible, ranking.totals, observer)
            row = self._draw(best)
            others = partial(self._others, row, feasible, ranking)
        name = feasible.name(row)
        if turn is not None:
            turn.settle(name, others)
        return Placement(node_name=name, evaluated_nodes=found.processed, feasible_nodes=len(feasible))

    def _try_likely_node(
        self, profile: Profile, state: CycleState, pod: Pod, turn: BatchTurn | None, broken: dict[str, Status]
    ) -> _Found | None:
        """Return the node that the pod is nominated to, or that `turn` names, if it is feasible; it is then taken.

        Otherwise the rejection is added to `broken`. Preemption made room on the nominated node, and the node that
        `turn` names is the best of those left from the pod before.
        """
        nodes = self.snapshot.nodes
        nominated = self.snapshot.nominated_node(pod)
        if turn is not None and (nominated or self._limit(profile, len(nodes)) < len(nodes)):
            turn.hint(partial(self._rejects, profile, state, pod))
        name = nominated or (turn is not None and turn.hinted) or ""
        outcome = _filter_one(profile, state, pod, nodes, name)
        if outcome is None:
            return None
        if len(outcome.rows):
            return _Found(_one(nodes, name), nodes, 0, 1)
        status = outcome.statuses.status(0) if outcome.statuses is not None else None
        if status is not None:
            broken[name] = status
        return None

    def _rejects(self, profile: Profile, state: CycleState, pod: Pod, name: str) -> bool | None:
        """Return True if the filters reject the pod on a node; None where there is no such node."""
        outcome = _filter_one(profile, state, pod, self.snapshot.nodes, name)
        return None if outcome is None else outcome.status is None and not len(outcome.rows)

    def _filter(
        self,
        profile: Profile,
        state: CycleState,
        pod: Pod,
        nodes: Nodes,
        diagnosis: Diagnosis,
        turn: BatchTurn | None,
        observer: Observer | None,
    ) -> _Found | None:
        """Return the feasible ones of `nodes`; None, with `diagnosis` filled in, where there is none."""
        if observer is not None:
            outcome = _filter_all(profile, state, pod, nodes, diagnosis, observer)
            start = 0
        else:
            limit, start = self._limit(profile, len(nodes)), 0
            if limit < len(nodes):
                # Where all nodes are filtered it does not matter which is the first.
                start = self._next_start % len(nodes)
                if nodes is self.snapshot.nodes:
                    nodes = nodes.take(self.snapshot.order())
            outcome = profile.find_feasible(state, pod, nodes, limit=limit, start=start)
            self._next_start = (self._next_start + outcome.processed) % len(self.snapshot.nodes)
        feasible = _feasible(outcome, nodes, diagnosis)
        if turn is not None and turn.hinted is None:
            hint = turn.hint(partial(self._is_missing, feasible))
            if hint and feasible is not None and feasible.index(hint) is not None:
                return _Found(_one(self.snapshot.nodes, hint), nodes, 0, 1)
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

    def _draw(self, best: Sequence[int] | NDArray[np.int64]) -> int:
        """Return one of the best rows, drawn at random.

        Differs from kube-scheduler: 1.36 draws only where an extender scored the nodes; else the order decides in which
        its goroutines found them, which is no order to rely on.
        """
        return int(best[0] if len(best) == 1 else best[self.rng.randrange(len(best))])

    def _others(self, chosen: int, nodes: Nodes, ranking: Ranking) -> NodeList | None:
        """Return the scored nodes but for the chosen one, for the next pod."""
        return NodeList.without(chosen, nodes, ranking.totals, view=self.snapshot.nodes, rng=self.rng)


# The steps, for a pipeline and for callers that only ask


def feasible_nodes(profile: Profile, state: CycleState, pod: Pod, nodes: Nodes, *, limit: int | None = None) -> Nodes:
    """Return the first `limit` of `nodes` that can take the pod (None: all); extenders are not asked.

    Raises `FitError` where none can, and `PluginError` where a plugin failed.
    """
    diagnosis = Diagnosis()
    outcome = _pre_filter(profile, state, pod, nodes, diagnosis)
    left = _narrow(outcome, nodes, diagnosis)
    feasible = _feasible(profile.find_feasible(state, pod, left, limit=limit), left, diagnosis)
    if feasible is None:
        raise FitError(num_all_nodes=len(nodes), diagnosis=diagnosis)
    return feasible


def fits_on(profile: Profile, state: CycleState, pod: Pod, nodes: Nodes, name: str) -> bool:
    """Return whether one of `nodes` can take the pod; extenders are not asked."""
    try:
        result = _pre_filter(profile, state, pod, nodes, Diagnosis()).result
    except (FitError, PluginError):
        return False
    if result is not None and result.node_names is not None and name not in result.node_names:
        return False
    outcome = _filter_one(profile, state, pod, nodes, name)
    return outcome is not None and len(outcome.rows) > 0


def _pre_filter(
    profile: Profile,
    state: CycleState,
    pod: Pod,
    nodes: Nodes,
    diagnosis: Diagnosis,
    observer: Observer | None = None,
) -> PreFilterOutcome:
    """Run PreFilter; raise `FitError` where it rejects the pod."""
    outcome = profile.run_pre_filter(state, pod, nodes)
    if observer is not None:
        observer.on_pre_filter(outcome)
    diagnosis.unschedulable_plugins = set(outcome.narrowed_by)
    status = outcome.status
    if status is None:
        return outcome
    _raise_error(status)
    diagnosis.pre_filter_message = status.message
    diagnosis.node_statuses.absent = status
    diagnosis.add_plugin_status(status)
    raise FitError(num_all_nodes=len(nodes), diagnosis=diagnosis)


def _narrow(
    outcome: PreFilterOutcome, nodes: Nodes, diagnosis: Diagnosis, broken: Mapping[str, Status] | None = None
) -> Nodes:
    """Return the nodes that PreFilter left; `diagnosis` receives the status of the others.

    That status also names the plugins that rejected the nominated node, which `broken` holds: kube-scheduler has added
    them to the plugins that it names by then.
    """
    result = outcome.result
    if result is None or result.node_names is None:
        return nodes
    named = {*outcome.narrowed_by, *(status.plugin for status in (broken or {}).values() if status.plugin)}
    absent = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(named))}]"
    diagnosis.node_statuses.absent = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, absent)
    rows = [row for name in result.node_names if (row := nodes.index(name)) is not None]
    return nodes.take(np.array(sorted(rows), dtype=np.int64))


def _one(nodes: Nodes, name: str) -> Nodes:
    """Return the view of one of `nodes`."""
    return nodes.take(np.array([nodes.index(name)], dtype=np.int64))


def _filter_one(profile: Profile, state: CycleState, pod: Pod, nodes: Nodes, name: str) -> FilterOutcome | None:
    """Filter one of `nodes`; None where there is no such node."""
    return None if nodes.index(name) is None else profile.find_feasible(state, pod, _one(nodes, name))


def _filter_all(
    profile: Profile, state: CycleState, pod: Pod, nodes: Nodes, diagnosis: Diagnosis, observer: Observer
) -> FilterOutcome:
    """Filter all nodes, and work out the statuses of all of them."""
    statuses = profile.run_filters(state, pod, nodes)
    statuses.absent = diagnosis.node_statuses.absent
    observer.on_filter(nodes, statuses)
    failed = statuses.rows_with(Code.ERROR)
    error = statuses.status(int(failed[0])) if len(failed) else None
    return FilterOutcome(np.flatnonzero(statuses.passed()), statuses, len(nodes), error)


def _feasible(outcome: FilterOutcome, nodes: Nodes, diagnosis: Diagnosis) -> Nodes | None:
    """Return the nodes that passed Filter; None, with `diagnosis` filled in, where none did."""
    if outcome.status is not None:
        _raise_error(outcome.status)
    if len(outcome.rows):
        # Where every node is feasible the view is the same: the full view's columns need no copy.
        return nodes if len(outcome.rows) == len(nodes) else nodes.take(outcome.rows)
    if outcome.statuses is not None:
        _note_statuses(outcome.statuses, diagnosis)
    return None


async def _extend(
    extenders: PlacementExtenders,
    profile: Profile,
    state: CycleState,
    pod: Pod,
    found: _Found,
    diagnosis: Diagnosis,
    refused: dict[str, Status],
    observer: Observer | None,
) -> _Found | None:
    """Return the feasible nodes that the extenders accept; None, with `diagnosis` filled in, where there is none."""
    before = found.feasible
    found.feasible = await extenders.filter(pod, before, refused)
    if len(found.feasible) < len(before):
        diagnosis.unschedulable_plugins.add(EXTENDER)
    if not len(found.feasible):
        if found.statuses is None and found.processed > len(before):
            # Filter stopped at the first feasible node to work out why others are not.
            found.statuses = profile.run_filters(state, pod, found.filtered)
        if found.statuses is not None:
            _note_statuses(found.statuses, diagnosis)
        _note_refused(refused, diagnosis)
    if observer is not None:
        observer.on_extenders(found.feasible, refused)
    return found if len(found.feasible) else None


def _score(profile: Profile, state: CycleState, pod: Pod, nodes: Nodes, observer: Observer | None) -> Ranking:
    """Run PreScore and Score; whatever they return besides scores is an error."""
    status = profile.run_pre_score(state, pod, nodes)
    if status is not None:
        _raise_error(status, always=True)
    ranking: Ranking
    if observer is None:
        ranking = profile.rank_nodes(state, pod, nodes)
    else:
        ranking = scores = profile.run_score(state, pod, nodes, details=True)
        observer.on_score(nodes, scores)
    if ranking.status is not None:
        _raise_error(ranking.status, always=True)
    return ranking


async def _best_with_extenders(
    extenders: PlacementExtenders, pod: Pod, nodes: Nodes, totals: NDArray[np.int64], observer: Observer | None
) -> Sequence[int] | NDArray[np.int64]:
    """Add the extenders' scores to `totals`; return the rows with the highest total."""
    for name, scores in await extenders.prioritize(pod, nodes):
        totals += scores.weighted
        if observer is not None:
            observer.on_extender_scores(name, scores)
    return best_of(totals)


def _note_statuses(statuses: NodeStatuses, diagnosis: Diagnosis) -> None:
    """Add why every node that was filtered was rejected."""
    statuses.absent = diagnosis.node_statuses.absent
    diagnosis.node_statuses = statuses
    for status, _ in statuses.counts():
        diagnosis.add_plugin_status(status)


def _note_broken_nomination(broken: Mapping[str, Status], diagnosis: Diagnosis) -> None:
    """Add why the nominated node was rejected, unless it was filtered again with the other nodes.

    It was not where PreFilter had narrowed the nodes. Source: kube-scheduler 1.36, `evaluateNominatedNode`.
    """
    known = diagnosis.node_statuses
    if not broken or all(known.get(name) is not known.absent for name in broken):
        return
    diagnosis.node_statuses = NodeStatuses.from_mapping({**broken, **dict(known.items())}, absent=known.absent)
    diagnosis.unschedulable_plugins.update(status.plugin for status in broken.values())


def _note_refused(refused: Mapping[str, Status], diagnosis: Diagnosis) -> None:
    """Add the extenders' rejections, which replace what the filters said of these nodes.

    Nodes that an extender dropped without a reason have no status, like nodes that nobody filtered.
    """
    known = diagnosis.node_statuses
    diagnosis.node_statuses = NodeStatuses.from_mapping({**dict(known.items()), **refused}, absent=known.absent)


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
