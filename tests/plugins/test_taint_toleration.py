"""TaintToleration: hard taints forbid, soft taints cost."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from pyscheduler.api import Node, Pod
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.framework import Code, CycleState, QueueingHint
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


@pytest.mark.parametrize(
    ("pod", "refused"),
    [
        pytest.param(PLAIN, ["hard", "evict"], id="no toleration"),
        pytest.param(DB, ["evict"], id="one tolerated"),
        pytest.param(make_pod("p", tolerations=[{"operator": "Exists"}]), [], id="everything tolerated"),
    ],
)
def test_untolerated_hard_taints_forbid_a_node(
    pod: Pod, refused: list[str], snapshot_of: Callable[..., Snapshot]
) -> None:
    """Preemption cannot help; soft taints forbid nothing."""
    nodes = snapshot_of(NODES).nodes
    statuses = TaintToleration(None, HANDLE).filter_nodes(CycleState(), pod, nodes)
    rows = {node.name: nodes.index(node.name) for node in NODES} if statuses is not None else {}
    found = {name: status for name, row in rows.items() if (status := statuses.status(row))}
    assert list(found) == refused
    assert {(status.code, status.reasons) for status in found.values()} <= {
        (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("node(s) had untolerated taint(s)",))
    }


@pytest.mark.parametrize(
    ("tolerations", "raw", "normalized"),
    [
        pytest.param([], [0, 0, 0, 1, 2], [100, 100, 100, 50, 0], id="each costs"),
        pytest.param(
            [{"key": "slow", "operator": "Exists"}], [0, 0, 0, 0, 1], [100, 100, 100, 100, 0], id="but for one"
        ),
        pytest.param(
            [{"key": "slow", "operator": "Exists", "effect": "NoSchedule"}],
            [0, 0, 0, 1, 2],
            [100, 100, 100, 50, 0],
            id="a toleration of hard taints does not count",
        ),
        pytest.param([{"operator": "Exists"}], [0] * 5, [100] * 5, id="none"),
    ],
)
def test_soft_taints_cost(
    tolerations: list[dict[str, str]], raw: list[int], normalized: list[int], snapshot_of: Callable[..., Snapshot]
) -> None:
    """The fewest untolerated soft taints score highest."""
    plugin, state, nodes = TaintToleration(None, HANDLE), CycleState(), snapshot_of(NODES).nodes
    pod = make_pod("p", tolerations=tolerations)
    assert plugin.pre_score(state, pod, nodes) is None
    scores, rows = plugin.score_nodes(state, pod, nodes), [nodes.index(node.name) for node in NODES]
    assert scores[rows].tolist() == raw
    plugin.normalize_scores(state, pod, scores)
    assert scores[rows].tolist() == normalized


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


def test_signature_is_the_tolerations() -> None:
    """Pods with other tolerations are judged differently."""
    assert TaintToleration(None, HANDLE).sign_pod(PLAIN) != TaintToleration(None, HANDLE).sign_pod(DB)
