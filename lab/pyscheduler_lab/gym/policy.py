"""A Score plugin that takes its scores from a learned policy, such as a neural network.

The policy returns a score for each node, and then a score for leaving the pod pending, which the plugin ignores.

    class Learned(PolicyScore):
        name = "Learned"

        def action_scores(self, observation):
            return network(observation)

To let the policy decide alone, disable the other Score plugins:

    score: {disabled: [{name: "*"}], enabled: [{name: Learned}]}
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from pyscheduler.framework import MAX_SCORE, ScorePlugin
from pyscheduler_batch.gpu_sharing.shared import SHARED_KEY
from pyscheduler_lab.gym.observation import observe

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyscheduler.api import Pod
    from pyscheduler.framework import CycleState, Handle, Nodes
    from pyscheduler_batch.gpu_sharing.plugin import GpuSharing

__all__ = ["PolicyScore"]


class PolicyScore(ScorePlugin, ABC):
    """Base class of plugins that rank nodes with a policy; set `name` and define `action_scores`."""

    def __init__(self, args: object = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        #: By profile; the plugin GpuSharing enters itself, if the profile has it.
        self._sharing: dict[str, GpuSharing] = handle.shared(SHARED_KEY, dict) if handle is not None else {}

    @abstractmethod
    def action_scores(self, observation: NDArray[np.float32]) -> NDArray[np.floating]:
        """Return a score for each action: float[n + 1] for n nodes, of which the greatest feasible one is chosen."""

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NDArray[np.int64]:  # noqa: ARG002 - the contract's
        """Return 100 for the nodes that the policy prefers, and less for the others, in proportion to their scores."""
        every = self.handle.snapshot.nodes
        size = len(every) + 1
        observation = observe(every, pod, self._sharing.get(self.handle.profile_name))
        given = np.asarray(self.action_scores(observation), dtype=np.float64)
        if given.shape != (size,):
            raise ValueError(
                f"action_scores returned an array of shape {given.shape}; it must have {size} scores, one for each "
                "node and one for no node"
            )
        return _as_scores(given[nodes.rows])


def _as_scores(given: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return whole numbers from 0 to 100; only the greatest value has 100."""
    if not np.isfinite(given).all():
        raise ValueError("action_scores returned a score of a feasible node that is not finite")
    low, high = given.min(), given.max()
    if low == high:
        return np.zeros(len(given), dtype=np.int64)
    scores: NDArray[np.int64] = np.floor((given - low) / (high - low) * (MAX_SCORE - 1)).astype(np.int64)
    scores[given == high] = MAX_SCORE
    return scores
