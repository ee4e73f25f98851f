"""What scheduling a pod would come to: every extension point that decides, asked about every node, and nothing done.

The same profiles, on the same snapshot, as in the scheduling cycle; but where the cycle is content with a node, this
keeps everything that was said on the way: who rejected which node and why, what each plugin's scores were before and
after normalisation, whom preemption would have chosen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from pyscheduler.framework.cycle_state import CycleState
from pyscheduler.framework.diagnosis import Diagnosis, FitError, NoNodesError
from pyscheduler.framework.preemption import PREEMPTION_FINDINGS, PreemptionFindings
from pyscheduler.framework.status import Code, Status
from pyscheduler.framework.trial import Trial, TrialKind
from pyscheduler.runtime.event_registration import EXTENDER
from pyscheduler.runtime.run_context import context_of
from pyscheduler.scheduler.algorithm import note_filters, note_pre_filter, searched_nodes
from pyscheduler.scheduler.extended_algorithm import note_refused
from pyscheduler.scheduler.extender_wire import ExtenderError

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from numpy.typing import NDArray

    from pyscheduler.api import Pod
    from pyscheduler.framework.interfaces import PostFilterResult
    from pyscheduler.framework.node_statuses import NodeStatuses
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.runtime.profile import Profile
    from pyscheduler.runtime.scoring import ScoreOutcome
    from pyscheduler.scheduler.extenders import Extenders
    from pyscheduler.scheduler.scheduler import Scheduler

__all__ = ["Evaluation", "evaluate"]

_NO_ROWS = np.empty(0, dtype=np.int64)


@attrs.define(kw_only=True)
class Evaluation:
    """What was said about one pod. Later parts are missing (None) where an earlier one settled the matter."""

    pod: Pod
    profile: Profile
    #: The cycle's state, as the plugins left it.
    state: CycleState
    #: All nodes of the snapshot.
    all_nodes: Nodes
    #: Why the pod may not even stand in line; None when it may.
    pre_enqueue: Status | None = None
    #: PreFilter's rejection; None when it let the pod pass.
    pre_filter: Status | None = None
    #: The names of the nodes that PreFilter left; None for all of them.
    node_names: AbstractSet[str] | None = None
    #: Plugins that skipped Filter, and Score.
    skipped_filters: AbstractSet[str] = frozenset()
    skipped_scores: AbstractSet[str] = frozenset()
    #: The nodes that were filtered, the complete statuses of them, and int64[k], the rows that passed.
    filtered: Nodes | None = None
    statuses: NodeStatuses | None = None
    rows: NDArray[np.int64] = attrs.field(factory=lambda: _NO_ROWS)
    #: The feasible nodes and their scores; None where there are none.
    feasible: Nodes | None = None
    scores: ScoreOutcome | None = None
    #: Why nothing is feasible; its text is what a pending pod says.
    fit_error: FitError | NoNodesError | None = None
    #: What PostFilter answered, where it was asked.
    post_filter: Status | None = None
    post_filter_result: PostFilterResult | None = None
    #: What preemption found, where somebody preempts.
    preemption: PreemptionFindings | None = None
    #: A failure that is no rejection: a plugin broke.
    error: Status | None = None

    @property
    def message(self) -> str:
        """Return what the pod's PodScheduled condition would say; "" where the pod could be placed."""
        if self.error is not None:
            return self.error.message
        if self.pre_enqueue is not None:
            return self.pre_enqueue.message
        return str(self.fit_error) if self.fit_error is not None else ""


