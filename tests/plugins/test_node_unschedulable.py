"""NodeUnschedulable: cordoned nodes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pyscheduler.api import Pod
from pyscheduler.framework import QueueingHint
from pyscheduler.plugins.node_unschedulable import NodeUnschedulable
from pyscheduler.testing.builders import make_node, make_pod

PLUGIN = NodeUnschedulable(None, SimpleNamespace(feature_gates={}))
TOLERATION = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}
PLAIN = make_pod("p")
TOLERANT = make_pod("p", tolerations=[TOLERATION])
OPEN, CORDONED = make_node("n"), make_node("n", unschedulable=True)


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
