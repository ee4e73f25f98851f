"""Scoring by resources: the three strategies of NodeResourcesFit, and the balance."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from pyscheduler.api import Pod
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.framework import CycleState
from pyscheduler.framework.in_tree_args import (
    NodeResourcesFitArgs,
    RequestedToCapacityRatio,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)
from pyscheduler.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from pyscheduler.plugins.node_resources.fit import NodeResourcesFit
from pyscheduler.testing.builders import make_node, make_pod

GPU = "example.com/gpu"
NODE = make_node("n", allocatable={"cpu": "4", "memory": "8Gi", GPU: "4"})
TAKEN = make_pod("q", node_name="n", requests={"cpu": "1", "memory": "2Gi", GPU: "1"})
RISING = (UtilizationShapePoint(0, 0), UtilizationShapePoint(100, 10))


def fit(type_: str, *resources: ResourceSpec, shape: tuple[UtilizationShapePoint, ...] = RISING) -> NodeResourcesFit:
    """Make the plugin with a strategy; CPU and memory unless told otherwise."""
    chosen = {"resources": resources} if resources else {}
    ratio = RequestedToCapacityRatio(shape=shape)
    return NodeResourcesFit(
        NodeResourcesFitArgs(scoring_strategy=ScoringStrategy(type=type_, requested_to_capacity_ratio=ratio, **chosen))
    )


def score(
    plugin: NodeResourcesFit | NodeResourcesBalancedAllocation, pod: Pod, snapshot_of: Callable[..., Snapshot]
) -> int:
    """Score the node that is a quarter full."""
    state, nodes = CycleState(), snapshot_of([NODE], [TAKEN]).nodes
    assert plugin.pre_score(state, pod, nodes) is None
    return int(plugin.score_nodes(state, pod, nodes)[0])


@pytest.mark.parametrize(
    ("plugin", "requests", "expected"),
    [
        pytest.param(fit("LeastAllocated"), {}, (72 + 72) // 2, id="least, silent containers count 100m and 200Mi"),
        pytest.param(fit("LeastAllocated", ResourceSpec("hugepages-2Mi", 1)), {}, 0, id="least, nothing counts"),
        pytest.param(fit("RequestedToCapacityRatio"), {"cpu": "1", "memory": "4Gi"}, 63, id="ratio, rounded half up"),
    ],
)
def test_strategies(
    plugin: NodeResourcesFit, requests: Mapping[str, str], expected: int, snapshot_of: Callable[..., Snapshot]
) -> None:
    """Scores are those that kube-scheduler's formulas give."""
    assert score(plugin, make_pod("p", requests=requests), snapshot_of) == expected


def test_fit_scores_do_not_know_pod_level_requests(snapshot_of: Callable[..., Snapshot]) -> None:
    """As in kube-scheduler 1.36, the incoming pod's containers count, and its own requests do not."""
    pod = make_pod("p", requests={"cpu": "1", "memory": "4Gi"}, spec={"resources": {"requests": {"cpu": "3"}}})
    assert score(fit("LeastAllocated"), pod, snapshot_of) == (50 + 25) // 2


def test_best_effort_pods_are_not_balanced(snapshot_of: Callable[..., Snapshot]) -> None:
    """A pod that asks for nothing changes no balance."""
    nodes = snapshot_of([NODE]).nodes
    assert NodeResourcesBalancedAllocation().pre_score(CycleState(), make_pod("p"), nodes).is_skip
