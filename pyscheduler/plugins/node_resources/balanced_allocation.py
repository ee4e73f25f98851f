"""NodeResourcesBalancedAllocation: prefer nodes on which the pod evens out the use of resources.

For example, if a node uses much CPU and little memory, it is better for a pod that needs much memory.
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
    Reuse,
    ScorePlugin,
    SignFragment,
    SignPlugin,
    StateKey,
    Status,
)
from pyscheduler.framework.extended_resources import ExtendedResources
from pyscheduler.framework.in_tree_args import NodeResourcesBalancedAllocationArgs
from pyscheduler.plugins.node_resources.groups import split
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

    reuse = Reuse.WHILE_AMOUNTS_STAY
    args_type = NodeResourcesBalancedAllocationArgs

    def __init__(self, args: NodeResourcesBalancedAllocationArgs | None = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        resources = (args or NodeResourcesBalancedAllocationArgs()).resources
        self._resources = tuple((each.name, each.weight) for each in resources)
        self._names = tuple(name for name, _ in self._resources)
        self._extended = ExtendedResources.of(handle)

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        requests = requests_of(pod, self._names, use_requested=True)
        if not any(requests):
            return Status.skip()
        state.write(_REQUESTS, requests)
        return None

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NDArray[np.int64]:
        requests = state.get(_REQUESTS)
        if requests is None:  # a profile may do without PreScore
            requests = requests_of(pod, self._names, use_requested=True)
            if not any(requests):
                return np.zeros(len(nodes), dtype=np.int64)
        found = allocations(nodes, self._resources, requests, self._extended, use_requested=True)
        return balanced_allocation(found, len(nodes))

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment] | Status:
        return sign_resources(pod, self._extended)


def balanced_allocation(resources: Sequence[Allocation], size: int) -> NDArray[np.int64]:
    """Score int64[size] by the improvement of each node's balance; weights do not matter."""
    offered = np.zeros((len(resources), size), dtype=np.bool_)
    divisors = np.zeros((len(resources), size), dtype=np.float64)
    for row, each in enumerate(resources):
        np.not_equal(each.allocatable, 0, out=offered[row])
        np.maximum(each.allocatable, 1, out=divisors[row])
    # With the pod and without it at once, side by side. float64, in kube-scheduler's order of operations.
    fractions = np.zeros((len(resources), 2 * size), dtype=np.float64)
    for row, each in enumerate(resources):
        np.divide(each.requested, divisors[row], out=fractions[row, :size])
        np.divide(each.allocated, divisors[row], out=fractions[row, size:])
    np.minimum(fractions, 1.0, out=fractions)
    if offered.all():
        deviation = _deviation(fractions)
    else:
        deviation = _deviation_of_offered(fractions, np.concatenate((offered, offered), axis=1))
    # In 50..100; fewer than two resources balance perfectly.
    balance = ((1.0 - deviation) * float(MAX_SCORE)).astype(np.int64)
    return _HALF + (_HALF + balance[:size] - balance[size:]) // 2


def _deviation(fractions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return float64[n] from float64[k, n]: the deviation where every node offers all k resources."""
    if len(fractions) < _PAIR:
        return np.zeros(fractions.shape[1], dtype=np.float64)
    if len(fractions) == _PAIR:
        distance: NDArray[np.float64] = fractions[0] - fractions[1]
        return np.abs(distance / 2.0, out=distance)
    mean = _sum(fractions) / len(fractions)
    variance = _sum((fractions - mean) * (fractions - mean)) / len(fractions)
    return np.sqrt(variance, out=variance)


def _deviation_of_offered(fractions: NDArray[np.float64], offered: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return float64[n]: the same where nodes offer different resources; nodes that offer the same go together."""
    ids = np.zeros(fractions.shape[1], dtype=np.int64)
    kinds: list[list[int]] = [[]]
    for resource, offers in enumerate(offered):
        ids, keys = split(ids, offers, len(kinds))
        kinds = [[*kinds[key >> 1], resource] if key & 1 else kinds[key >> 1] for key in keys]
    deviation = np.zeros(fractions.shape[1], dtype=np.float64)
    for kind, resources in enumerate(kinds):
        alike = ids == kind
        deviation[alike] = _deviation(fractions[resources][:, alike])
    return deviation


def _sum(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    # Row by row, in the order of the resources, because float sums depend on the order.
    total = np.zeros(rows.shape[1], dtype=np.float64)
    for row in rows:
        total += row
    return total
