"""Find the nodes on which a pod could run, without changing anything, and keep the result of each step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from pyscheduler.framework.cycle_state import CycleState
from pyscheduler.framework.diagnosis import FitError, NoNodesError
from pyscheduler.framework.errors import PluginError
from pyscheduler.framework.pod_info import PodInfo
from pyscheduler.framework.preemption import PreemptionFindings, preemption_findings
from pyscheduler.framework.status import Code, Status
from pyscheduler.framework.trial import Trial, TrialKind
from pyscheduler.runtime.extension_points.event_registration import EXTENDER
from pyscheduler.runtime.extension_points.reserving import try_reserve
from pyscheduler.runtime.extension_points.run_context import context_of
from pyscheduler.runtime.placement import rejection_of
from pyscheduler.runtime.statement import Statement
from pyscheduler.scheduler.extender_wire import ExtenderError
from pyscheduler.scheduler.nearest_miss import Miss, closest_nodes, nearest_misses
from pyscheduler.scheduler.obstacles_alone import Obstacles, obstacles_alone
from pyscheduler.scheduler.pod_status import WAITING_ON_PERMIT

if TYPE_CHECKING:
    from collections.abc import Mapping, Set as AbstractSet

    from pyscheduler.api import Pod
    from pyscheduler.framework.diagnosis import Diagnosis
    from pyscheduler.framework.interfaces import PostFilterResult
    from pyscheduler.framework.node_statuses import NodeStatuses
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.framework.snapshot import Snapshot
    from pyscheduler.runtime.extension_points.pre_filtering import PreFilterOutcome
    from pyscheduler.runtime.extension_points.scoring import ScoreOutcome
    from pyscheduler.runtime.placement import PlacementPipeline
    from pyscheduler.runtime.profile import Profile
    from pyscheduler.scheduler.scheduler import Scheduler

__all__ = ["Evaluation", "evaluate"]


@attrs.define(kw_only=True)
class Evaluation:
    """The results of each step for one pod; None for steps that did not run. An `Observer` of the pipeline."""

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
    #: The nodes that were filtered, and the statuses of all of them.
    filtered: Nodes | None = None
    statuses: NodeStatuses | None = None
    #: The feasible nodes and their scores; None where there are none.
    feasible: Nodes | None = None
    scores: ScoreOutcome | None = None
    #: Reserve's rejection on `best_node`; None when it let the pod pass, or did not run.
    reserve: Status | None = None
    #: Why nothing is feasible; its text is what a pending pod says.
    fit_error: FitError | NoNodesError | None = None
    #: What PostFilter answered, where it was asked.
    post_filter: Status | None = None
    post_filter_result: PostFilterResult | None = None
    #: What preemption found, where somebody preempts.
    preemption: PreemptionFindings | None = None
    #: By plugin that rejected nodes, how near the pod came; empty unless asked for.
    misses: list[Miss] = attrs.Factory(list)
    #: What each plugin alone rejects, and which plugins keep the pod from the nodes where the fewest do; if no node is
    #: feasible and if asked for.
    obstacles: Obstacles | None = None
    closest: str = ""
    #: The evaluation without PreEnqueue, of a pod that PreEnqueue rejects; None unless asked for.
    ungated: Evaluation | None = None
    #: A failure that is no rejection: a plugin broke.
    error: Status | None = None

    @property
    def message(self) -> str:
        """Return what the pod's PodScheduled condition would say; "" where the pod could be placed."""
        if self.error is not None:
            return self.error.message
        if self.pre_enqueue is not None:
            return self.pre_enqueue.message
        if self.reserve is not None:
            return rejection_of(self.reserve, self.best_node).message
        return str(self.fit_error) if self.fit_error is not None else ""

    @property
    def best_node(self) -> str:
        """Return the first of the nodes with the highest score; "" if no node is feasible."""
        if self.feasible is None or self.scores is None:
            return ""
        return self.feasible.name(int(np.argmax(self.scores.totals)))

    @property
    def wait(self) -> str:
        """Return why the pod waits at Permit at this moment, by its condition; "" if it does not."""
        waits = (each for each in self.pod.status.conditions if each.reason == WAITING_ON_PERMIT)
        return next((each.message for each in waits if each.status == "False"), "")

    # Called by the pipeline after each step

    def on_pre_filter(self, outcome: PreFilterOutcome) -> None:
        """Note which nodes PreFilter left, or why it rejected the pod."""
        if outcome.status is None:
            self.node_names = outcome.result.node_names if outcome.result is not None else None
        elif outcome.status.is_rejected:
            self.pre_filter = outcome.status

    def on_filter(self, nodes: Nodes, statuses: NodeStatuses) -> None:
        """Note which nodes passed the filters."""
        self.filtered, self.statuses = nodes, statuses
        self._note_feasible()

    def on_extenders(self, feasible: Nodes, refused: Mapping[str, Status]) -> None:
        """Reject the nodes that the extenders dropped."""
        assert self.filtered is not None
        assert self.statuses is not None
        for row in np.flatnonzero(self.statuses.passed()).tolist():
            name = self.filtered.name(row)
            if feasible.index(name) is None:
                # Nobody knows what would help a node that an extender dropped without a reason.
                status = refused.get(name, Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE))
                self.statuses.fail_row(row, status.with_plugin(EXTENDER))
        self._note_feasible()

    def on_score(self, nodes: Nodes, outcome: ScoreOutcome) -> None:
        """Note the scores of the feasible nodes."""
        self.feasible, self.scores = nodes, outcome

    def _note_feasible(self) -> None:
        assert self.filtered is not None
        assert self.statuses is not None
        rows = np.flatnonzero(self.statuses.passed())
        self.feasible = self.filtered.take(rows) if len(rows) else None


