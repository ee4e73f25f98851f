"""The plugin: it ranks nodes with the learned weights."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from gym_policy.model import action_scores, learned_weights
from pyscheduler.framework import Handle
from pyscheduler_lab.gym import PolicyScore

__all__ = ["Learned"]


class Learned(PolicyScore):
    """Prefer the node that the model gives the greatest score."""

    name: ClassVar[str] = "Learned"

    def __init__(self, args: object = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        self._weights = learned_weights()

    def action_scores(self, observation: NDArray[np.float32]) -> NDArray[np.float64]:
        return action_scores(self._weights, observation)
