"""NodeUnschedulable: cordoned nodes."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from pyscheduler.api import Pod
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.framework import Code, CycleState, QueueingHint
from pyscheduler.plugins.node_unschedulable import NodeUnschedulable
from pyscheduler.testing.builders import make_node, make_pod

PLUGIN = NodeUnschedulable(None, SimpleNamespace(feature_gates={}))
TOLERATION = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}
PLAIN = make_pod("p")
TOLERANT = make_pod("p", tolerations=[TOLERATION])
OPEN, CORDONED = make_node("n"), make_node("n", unschedulable=True)


def test_a_cordoned_node_is_unresolvable(snapshot_of: Callable[..., Snapshot]) -> None:
    """Preemption cannot help on a cordoned node."""
    nodes = snapshot_of([make_node("open"), make_node("cordoned", unschedulable=True)]).nodes
    statuses = PLUGIN.filter_nodes(CycleState(), PLAIN, nodes)
    assert statuses.status(nodes.index("open")) is None
    status = statuses.status(nodes.index("cordoned"))
    assert status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.reasons == ("node(s) were unschedulable",)
    assert PLUGIN.filter_nodes(CycleState(), TOLERANT, nodes) is None


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, OPEN, QueueingHint.QUEUE, id="a new node"),
        pytest.param(None, CORDONED, QueueingHint.SKIP, id="a new node, cordoned"),
        pytest.param(CORDONED, OPEN, QueueingHint.QUEUE, id="uncordoned"),
        pytest.param(OPEN, OPEN, QueueingHint.SKIP, id="was open before"),
        pytest.param(OPEN, CORDONED, QueueingHint.SKIP, id="cordoned"),
    ],
)
def test_a_node_that_opens_wakes_pods(old: object, new: object, expected: QueueingHint) -> None:
    """Only a node that takes pods now, and did not before, may help."""
    assert PLUGIN.after_node_change(PLAIN, old, new) is expected


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        pytest.param(TOLERANT, QueueingHint.QUEUE, id="the toleration"),
        pytest.param(make_pod("p", tolerations=[{"key": "x", "operator": "Exists"}]), QueueingHint.SKIP, id="another"),
        pytest.param(make_pod("q", tolerations=[TOLERATION]), QueueingHint.SKIP, id="another pod's"),
    ],
)
def test_a_toleration_wakes_its_pod(new: Pod, expected: QueueingHint) -> None:
    """The pod is tried again when it tolerates cordoned nodes by now."""
    assert PLUGIN.after_toleration_added(PLAIN, PLAIN, new) is expected


def test_signature_is_the_tolerations() -> None:
    """Pods with other tolerations are judged differently."""
    assert PLUGIN.sign_pod(PLAIN) != PLUGIN.sign_pod(TOLERANT)