async def evaluate(
    scheduler: Scheduler,
    profile: Profile,
    pod: Pod,
    *,
    post_filter: bool = True,
    reserve: bool = False,
    miss_notes: list[str] | None = None,
) -> Evaluation:
    """Ask the profile's plugins, and the extenders, about `pod` on the cluster as the cache has it.

    All nodes are filtered, whatever `percentageOfNodesToScore` says, and scored even where only one is feasible. With
    `post_filter` False, PostFilter does not run where nothing fits. With `reserve`, Reserve runs on the best node, in a
    trial. Permit does not run: the plugins of groups answer there about members that have a node. Nothing is written.
    With `miss_notes`, plugins say how near the pod came to the nodes; their failures are added to it.
    """
    async with scheduler.snapshot_access:
        scheduler.snapshot_access.refresh()
        found = Evaluation(
            pod=pod, profile=profile, state=CycleState(Trial(TrialKind.EXPLAIN)), all_nodes=scheduler.snapshot.nodes
        )
        status = profile.run_pre_enqueue(pod)
        if status is None:
            await _place(found, scheduler.scheduling.pipeline, post_filter=post_filter)
            if reserve and found.error is None and found.best_node:
                _reserve(found, scheduler.snapshot)
            if miss_notes is not None:
                _note_misses(found, miss_notes)
        elif status.is_rejected:
            found.pre_enqueue = status
            if miss_notes is not None:
                found.ungated = attrs.evolve(found, pre_enqueue=None, state=CycleState(Trial(TrialKind.EXPLAIN)))
                await _place(found.ungated, scheduler.scheduling.pipeline, post_filter=False)
                _note_misses(found.ungated, miss_notes)
        else:
            found.error = status
    return found


def _note_misses(found: Evaluation, notes: list[str]) -> None:
    """Let the plugins say how near the pod came to a node; add their failures to `notes`."""
    if found.feasible is None and found.error is None and len(found.all_nodes):
        found.obstacles = obstacles_alone(found.profile, found.pod, found.all_nodes)
    found.misses = nearest_misses(found, notes)
    found.closest = closest_nodes(found)


async def _place(found: Evaluation, pipeline: PlacementPipeline, *, post_filter: bool) -> None:
    """Run the pipeline, and PostFilter where nothing fits."""
    try:
        await pipeline.for_trial().find_node(found.profile, found.state, found.pod, observer=found)
    except PluginError as error:
        found.error = Status(Code.ERROR, plugin=error.plugin, error=error)
    except ExtenderError as error:
        found.error = Status.from_error(error).with_plugin(EXTENDER)
        found.feasible = None
    except NoNodesError as error:
        found.fit_error = error
    except FitError as error:
        if post_filter and found.profile.has_post_filter:
            await _post_filter(found, error.diagnosis)
        found.fit_error = error
    context = context_of(found.state)
    found.skipped_filters, found.skipped_scores = context.skip_filter, context.skip_score


def _reserve(found: Evaluation, snapshot: Snapshot) -> None:
    """Run Reserve for the pod on its best node, and Unreserve."""
    node_name = found.best_node
    info = PodInfo.of(found.pod.with_node_name(node_name))
    with Statement(snapshot, TrialKind.EXPLAIN) as statement:
        statement.place(info, node_name)
        status = try_reserve(found.profile, found.state, info.pod, node_name)
    if status is not None and status.is_rejected:
        found.reserve = status
    else:
        found.error = status


async def _post_filter(found: Evaluation, diagnosis: Diagnosis) -> None:
    """Run PostFilter without its effects: preemptors evict nobody, and leave what they found."""
    profile, state, pod = found.profile, found.state, found.pod
    result, status = await profile.run_post_filter(state, pod, diagnosis.node_statuses)
    found.preemption = preemption_findings(state) or _unasked(profile, pod, diagnosis.node_statuses)
    found.post_filter, found.post_filter_result = status, result
    diagnosis.post_filter_message = status.message


def _unasked(profile: Profile, pod: Pod, statuses: NodeStatuses) -> PreemptionFindings | None:
    """Return whether the pod may preempt, where an earlier plugin ended PostFilter; None where nobody preempts."""
    for preemptor in profile.preemptors.values():
        return PreemptionFindings(refusal=preemptor.refusal(pod, statuses))
    return None
