"""KAI's plugin `podaffinity`: preferred (anti-)affinity between pods.

Source: KAI-Scheduler, `plugins/podaffinity`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from pyscheduler_batch.contract import Policy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Session, Task

__all__ = ["PodAffinity"]

#: What one point of a preference counts: more than all other scores but that of the nominated node.
_WEIGHT: Final = 1_000_000.0
_PLUGIN: Final = "InterPodAffinity"


class PodAffinity(Policy):
    """Prefer nodes by preferred pod affinity and anti-affinity, with the weights of the pods."""

    name: ClassVar[str] = "podaffinity"

    def open_session(self, session: Session) -> None:
        """Remember the placer."""
        self._placer = session.placer

    def score_nodes(self, task: Task, rows: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """Return float64[n]: the sums of weights, not scaled, as in KAI; None if nobody prefers anything."""
        scores = self._placer.raw_scores(_PLUGIN, task, rows)
        return None if scores is None else _WEIGHT * scores
