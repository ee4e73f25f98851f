"""NodeName: pods that name their node."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.framework import Code, CycleState
from pyscheduler.plugins.node_name import NodeName
from pyscheduler.testing.builders import make_node, make_pod


@pytest.mark.parametrize(
    ("wanted", "passed"),
    [
        pytest.param("", [True, True], id="any"),
        pytest.param("n1", [False, True], id="one of them"),
        pytest.param("gone", [False, False], id="none of them"),
    ],
)
def test_only_the_named_node_passes(wanted: str, passed: list[bool], snapshot_of: Callable[..., Snapshot]) -> None:
    """Every other node is unresolvable."""
    pod, nodes = make_pod("p", node_name=wanted), snapshot_of([make_node("n0"), make_node("n1")]).nodes
    statuses = NodeName().filter_nodes(CycleState(), pod, nodes)
    assert (statuses is None) == all(passed)
    if statuses is not None:
        assert [statuses.status(nodes.index(name)) is None for name in ("n0", "n1")] == passed
        status = statuses.status(nodes.index("n0"))
        assert status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        assert status.reasons == ("node(s) didn't match the requested node name",)


def test_signature_is_the_name() -> None:
    """Pods that name other nodes are judged differently."""
    assert NodeName().sign_pod(make_pod("p")) != NodeName().sign_pod(make_pod("p", node_name="n"))
