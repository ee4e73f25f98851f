"""PlacementGenerate plugins propose sets of nodes for a group of pods; PlacementScore plugins rank these sets.

Source: kube-scheduler 1.36, `RunPlacementGeneratePlugins`, `RunPlacementScorePlugins`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from pyscheduler.framework.group_placements import GroupPlacement
from pyscheduler.framework.status import MAX_SCORE, MIN_SCORE, Status
from pyscheduler.runtime.extension_points.arrays import expected_scores, score_array
from pyscheduler.runtime.extension_points.plugin_calls import error_status
from pyscheduler.runtime.extension_points.scoring import is_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pyscheduler.framework.cycle_state import CycleState
    from pyscheduler.framework.group_placements import GroupAssignments, GroupInfo, PlacementTable
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.runtime.extension_points.plugin_calls import PluginCalls, PluginMethod

__all__ = ["GroupPlacing", "PlacementScoreEntry"]

_NONE_FOUND: Final = "no feasible placements found"


@attrs.frozen
class PlacementScoreEntry:
    """A PlacementScore plugin: `score_placement`, its weight, and its optional methods."""

    method: PluginMethod
    weight: int
    normalize: PluginMethod | None = None
    bound: PluginMethod | None = None


@attrs.frozen
class GroupPlacing:
    """The PlacementGenerate and PlacementScore plugins of a profile."""

    calls: PluginCalls
    generators: Sequence[PluginMethod]
    entries: Sequence[PlacementScoreEntry]

    def generate(self, state: CycleState, group: GroupInfo, nodes: Nodes) -> Sequence[GroupPlacement] | Status:
        """Return the placements of a group, at least one; a rejection if there is none, or an error."""
        began = self.calls.clock.now()
        found = self._generate(state, group, GroupPlacement("", nodes))
        self.calls.point("PlacementGenerate", found if isinstance(found, Status) else None, began)
        return found

    def _generate(
        self, state: CycleState, group: GroupInfo, parent: GroupPlacement
    ) -> Sequence[GroupPlacement] | Status:
        if not self.generators:
            return (parent,)
        method, pod = self.generators[0], group.pods[0]
        answer = self.calls.run(method, pod, state, group, parent, sampled=True)
        if isinstance(answer, Status):
            if not (answer.is_rejected or answer.is_error):
                return self.calls.wrapped(method, pod, answer)
            return answer.with_plugin(method.plugin)
        if not isinstance(answer, (list, tuple)) or not all(isinstance(each, GroupPlacement) for each in answer):
            return self.calls.wrong_type(method, pod, answer, "a list of GroupPlacement, or Status")
        placements = [each for each in answer if len(each.nodes)]
        return placements or Status.unschedulable(_NONE_FOUND).with_plugin(method.plugin)

    def score(
        self, state: CycleState, group: GroupInfo, assignments: Sequence[GroupAssignments]
    ) -> NDArray[np.int64] | Status:
        """Return int64[k]: the weighted total of each placement; an error if a plugin fails."""
        began = self.calls.clock.now()
        totals = self._score(state, group, assignments)
        self.calls.point("PlacementScore", totals if isinstance(totals, Status) else None, began)
        return totals

    def _score(
        self, state: CycleState, group: GroupInfo, assignments: Sequence[GroupAssignments]
    ) -> NDArray[np.int64] | Status:
        totals: NDArray[np.int64] = np.zeros(len(assignments), dtype=np.int64)
        for entry in self.entries:
            scores = self._score_one(entry, state, group, assignments)
            if isinstance(scores, Status):
                return scores
            totals += scores * entry.weight
        return totals

    def _score_one(
        self, entry: PlacementScoreEntry, state: CycleState, group: GroupInfo, assignments: Sequence[GroupAssignments]
    ) -> NDArray[np.int64] | Status:
        calls, method, pod = self.calls, entry.method, group.pods[0]
        scores: NDArray[np.int64] = np.zeros(len(assignments), dtype=np.int64)
        for index, each in enumerate(assignments):
            answer = calls.run(method, pod, state, group, each, sampled=True)
            if isinstance(answer, Status):
                return calls.wrapped(method, pod, answer)
            if not is_whole(answer):
                return calls.wrong_type(method, pod, answer, "int or Status")
            scores[index] = answer
        if entry.normalize is not None:
            answer = calls.run(entry.normalize, pod, state, group, scores, sampled=True)
            status = calls.status_of(entry.normalize, pod, answer)
            if status is not None:
                return calls.wrapped(entry.normalize, pod, status)
        wrong = scores[(scores < MIN_SCORE) | (scores > MAX_SCORE)]
        if len(wrong):
            message = (
                f'applying score defaultWeights on PlacementScore plugins: plugin "{method.plugin}" returns an invalid '
                f"score {wrong[0]}, it should in the range of [{MIN_SCORE}, {MAX_SCORE}] after normalizing"
            )
            return error_status(message, plugin=method.plugin)
        return scores

    def bounds(
        self, state: CycleState, group: GroupInfo, table: PlacementTable, counts: NDArray[np.int64]
    ) -> NDArray[np.int64] | None:
        """Return int64[k]: the highest total that each placement can get if some placement takes all members.

        `counts`: int64[k], the most members that each placement can take. None if a plugin has no bound.
        """
        totals: NDArray[np.int64] = np.zeros(len(table), dtype=np.int64)
        for entry in self.entries:
            if entry.bound is None:
                return None
            answer = self.calls.run(entry.bound, group.pods[0], state, group, table, counts)
            bounds = score_array(answer, len(table))
            if bounds is None:
                # None and an exception say that there is no bound.
                if answer is not None and not isinstance(answer, Status):
                    self.calls.wrong_type(entry.bound, group.pods[0], answer, expected_scores(answer, len(table)))
                return None
            totals += bounds * entry.weight
        return totals
