"""NodePorts: ports of the host."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyscheduler.api import Pod
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.framework import Code, CycleState, QueueingHint
from pyscheduler.plugins.node_ports import NodePorts
from pyscheduler.testing.builders import make_node, make_pod


def using(name: str, *ports: tuple[str, str, int], node_name: str = "", nominated: str = "") -> Pod:
    """Make a pod that takes ports of its host, each as (address, protocol, port)."""
    entries = [{"hostIP": ip, "protocol": protocol, "hostPort": port} for ip, protocol, port in ports]
    spec = {"containers": [{"name": "c", "ports": entries}]}
    return make_pod(name, node_name=node_name, spec=spec, status={"nominatedNodeName": nominated})


@pytest.mark.parametrize(
    ("port", "fits"),
    [
        pytest.param(("", "TCP", 81), True, id="another port"),
        pytest.param(("", "UDP", 80), True, id="another protocol"),
        pytest.param(("10.0.0.2", "TCP", 80), True, id="another address"),
        pytest.param(("10.0.0.1", "TCP", 80), False, id="the same"),
        pytest.param(("", "TCP", 80), False, id="all addresses"),
        pytest.param(("10.0.0.1", "", 80), False, id="TCP when it does not say"),
    ],
)
def test_a_port_in_use_forbids_the_node(
    port: tuple[str, str, int], fits: bool, snapshot_of: Callable[..., Snapshot]
) -> None:
    """Address, protocol and port all have to clash; preemption may help."""
    placed = using("q", ("10.0.0.1", "TCP", 80), node_name="busy")
    nodes = snapshot_of([make_node("busy"), make_node("free")], [placed]).nodes
    plugin, state, pod = NodePorts(), CycleState(), using("p", port)
    assert plugin.pre_filter(state, pod, nodes) is None
    statuses = plugin.filter_nodes(state, pod, nodes)
    assert (statuses is None) is fits
    if statuses is not None:
        assert statuses.status(nodes.index("free")) is None
        status = statuses.status(nodes.index("busy"))
        assert status.code == Code.UNSCHEDULABLE
        assert status.reasons == ("node(s) didn't have free ports for the requested pod ports",)


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


def test_signature_is_the_ports() -> None:
    """Ports count, in whatever order, those of init containers too; addresses and protocols do not."""
    plugin = NodePorts()
    shuffled = using("p", ("", "UDP", 443), ("10.0.0.1", "TCP", 80))
    assert plugin.sign_pod(using("p", ("", "TCP", 80), ("", "TCP", 443))) == plugin.sign_pod(shuffled)
    assert plugin.sign_pod(WANTED) != plugin.sign_pod(shuffled)
