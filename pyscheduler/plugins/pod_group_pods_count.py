"""PodGroupPodsCount: score each set of nodes by how many members of the PodGroup it can run.

Source: kube-scheduler 1.36, `plugins/podgrouppodscount`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pyscheduler.framework import (
    MAX_SCORE,
    CycleState,
    GroupAssignments,
    GroupInfo,
    PlacementScorePlugin,
    PlacementTable,
    Status,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["PodGroupPodsCount"]


class PodGroupPodsCount(PlacementScorePlugin):
    """Score by the number of members with a node: those that have one already, and those that would get one."""

    def score_placement(self, state: CycleState, group: GroupInfo, assignments: GroupAssignments) -> int | Status:
        return len(group.placed) + len(assignments.pods)

    def normalize_placement_scores(
        self, state: CycleState, group: GroupInfo, scores: NDArray[np.int64]
    ) -> Status | None:
        """Scale the scores so that the largest is 100."""
        most = int(scores.max(initial=0))
        if not most:
            text = "no pods from pod group are assigned to any of the candidate placements"
            return Status.from_error(RuntimeError(text))
        scores *= MAX_SCORE
        scores //= most
        return None

    def bound_placement_scores(
        self, state: CycleState, group: GroupInfo, table: PlacementTable, counts: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return int64[k]: the scores if each placement takes as many members as it can, and one takes all."""
        placed, members = len(group.placed), len(group.pods)
        return (placed + np.minimum(counts, members)) * MAX_SCORE // max(placed + members, 1)
