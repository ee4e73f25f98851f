"""Find a node for one pod: PreFilter, Filter, PreScore, Score, and a draw among the best.

Reads the snapshot and changes nothing. Where extenders have a say, `extended_algorithm` takes the same steps and asks
them in between. All nodes are looked at unless `percentageOfNodesToScore` is set; then the
search goes round the nodes in zone order from where the last one stopped, and ends when enough were found.
Source: kube-scheduler 1.36, `schedulePod` and what it calls.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from pyscheduler.framework.diagnosis import Diagnosis, FitError, NoNodesError
from pyscheduler.framework.errors import PluginError
from pyscheduler.framework.node_statuses import NodeStatuses
from pyscheduler.framework.status import Code, Status
from pyscheduler.runtime.batching import NodeList

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
    from pyscheduler.runtime.scoring import Ranking

__all__ = [
    "Algorithm",
    "Found",
    "Placement",
    "note_broken_promise",
    "note_filters",
    "note_pre_filter",
    "raise_error",
    "searched_nodes",
]

#: Never fewer nodes than these are looked at, whatever the percentage.
MIN_FEASIBLE_NODES: Final = 100
ALL_PERCENT: Final = 100


@attrs.define(kw_only=True)
class Placement:
    """Where a pod goes, and how many nodes were looked at and found feasible on the way."""

    node_name: str
    evaluated_nodes: int
    feasible_nodes: int


@attrs.define(kw_only=True)
class Found:
    """What the filters left: the feasible nodes; and what they were asked about: rows of `nodes` from `start` on."""

    feasible: Nodes
    evaluated: int
    nodes: Nodes
    start: int

    @property
    def searched(self) -> Nodes:
        """Return the nodes that were looked at."""
        if self.evaluated >= len(self.nodes):
            return self.nodes
        rows = np.arange(self.start, self.start + self.evaluated, dtype=np.int64) % len(self.nodes)
        return self.nodes.take(rows)


@attrs.define(kw_only=True)
class Algorithm:
    """The search for a node. `rng` breaks ties; the same seed gives the same choices."""

    snapshot: Snapshot
    rng: random.Random
    #: The configuration's global percentage; a profile may have its own. 0 means all nodes.
    percentage_of_nodes_to_score: int = 0
    #: Whether any extender filters or scores.
    extenders_choose: bool = False
    _next_start: int = 0

    def schedule_pod(
        self, profile: Profile, state: CycleState, pod: Pod, *, turn: BatchTurn | None = None
    ) -> Placement:
        """Return the best node for `pod`; with `turn`, by what was found for the pod before, where that is possible.

        Raises `NoNodesError` on an empty cluster, `FitError` when no node fits, `PluginError` when a plugin failed.
        """
        all_nodes = self.snapshot.nodes
        if not len(all_nodes):
            raise NoNodesError
        diagnosis = Diagnosis()
        outcome = self.pre_filter(profile, state, pod, diagnosis)
        if outcome is None:
            raise FitError(num_all_nodes=len(all_nodes), diagnosis=diagnosis)
        nominated = self.snapshot.nominated_node(pod)
        if turn is not None and (nominated or self._limit(profile, len(all_nodes)) < len(all_nodes)):
            turn.hint(lambda name: self._rejects(profile, state, pod, name))
        # Room was made there, or all others are worse, so it is likely the one: look at it alone first.
        broken: dict[str, Status] = {}
        one = self.nominated(profile, state, pod, broken, nominated or (turn.hinted if turn is not None else ""))
        if one is not None:
            if turn is not None:
                turn.settle(one.name(0))
            return Placement(node_name=one.name(0), evaluated_nodes=1, feasible_nodes=1)
        nodes = searched_nodes(outcome, all_nodes, diagnosis, broken)
        found = self.filter(profile, state, pod, nodes, diagnosis)
        if turn is not None and turn.hinted is None:
            hint = turn.hint(lambda name: _is_missing(found, name, all_nodes))
            if hint and found is not None and found.feasible.index(hint) is not None:
                turn.settle(hint)
                return Placement(node_name=hint, evaluated_nodes=1, feasible_nodes=1)
        if found is None:
            note_broken_promise(broken, diagnosis)
            raise FitError(num_all_nodes=len(all_nodes), diagnosis=diagnosis)
        nodes = found.feasible
        best = self._best(profile, state, pod, nodes, turn)
        return Placement(node_name=nodes.name(best), evaluated_nodes=found.evaluated, feasible_nodes=len(nodes))

    def _best(self, profile: Profile, state: CycleState, pod: Pod, nodes: Nodes, turn: BatchTurn | None) -> int:
        """Return the row of the best of the feasible nodes, and keep the others' places for the next pod."""
        if len(nodes) == 1:
            if turn is not None:
                turn.settle(nodes.name(0))
            return 0
        ranking = self.scores(profile, state, pod, nodes)
        best = self.draw(ranking.best)
        if turn is not None:
            others = partial(NodeList.without, best, nodes, view=self.snapshot.nodes, rng=self.rng)
            turn.settle(nodes.name(best), lambda: others(ranking.totals))
        return best

    def _rejects(self, profile: Profile, state: CycleState, pod: Pod, name: str) -> bool | None:
        """Return True if the filters reject a pod on a node; None where there is no such node."""
        row = self.snapshot.nodes.index(name)
        if row is None:
            return None
        found = profile.find_feasible(state, pod, self.snapshot.nodes.take(np.array([row], dtype=np.int64)))
        return found.status is None and not len(found.rows)

    def pre_filter(
        self, profile: Profile, state: CycleState, pod: Pod, diagnosis: Diagnosis
    ) -> PreFilterOutcome | None:
        """Run PreFilter; None, with `diagnosis` filled in, where it rejects the pod."""
        outcome = profile.run_pre_filter(state, pod, self.snapshot.nodes)
        if outcome.status is not None:
            raise_error(outcome.status)
        return None if note_pre_filter(outcome, diagnosis) else outcome

    def nominated(
        self, profile: Profile, state: CycleState, pod: Pod, broken: dict[str, Status], name: str | None = None
    ) -> Nodes | None:
        """Return the node that the pod was promised, or `name`, if it fits there; else say why not in `broken`."""
        if name is None:
            name = self.snapshot.nominated_node(pod)
        row = self.snapshot.nodes.index(name) if name else None
        if row is None:
            return None
        one = self.snapshot.nodes.take(np.array([row], dtype=np.int64))
        found = profile.find_feasible(state, pod, one)
        if found.status is None and len(found.rows):
            return one
        status = found.statuses.status(0) if found.statuses is not None else None
        if status is not None:
            broken[name] = status
        return None

    def filter(self, profile: Profile, state: CycleState, pod: Pod, nodes: Nodes, diagnosis: Diagnosis) -> Found | None:
        """Return the feasible ones of `nodes`; None, with `diagnosis` filled in, where there is none."""
        if not len(nodes):
            return None
        limit = self._limit(profile, len(nodes))
        start = 0
        if limit < len(nodes):
            # Where all are looked at it does not matter which is the first.
            start = self._next_start % len(nodes)
            if nodes is self.snapshot.nodes:
                nodes = nodes.take(self.snapshot.order())
        found = profile.find_feasible(state, pod, nodes, limit=limit, start=start)
        self._next_start = (self._next_start + found.processed) % len(self.snapshot.nodes)
        if found.status is not None:
            raise_error(found.status)
        if len(found.rows):
            # Where every node is feasible the view is the same: the full view's columns need no copy.
            chosen = nodes if len(found.rows) == len(nodes) else nodes.take(found.rows)
            return Found(feasible=chosen, evaluated=found.processed, nodes=nodes, start=start)
        if found.statuses is not None:
            note_filters(found.statuses, diagnosis)
        return None

    def _limit(self, profile: Profile, num_nodes: int) -> int:
        """Return how many feasible nodes are enough.

        Differs from kube-scheduler: with percentage 0 all nodes are looked at, since columns make that cheaper than a
        sample.
        """
        if not profile.has_score and not self.extenders_choose:
            return 1
        percentage = profile.percentage_of_nodes_to_score
        if percentage is None:
            percentage = self.percentage_of_nodes_to_score
        if percentage in {0, ALL_PERCENT} or num_nodes < MIN_FEASIBLE_NODES:
            return num_nodes
        return max(num_nodes * percentage // 100, MIN_FEASIBLE_NODES)

    def scores(self, profile: Profile, state: CycleState, pod: Pod, nodes: Nodes) -> Ranking:
        """Run PreScore and Score."""
        status = profile.run_pre_score(state, pod, nodes)
        if status is not None:
            raise_error(status, always=True)
        outcome = profile.rank_nodes(state, pod, nodes)
        if outcome.status is not None:
            raise_error(outcome.status, always=True)
        return outcome

    def draw(self, best: Sequence[int] | NDArray[np.int64]) -> int:
        """Return one of the best rows, drawn at random.

        Differs from kube-scheduler: 1.36 draws only where an extender scored the nodes; else the order decides in which
        its goroutines found them, which is no order to rely on.
        """
        return int(best[0] if len(best) == 1 else best[self.rng.randrange(len(best))])


def _is_missing(found: Found | None, name: str, nodes: Nodes) -> bool | None:
    """Return True if a node is not among those that were found; None where there is no such node."""
    if nodes.index(name) is None:
        return None
    return found is None or found.feasible.index(name) is None


def note_pre_filter(outcome: PreFilterOutcome, diagnosis: Diagnosis) -> bool:
    """Take down what PreFilter came to; tell whether it rejected the pod."""
    diagnosis.unschedulable_plugins = set(outcome.narrowed_by)
    if outcome.status is None:
        return False
    diagnosis.pre_filter_message = outcome.status.message
    diagnosis.node_statuses.absent = outcome.status
    diagnosis.add_plugin_status(outcome.status)
    return True


def searched_nodes(
    outcome: PreFilterOutcome, all_nodes: Nodes, diagnosis: Diagnosis, broken: Mapping[str, Status] | None = None
) -> Nodes:
    """Return the nodes that PreFilter left to look at; take down what the others are told.

    They are also told who refused the node that the pod was promised, as `broken` says: kube-scheduler has noted that
    by then among the plugins it names.
    """
    result = outcome.result
    if result is None or result.node_names is None:
        return all_nodes
    named = {*outcome.narrowed_by, *(status.plugin for status in (broken or {}).values() if status.plugin)}
    absent = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(named))}]"
    diagnosis.node_statuses.absent = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, absent)
    rows = [row for name in result.node_names if (row := all_nodes.index(name)) is not None]
    return all_nodes.take(np.array(sorted(rows), dtype=np.int64))


def note_filters(statuses: NodeStatuses, diagnosis: Diagnosis) -> None:
    """Take down why every node that was looked at was refused."""
    statuses.absent = diagnosis.node_statuses.absent
    diagnosis.node_statuses = statuses
    for status, _ in statuses.counts():
        diagnosis.add_plugin_status(status)


def note_broken_promise(broken: Mapping[str, Status], diagnosis: Diagnosis) -> None:
    """Take down why a pod does not fit on the node it was promised, where that is not among those looked at after it.

    It is not where PreFilter has narrowed the nodes meanwhile. Source: kube-scheduler 1.36, `evaluateNominatedNode`.
    """
    known = diagnosis.node_statuses
    if not broken or all(known.get(name) is not known.absent for name in broken):
        return
    statuses = {**broken, **dict(known.items())}
    diagnosis.node_statuses = NodeStatuses.from_mapping(statuses, absent=known.absent)
    diagnosis.unschedulable_plugins.update(status.plugin for status in broken.values())


def raise_error(status: Status, *, always: bool = False) -> None:
    """Raise what is not a rejection; at scoring there is nothing to reject, so `always`."""
    if always or not status.is_rejected:
        raise PluginError(status.message, plugin=status.plugin) from status.error
