"""TaintToleration: hard taints forbid, soft taints cost."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.framework import CycleState
from pyscheduler.plugins.taint_toleration import TaintToleration
from pyscheduler.testing.builders import make_node, make_pod


@pytest.mark.parametrize(("gate", "passes"), [pytest.param(False, False, id="off"), pytest.param(True, True, id="on")])
def test_comparisons_follow_their_feature_gate(gate: bool, passes: bool, snapshot_of: Callable[..., Snapshot]) -> None:
    """Without TaintTolerationComparisonOperators, Gt and Lt tolerate nothing."""
    handle = SimpleNamespace(feature_gates={"TaintTolerationComparisonOperators": gate})
    nodes = snapshot_of([make_node("n", taints=[{"key": "sla", "value": "900", "effect": "NoSchedule"}])]).nodes
    pod = make_pod("p", tolerations=[{"key": "sla", "operator": "Gt", "value": "800", "effect": "NoSchedule"}])
    assert (TaintToleration(None, handle).filter_nodes(CycleState(), pod, nodes) is None) is passes