async def evaluate(scheduler: Scheduler, profile: Profile, pod: Pod, *, post_filter: bool = True) -> Evaluation:
    """Ask the profile's plugins, and the extenders, about `pod` on the cluster as the cache has it.

    All nodes are looked at, whatever `percentageOfNodesToScore` says, and scored even where only one is feasible. With
    `post_filter` False, plugins that make room are not asked when nothing fits. Nothing is reserved or written.
    """
    scheduler.cache.update_snapshot(scheduler.snapshot)
    state = CycleState(Trial(TrialKind.EXPLAIN))
    found = Evaluation(pod=pod, profile=profile, state=state, all_nodes=scheduler.snapshot.nodes)
    status = profile.run_pre_enqueue(pod)
    if status is not None:
        if status.is_rejected:
            found.pre_enqueue = status
        else:
            found.error = status
        return found
    if not len(found.all_nodes):
        found.fit_error = NoNodesError()
        return found
    diagnosis = Diagnosis()
    _filter(found, diagnosis)
    if scheduler.extenders is not None and found.feasible is not None and found.error is None:
        await _ask_filtering(found, scheduler.extenders, found.feasible, diagnosis)
    if found.error is not None:
        return found
    if found.feasible is not None:
        _score(found, found.feasible)
        if scheduler.extenders is not None and found.scores is not None and found.error is None:
            await _ask_scoring(found, scheduler.extenders, found.feasible, found.scores)
        return found
    if post_filter and profile.has_post_filter:
        result, status = await profile.run_post_filter(state, pod, diagnosis.node_statuses)
        found.preemption = state.get(PREEMPTION_FINDINGS) or _unasked(profile, pod, diagnosis.node_statuses)
        found.post_filter, found.post_filter_result = status, result
        diagnosis.post_filter_message = status.message
    found.fit_error = FitError(num_all_nodes=len(found.all_nodes), diagnosis=diagnosis)
    return found


def _unasked(profile: Profile, pod: Pod, statuses: NodeStatuses) -> PreemptionFindings | None:
    """Return whether the pod may preempt, where an earlier plugin ended PostFilter; None where nobody preempts."""
    for preemptor in profile.preemptors.values():
        return PreemptionFindings(refusal=preemptor.refusal(pod, statuses))
    return None


def _filter(found: Evaluation, diagnosis: Diagnosis) -> None:
    """Run PreFilter and Filter."""
    profile, state, pod = found.profile, found.state, found.pod
    outcome = profile.run_pre_filter(state, pod, found.all_nodes)
    found.skipped_filters = context_of(state).skip_filter
    if outcome.result is not None and outcome.status is None:
        found.node_names = outcome.result.node_names
    if outcome.status is not None and not outcome.status.is_rejected:
        found.error = outcome.status
        return
    if note_pre_filter(outcome, diagnosis):
        found.pre_filter = outcome.status
        return
    nodes = searched_nodes(outcome, found.all_nodes, diagnosis)
    found.filtered = nodes
    statuses = found.statuses = profile.run_filters(state, pod, nodes)
    statuses.absent = diagnosis.node_statuses.absent
    failed = statuses.rows_with(Code.ERROR)
    if len(failed):
        found.error = statuses.status(int(failed[0]))
        return
    found.rows = np.flatnonzero(statuses.passed())
    if len(found.rows):
        found.feasible = nodes.take(found.rows)
    elif len(nodes):
        note_filters(statuses, diagnosis)


async def _ask_filtering(found: Evaluation, extenders: Extenders, feasible: Nodes, diagnosis: Diagnosis) -> None:
    """Let extenders narrow what the filters left."""
    assert found.filtered is not None
    assert found.statuses is not None
    refused: dict[str, Status] = {}
    try:
        left = await extenders.filter(found.pod, feasible, refused)
    except ExtenderError as error:
        found.error = Status.from_error(error).with_plugin(EXTENDER)
        found.feasible = None
        return
    if len(left) == len(feasible):
        return
    if not len(left):
        note_filters(found.statuses, diagnosis)
        note_refused(diagnosis, refused)
    diagnosis.unschedulable_plugins.add(EXTENDER)
    kept = {left.name(row) for row in range(len(left))}
    for row in found.rows.tolist():
        name = found.filtered.name(row)
        if name not in kept:
            # One that is dropped without a word is beyond help, as far as anybody knows.
            status = refused.get(name, Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE))
            found.statuses.fail_row(row, status.with_plugin(EXTENDER))
    found.rows = np.flatnonzero(found.statuses.passed())
    found.feasible = left if len(left) else None


async def _ask_scoring(found: Evaluation, extenders: Extenders, nodes: Nodes, outcome: ScoreOutcome) -> None:
    """Add the extenders' scores, each under the name of its extender."""
    by_name = dict(outcome.by_plugin)
    for name, scores in await extenders.prioritize(found.pod, nodes):
        by_name[name] = scores
        outcome.totals += scores.weighted
    outcome.by_plugin = by_name


def _score(found: Evaluation, nodes: Nodes) -> None:
    """Run PreScore and Score on the feasible nodes."""
    profile, state, pod = found.profile, found.state, found.pod
    found.error = profile.run_pre_score(state, pod, nodes)
    found.skipped_scores = context_of(state).skip_score
    if found.error is None:
        found.scores = profile.run_score(state, pod, nodes, details=True)
        found.error = found.scores.status
