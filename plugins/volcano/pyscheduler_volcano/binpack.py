"""Volcano's plugin `binpack`: prefer the node that is fullest after the pod is placed.

Source: Volcano `plugins/binpack`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pyscheduler_batch.contract import CPU, MEMORY
from pyscheduler_volcano.policy import VolcanoPolicy, number_argument

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Amounts, Task

__all__ = ["Binpack", "binpack_scores", "resource_weights"]

_MAX_SCORE = 100


def resource_weights(arguments: Mapping[str, object]) -> dict[str, int]:
    """Return the weight of each resource that counts; negative weights count as 1."""
    weights = {CPU: 1, MEMORY: 1}
    keys = {CPU: "binpack.cpu", MEMORY: "binpack.memory"}
    for name in str(arguments.get("binpack.resources") or "").split(","):
        if name.strip():
            keys.setdefault(name.strip(), f"binpack.resources.{name.strip()}")
    for name, key in keys.items():
        weight = number_argument(arguments, key, 1)
        weights[name] = weight if weight >= 0 else 1
    return weights


def binpack_scores(
    request: Amounts, used: Amounts, allocatable: Amounts, weights: Amounts, counts: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return float64[n] from 0 to 100: the mean use of the nodes with the request, by weight.

    `used` and `allocatable` are float64[n, R], `weights` float64[R]; `counts`, bool[R], are the requested resources
    that have a weight. A resource that a node lacks counts as unused; one that the request would overdraw makes the
    node 0.
    """
    after = used[:, counts] + request[counts]
    offered = allocatable[:, counts]
    scale = weights[counts]
    takes_part = (offered != 0) & (scale != 0)
    parts = np.divide(after * scale, offered, out=np.zeros_like(after), where=takes_part)
    total: NDArray[np.float64] = parts.sum(axis=1)
    if scale.sum() > 0:
        total /= scale.sum()
    total[np.any(takes_part & (after > offered), axis=1)] = 0.0
    return total * _MAX_SCORE


class Binpack(VolcanoPolicy):
    """Prefer the node that is fullest after the task is placed; weight 0 switches the policy off."""

    name: ClassVar[str] = "binpack"

    def prepare(self) -> None:
        """Read the weights."""
        self._weight = number_argument(self.arguments, "binpack.weight", 1)
        axis = self.session.axis
        by_name = resource_weights(self.arguments)
        self._weights = axis.amounts(by_name)
        self._known = np.array([name in by_name for name in axis.names])

    def score_nodes(self, task: Task, rows: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """Return float64[n] for the nodes `rows`, or None if the weight is 0."""
        if self._weight == 0:
            return None
        nodes, request = self.session.nodes, task.request
        counts = self._known & self.session.scale.significant(request)

        def compute(dirty: NDArray[np.int64]) -> NDArray[np.float64]:
            allocatable = nodes.allocatable[dirty]
            used = allocatable - nodes.idle[dirty]
            return binpack_scores(request, used, allocatable, self._weights, counts) * self._weight

        scores: NDArray[np.float64] = self.session.rows.get((self, request.tobytes()), compute)[rows]
        return scores
