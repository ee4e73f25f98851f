"""NodeResourcesBalancedAllocation: prefer nodes on which the pod evens out the use of resources.

The balance of a node is 100 less the standard deviation, in percent, of the used fractions of its resources. The
score is how much the pod improves it: around 75 where nothing changes, towards 100 when use becomes more even, towards
50 when it becomes less so. Best-effort pods change nothing and are left out.

The figures are float64, in kube-scheduler's order of operations, and cut to integers where it cuts them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api import Pod
from pyscheduler.framework import (
    MAX_SCORE,
    CycleState,
    Handle,
    Nodes,
    PreScorePlugin,
    ScorePlugin,
    SignFragment,
    SignPlugin,
    StateKey,
    Status,
)
from pyscheduler.framework.plugin_args import NodeResourcesBalancedAllocationArgs
from pyscheduler.plugins.node_resources.resource_allocation import (
    Allocation,
    allocations,
    requests_of,
    sign_resources,
)

__all__ = ["NodeResourcesBalancedAllocation", "balanced_allocation"]

_HALF: Final = MAX_SCORE // 2
#: With two resources kube-scheduler takes half their distance, which rounds otherwise than the general formula.
_PAIR: Final = 2
_REQUESTS: Final[StateKey[tuple[int, ...]]] = StateKey("PreScoreNodeResourcesBalancedAllocation")


class NodeResourcesBalancedAllocation(PreScorePlugin, ScorePlugin, SignPlugin):
    """Score nodes by how much more evenly used the pod would leave them."""

    args_type = NodeResourcesBalancedAllocationArgs

    def __init__(self, args: NodeResourcesBalancedAllocationArgs | None = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        resources = (args or NodeResourcesBalancedAllocationArgs()).resources
        self._resources = tuple((each.name, each.weight) for each in resources)
        self._names = tuple(name for name, _ in self._resources)

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        requests = requests_of(pod, self._names, use_requested=True)
        if not any(requests):
            return Status.skip()
        state.write(_REQUESTS, requests)
        return None

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NDArray[np.int64]:
        requests = state.read(_REQUESTS)
        return balanced_allocation(allocations(nodes, self._resources, requests, use_requested=True), len(nodes))

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
        return (sign_resources(pod),)


def balanced_allocation(resources: Sequence[Allocation], size: int) -> NDArray[np.int64]:
    """Score int64[size] by the improvement of each node's balance; weights do not matter."""
    with_pod = _balance([(each.requested, each.allocatable) for each in resources], size)
    without_pod = _balance([(each.allocated, each.allocatable) for each in resources], size)
    return _HALF + (_HALF + with_pod - without_pod) // 2


def _balance(resources: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]], size: int) -> NDArray[np.int64]:
    """Return int64[size] in 50..100 from (used, allocatable) of each resource; fewer than two balance perfectly."""
    offered = np.zeros((len(resources), size), dtype=np.bool_)
    fractions = np.zeros((len(resources), size), dtype=np.float64)
    for row, (used, allocatable) in enumerate(resources):
        np.not_equal(allocatable, 0, out=offered[row])
        np.divide(used, allocatable, out=fractions[row], where=offered[row])
    np.minimum(fractions, 1.0, out=fractions)
    number = offered.sum(axis=0)
    deviation = np.zeros(size, dtype=np.float64)
    if len(resources) >= _PAIR:
        lowest = np.where(offered, fractions, 1.0).min(axis=0)
        np.divide(fractions.max(axis=0) - lowest, 2.0, out=deviation, where=number == _PAIR)
    if len(resources) > _PAIR:
        np.copyto(deviation, _standard_deviation(fractions, offered, number), where=number > _PAIR)
    return ((1.0 - deviation) * float(MAX_SCORE)).astype(np.int64)


def _standard_deviation(
    fractions: NDArray[np.float64], offered: NDArray[np.bool_], number: NDArray[np.int64]
) -> NDArray[np.float64]:
    # Summed row by row, in the order of the resources: float sums depend on it. What a node lacks adds exactly 0.
    total = np.zeros(len(number), dtype=np.float64)
    for row in fractions:
        total += row
    count = np.maximum(number, 1)
    mean = total / count
    squares = np.zeros(len(number), dtype=np.float64)
    for row, counts in zip(fractions, offered, strict=True):
        squares += np.where(counts, (row - mean) * (row - mean), 0.0)
    return np.sqrt(squares / count)
