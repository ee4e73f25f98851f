"""NodePorts: ports of the host."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyscheduler.api import Pod
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.framework import CycleState, QueueingHint
from pyscheduler.plugins.node_ports import NodePorts
from pyscheduler.testing.builders import make_pod


def using(name: str, *ports: tuple[str, str, int], node_name: str = "", nominated: str = "") -> Pod:
    """Make a pod that takes ports of its host, each as (address, protocol, port)."""
    entries = [{"hostIP": ip, "protocol": protocol, "hostPort": port} for ip, protocol, port in ports]
    spec = {"containers": [{"name": "c", "ports": entries}]}
    return make_pod(name, node_name=node_name, spec=spec, status={"nominatedNodeName": nominated})


def test_a_pod_without_ports_is_skipped(snapshot_of: Callable[..., Snapshot]) -> None:
    """Container ports that are not the host's concern nobody."""
    pod = using("p", ("", "TCP", 0))
    assert NodePorts().pre_filter(CycleState(), pod, snapshot_of([]).nodes).is_skip


WANTED = using("p", ("", "TCP", 80))


@pytest.mark.parametrize(
    ("deleted", "expected"),
    [
        pytest.param(using("q", ("", "TCP", 80), node_name="n"), QueueingHint.QUEUE, id="it had the port"),
        pytest.param(using("q", ("", "TCP", 80), nominated="n"), QueueingHint.QUEUE, id="it was promised the port"),
        pytest.param(using("q", ("", "TCP", 80)), QueueingHint.SKIP, id="it had no node"),
        pytest.param(using("q", ("", "TCP", 81), node_name="n"), QueueingHint.SKIP, id="it had another port"),
        pytest.param(using("q", node_name="n"), QueueingHint.SKIP, id="it had no port"),
    ],
)
def test_a_freed_port_wakes_pods(deleted: Pod, expected: QueueingHint) -> None:
    """The end of a pod helps if it gives back a port that this one wants."""
    assert NodePorts().after_pod_deleted(WANTED, deleted, None) is expected
