"""TaintToleration: hard taints forbid, soft taints cost."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from pyscheduler.api import Node, Pod
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.framework import CycleState, QueueingHint
from pyscheduler.plugins.taint_toleration import TaintToleration
from pyscheduler.testing.builders import make_node, make_pod

HANDLE = SimpleNamespace(feature_gates={})
HARD = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
EVICT = {"key": "broken", "effect": "NoExecute"}
SOFT = {"key": "slow", "effect": "PreferNoSchedule"}
SOFTER = {"key": "old", "effect": "PreferNoSchedule"}
NODES = [
    make_node("plain"),
    make_node("hard", taints=[HARD]),
    make_node("evict", taints=[EVICT]),
    make_node("soft", taints=[SOFT]),
    make_node("both", taints=[SOFT, SOFTER]),
]
PLAIN = make_pod("p")
DB = make_pod("p", tolerations=[{"key": "dedicated", "value": "db"}])


@pytest.mark.parametrize(("gate", "passes"), [pytest.param(False, False, id="off"), pytest.param(True, True, id="on")])
def test_comparisons_follow_their_feature_gate(gate: bool, passes: bool, snapshot_of: Callable[..., Snapshot]) -> None:
    """Without TaintTolerationComparisonOperators, Gt and Lt tolerate nothing."""
    handle = SimpleNamespace(feature_gates={"TaintTolerationComparisonOperators": gate})
    nodes = snapshot_of([make_node("n", taints=[{"key": "sla", "value": "900", "effect": "NoSchedule"}])]).nodes
    pod = make_pod("p", tolerations=[{"key": "sla", "operator": "Gt", "value": "800", "effect": "NoSchedule"}])
    assert (TaintToleration(None, handle).filter_nodes(CycleState(), pod, nodes) is None) is passes


@pytest.mark.parametrize(
    ("pod", "old", "new", "expected"),
    [
        pytest.param(PLAIN, None, NODES[0], QueueingHint.QUEUE, id="a new node"),
        pytest.param(PLAIN, None, NODES[1], QueueingHint.SKIP, id="a new node, tainted"),
        pytest.param(DB, None, NODES[1], QueueingHint.QUEUE, id="a new node, tolerated"),
        pytest.param(PLAIN, NODES[1], NODES[0], QueueingHint.QUEUE, id="the taint went"),
        pytest.param(PLAIN, NODES[1], NODES[2], QueueingHint.SKIP, id="another taint came"),
        pytest.param(PLAIN, NODES[3], NODES[0], QueueingHint.SKIP, id="a soft taint went"),
        pytest.param(DB, NODES[1], NODES[0], QueueingHint.SKIP, id="it was tolerated anyway"),
    ],
)
def test_a_node_wakes_pods_that_may_use_it_now(pod: Pod, old: Node | None, new: Node, expected: QueueingHint) -> None:
    """A change helps if the pod could not use the node before and can now."""
    assert TaintToleration(None, HANDLE).after_node_change(pod, old, new) is expected


def test_a_toleration_wakes_its_pod() -> None:
    """Any new toleration of the pod itself may help, another pod's never."""
    plugin = TaintToleration(None, HANDLE)
    assert plugin.after_toleration_added(PLAIN, PLAIN, DB) is QueueingHint.QUEUE
    assert plugin.after_toleration_added(PLAIN, PLAIN, make_pod("q")) is QueueingHint.SKIP
